#!/usr/bin/env bash
# Makes the models that are part of the program: the worker before and after fine-tuning, and the embedder. Everything is made from
# generated archives of other seeds than the one that is asked of: their names, facts and questions are others, their grammar is the
# same.
#
#   recipes/embedded.sh [FOLDER]          into FOLDER, runs/recipe-embedded if absent; it must not be there yet
#
# Two rounds on archives of their own, then fine-tuning. A round: pages with questions behind them, so that reading is learned
# (`legwork world --quizzes`); then single look-ups and how questions are begun (`--first-turns 1`), which gives the base. Fine-tuning:
# whole questions and what a gate says of them. Minutes on one card; the embedder trains on the processor. To try the chain out on a
# processor, in minutes too: DEVICE=cpu FIRST="2 1 2" SECOND="1 1 1" CORE=1 GATED=1 PAIRS=1 STEPS=2 ROWS=96. LEGWORK is the program; with a
# card it is built by `cargo build --release --features cuda`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

out="${1:-runs/recipe-embedded}"
if [[ -e "$out" ]]; then
  printf '%s is there already; name another folder or remove it\n' "$out" >&2
  exit 2
fi
mkdir -p "$out/rows" "$out/worlds"

# Archives of each round that give quizzes, look-ups and first turns.
read -r -a first <<<"${FIRST:-80 48 80}"
read -r -a second <<<"${SECOND:-50 24 60}"
# Archives of the second round that give whole questions, how many of these rows for a gate, and archives that give the embedder pairs.
core="${CORE:-40}" gated="${GATED:-34}" pairs="${PAIRS:-11}"
# The first seeds of the rounds; the archive that is asked of has the seed 2026.
seeds=(101 301)
at_once="${AT_ONCE:-$(nproc)}"
device="${DEVICE:-cuda}"
teaching=(-p archive --set 'models.worker={mock="teacher"}' --set retrieval.mode=bm25)
training=(--plain --bad-rows skip --device "$device" --min-lr 1e-4 --warmup 0.03 --tokens-max 20480 --save-every 0)

legwork() {
  # Unquoted: it may be a program with arguments.
  ${LEGWORK:-cargo run --release --quiet --} "$@"
}
say() { printf '\n==> %s\n' "$*"; }

# Rows of one archive: a teacher, which takes for an answer only what it has read, works through its questions. What is exported of
# its run follows: an export's name with its flags.
one() {
  local seed="$1" split="$2" run="$out/run-$2-$1" wanted
  legwork eval "${teaching[@]}" --quiet --run "$run" --set "run.split=$split" --set "world.seed=$seed" \
    --set "index.cache=$run.index" >"$run.txt" 2>&1
  for wanted in "${@:3}"; do
    case "$wanted" in
      plans) legwork ledger export trajectories "$run" --out "$out/rows/plans-$seed.jsonl" --all --first-turns 1 --split "$split" ;;
      gate) legwork ledger export gate "$run" --out "$out/rows/gate-$seed.jsonl" --split "$split" ;;
      *) legwork ledger export trajectories "$run" --out "$out/rows/$wanted-$seed.jsonl" --split "$split" ;;
    esac >>"$run.txt" 2>&1
  done
  rm -rf "$run" "$run.index"
}
world() { legwork world --out "$out/worlds/$1" -p archive --quizzes --split lookups --set "world.seed=$1" >/dev/null 2>&1; }

# Runs a function for each line of arguments, so many at once.
each() {
  local line
  while read -r line; do
    while (($(jobs -rp | wc -l) >= at_once)); do wait -n; done
    # Unquoted: the words of a line are its arguments.
    "$@" $line &
  done
  wait
}
of_seeds() { # KIND FIRST COUNT: those rows of so many archives
  local seed
  for seed in $(seq "$2" $(($2 + $3 - 1))); do cat "$out/rows/$1-$seed.jsonl"; done
}

say "a teacher works through archives of other seeds"
{
  for seed in $(seq "${seeds[0]}" $((seeds[0] + first[2] - 1))); do echo "$seed train plans"; done
  for seed in $(seq "${seeds[0]}" $((seeds[0] + first[1] - 1))); do echo "$seed lookups lookups"; done
  for seed in $(seq "${seeds[1]}" $((seeds[1] + (second[2] > core ? second[2] : core) - 1))); do
    echo "$seed train plans $( ((seed < seeds[1] + core)) && echo core) $( ((seed < seeds[1] + gated)) && echo gate)"
  done
  for seed in $(seq "${seeds[1]}" $((seeds[1] + second[1] - 1))); do echo "$seed lookups lookups"; done
} | each one
{
  seq "${seeds[0]}" $((seeds[0] + (first[0] > pairs ? first[0] : pairs) - 1))
  seq "${seeds[1]}" $((seeds[1] + second[0] - 1))
} | each world
of_seeds core "${seeds[1]}" "$core" >"$out/core.jsonl"
of_seeds gate "${seeds[1]}" "$gated" >"$out/gate.jsonl"
for round in 0 1; do
  [[ $round == 0 ]] && counts=("${first[@]}") || counts=("${second[@]}")
  for seed in $(seq "${seeds[$round]}" $((seeds[round] + counts[0] - 1))); do cat "$out/worlds/$seed/quizzes.jsonl"; done \
    >"$out/quizzes-$round.jsonl"
  { of_seeds lookups "${seeds[$round]}" "${counts[1]}" && of_seeds plans "${seeds[$round]}" "${counts[2]}"; } >"$out/steps-$round.jsonl"
done
for rows in "$out"/rows/lookups-*.jsonl; do head -n 120 "$rows"; done >"$out/words.jsonl"

say "no test question may be in them"
# Rows of other archives are worded by the same grammar, so that stretches of words agree where names do not: those are told. What
# must not be is a question itself, by its hash.
legwork audit --train "$out/core.jsonl" "$out/gate.jsonl" "$out"/steps-{0,1}.jsonl --split test -p archive --json >"$out/audit.json" || true
grep -E '"(rows|by_hash|by_quote|by_trace)"' "$out/audit.json"
grep -q '"by_hash": 0' "$out/audit.json"

say "a new model, with a tokenizer of its own"
legwork init --out "$out/new" --texts "$out/words.jsonl" --vocabulary 4096 --hidden 256 --layers 8 --heads 4 --kv-heads 2 \
  --head-dim 64 --ffn 768 --context 4096

learn() { # name, model, rows, rate; of the rows so many from the first, if ROWS says how many
  say "$1"
  legwork train "${training[@]}" --batch 48 --rows "$3${ROWS:+@[0:$ROWS]}" --model "$2" --out "$out/train-$1" --lr "$4"
  legwork verify "$out/train-$1"
  local checkpoint
  checkpoint="$(find "$out/train-$1/checkpoints" -mindepth 1 -maxdepth 1 -name 'step-*' | sort | tail -n 1)"
  legwork export "$checkpoint" --original "$2" --out "$out/$1" --dtype f16
  legwork verify "$out/$1" --against "$2" --checkpoint "$checkpoint"
}
learn reader-0 "$out/new" "$out/quizzes-0.jsonl" 1.5e-3
learn base-0 "$out/reader-0" "$out/steps-0.jsonl" 1.5e-3
learn reader-1 "$out/base-0" "$out/quizzes-1.jsonl" 1.2e-3
learn worker-base "$out/reader-1" "$out/steps-1.jsonl" 1.2e-3
legwork mix --core "$out/core.jsonl" --gate "$out/gate.jsonl" --model "$out/new" --out "$out/mix" --repeat 1 --batch 48 --bad-rows skip
learn worker "$out/worker-base" "$out/mix/mix.jsonl" 1.2e-3

say "the embedder, by single steps and the documents that answer them"
legwork init --out "$out/small" --texts "$out/worlds/${seeds[0]}/corpus.jsonl" --vocabulary 4096 --hidden 128 --layers 2 --heads 2 \
  --kv-heads 1 --head-dim 64 --ffn 384 --context 512
folders=()
for seed in $(seq "${seeds[0]}" $((seeds[0] + pairs - 1))); do folders+=("$out/worlds/$seed"); done
legwork train-embedder --pairs "${folders[@]}" --model "$out/small" --out "$out/embedder" --batch 48 --steps-max "${STEPS:-420}" --lr 1e-3

say "they go to assets/ as they are"
printf '  cp -r %s/{worker,worker-base,embedder} assets/\n' "$out"
