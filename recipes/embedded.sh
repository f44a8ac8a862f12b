#!/usr/bin/env bash
# Makes the models that are part of the program: the worker before and after fine-tuning, and the embedder. Everything is made from
# generated archives of other seeds than the one that is asked of: their names, facts and questions are others, their grammar is the
# same.
#
#   recipes/embedded.sh [FOLDER]          into FOLDER, runs/recipe-embedded if absent; it must not be there yet
#
# It has not been run as one script. Its steps were, from a shorter one with fewer archives: those on one H200 took two and a half
# minutes (benches/results/2026-12-01-embedded-worker.md). The embedder trains on the processor. DEVICE=cpu with few worlds is for
# trying the chain out: CORE=2 GATED=1 LOOKUPS=2 TEXTS=1. LEGWORK is the program; with a card it is built by
# `cargo build --release --features cuda`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

out="${1:-runs/recipe-embedded}"
if [[ -e "$out" ]]; then
  printf '%s is there already; name another folder or remove it\n' "$out" >&2
  exit 2
fi
mkdir -p "$out/rows" "$out/worlds"

# How many archives give whole questions, of these how many give rows for a gate, how many give single steps, how many give texts.
core="${CORE:-24}" gated="${GATED:-17}" lookups="${LOOKUPS:-44}" texts="${TEXTS:-32}" pairs="${PAIRS:-11}"
# The first seed; the archive that is asked of has the seed 2026.
first=101
at_once="${AT_ONCE:-$(nproc)}"
device="${DEVICE:-cuda}"
teaching=(-p archive --set 'models.worker={mock="teacher"}' --set retrieval.mode=bm25 --set "index.cache=$out/indexes")
training=(--plain --bad-rows skip --device "$device" --min-lr 1e-4 --warmup 0.03 --tokens-max 20480 --save-every 0)

legwork() {
  # Unquoted: it may be a program with arguments.
  ${LEGWORK:-cargo run --release --quiet --} "$@"
}
say() { printf '\n==> %s\n' "$*"; }

# Rows of one archive: a teacher, which takes for an answer only what it has read, works through its questions.
one() {
  local seed="$1" split="$2" run="$out/run-$2-$1"
  legwork eval "${teaching[@]}" --quiet --run "$run" --set "run.split=$split" --set "world.seed=$seed" >"$run.txt" 2>&1
  legwork ledger export trajectories "$run" --out "$out/rows/$split-$seed.jsonl" --split "$split" >>"$run.txt" 2>&1
  if [[ "$split" == train ]] && ((seed < first + gated)); then
    legwork ledger export gate "$run" --out "$out/rows/gate-$seed.jsonl" --split train >>"$run.txt" 2>&1
  fi
  rm -rf "$run"
}

world() { legwork world --out "$out/worlds/$1" -p archive --split lookups --set "world.seed=$1" >/dev/null 2>&1; }

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

say "a teacher works through archives of other seeds"
{
  for seed in $(seq "$first" $((first + core - 1))); do echo "$seed train"; done
  for seed in $(seq "$first" $((first + lookups - 1))); do echo "$seed lookups"; done
} | each one
seq "$first" $((first + (texts > pairs ? texts : pairs) - 1)) | each world
cat "$out"/rows/train-*.jsonl >"$out/core.jsonl"
cat "$out"/rows/gate-*.jsonl >"$out/gate.jsonl"
cat "$out"/rows/lookups-*.jsonl >"$out/lookups.jsonl"
for seed in $(seq "$first" $((first + texts - 1))); do cat "$out/worlds/$seed/corpus.jsonl"; done >"$out/texts.jsonl"
for rows in "$out"/rows/train-*.jsonl; do head -n 120 "$rows"; done >"$out/words.jsonl"

say "no test question may be in them"
# Rows of other archives are worded by the same grammar, so that stretches of words agree where names do not: those are told. What
# must not be is a question itself, by its hash.
legwork audit --train "$out/core.jsonl" "$out/gate.jsonl" "$out/lookups.jsonl" --split test -p archive --json >"$out/audit.json" || true
grep -E '"(rows|by_hash|by_quote|by_trace)"' "$out/audit.json"
grep -q '"by_hash": 0' "$out/audit.json"

say "a new model, with a tokenizer of its own"
legwork init --out "$out/new" --texts "$out/words.jsonl" --vocabulary 4096 --hidden 256 --layers 8 --heads 4 --kv-heads 2 \
  --head-dim 64 --ffn 768 --context 4096

learn() { # name, model, rows, batch, rate
  say "$1"
  legwork train "${training[@]}" --rows "$3" --model "$2" --out "$out/train-$1" --batch "$4" --lr "$5"
  legwork verify "$out/train-$1"
  local checkpoint
  checkpoint="$(find "$out/train-$1/checkpoints" -mindepth 1 -maxdepth 1 -name 'step-*' | sort | tail -n 1)"
  legwork export "$checkpoint" --original "$2" --out "$out/$1" --dtype f16
  legwork verify "$out/$1" --against "$2" --checkpoint "$checkpoint"
}
learn texts "$out/new" "$out/texts.jsonl" 64 1.5e-3
learn worker-base "$out/texts" "$out/lookups.jsonl" 32 1.5e-3
legwork mix --core "$out/core.jsonl" --gate "$out/gate.jsonl" --model "$out/new" --out "$out/mix" --repeat 1 --batch 32 --bad-rows skip
learn worker "$out/worker-base" "$out/mix/mix.jsonl" 32 1.2e-3

say "the embedder, by single steps and the documents that answer them"
legwork init --out "$out/small" --texts "$out/worlds/$first/corpus.jsonl" --vocabulary 4096 --hidden 128 --layers 2 --heads 2 \
  --kv-heads 1 --head-dim 64 --ffn 384 --context 512
folders=()
for seed in $(seq "$first" $((first + pairs - 1))); do folders+=("$out/worlds/$seed"); done
legwork train-embedder --pairs "${folders[@]}" --model "$out/small" --out "$out/embedder" --batch 48 --steps-max "${STEPS:-420}" --lr 1e-3

say "they go to assets/ as they are"
printf '  cp -r %s/{worker,worker-base,embedder} assets/\n' "$out"
