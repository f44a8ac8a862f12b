#!/usr/bin/env bash
# The whole chain over the embedded world, from nothing to a paired table: an oracle works through training questions; its
# trajectories become rows; a small model is made, trained on them, exported, verified and served; base and trained model answer
# test questions, and the two runs are compared.
#
#   recipes/archive.sh [FOLDER]           into FOLDER, runs/recipe-archive if absent; it must not be there yet
#
# LEGWORK is the program, `cargo run --release --quiet --` if absent. SIZE=small takes minutes on two cores, and CI runs it. SIZE=full
# takes every training question and a model of 11 million weights: about ten hours on two cores by its own estimate. It was begun
# there and not run to its end.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

out="${1:-runs/recipe-archive}"
if [[ -e "$out" ]]; then
  printf '%s is there already; name another folder or remove it\n' "$out" >&2
  exit 2
fi
mkdir -p "$out"

legwork() {
  # Unquoted: the default is a program with arguments.
  ${LEGWORK:-cargo run --release --quiet --} "$@"
}

say() { printf '\n==> %s\n' "$*"; }

case "${SIZE:-small}" in
small)
  config=(-c recipes/archive-small.toml)
  questions=(--tier easy)
  asked=(--tier easy --questions 30)
  rows='[0:192]' held='[192:208]' gate='[0:96]'
  shape=(--vocabulary 2048 --hidden 96 --layers 3 --heads 3 --kv-heads 1 --head-dim 32 --ffn 256 --context 4096)
  mixing=(--repeat 1 --batch 4)
  training=(--batch 4 --epochs 1 --tokens-max 4096 --lr 4e-3 --min-lr 4e-4 --save-every 40 --eval-every 40)
  ;;
full)
  config=(-p archive-mock)
  questions=()
  asked=()
  rows='[0:550]' held='[550:580]' gate='[0:4000]'
  shape=(--vocabulary 4096 --hidden 320 --layers 8 --heads 10 --kv-heads 2 --head-dim 32 --ffn 1024 --context 16384)
  mixing=(--repeat 3 --batch 32)
  training=(--batch 32 --epochs 3 --tokens-max 16384 --lr 1e-3 --min-lr 1e-4 --save-every 50 --eval-every 50)
  ;;
*)
  printf 'SIZE is %s, expected small or full\n' "$SIZE" >&2
  exit 2
  ;;
esac

say "an oracle plays the worker over training questions"
legwork eval "${config[@]}" --quiet --run "$out/oracle" "${questions[@]}" --set run.split=train \
  --set models.worker.skill=perfect
legwork verify "$out/oracle"

say "its trajectories, and rows for a gate from their prefixes"
legwork ledger export trajectories "$out/oracle" --out "$out/core.jsonl" --split train
legwork ledger export gate "$out/oracle" --out "$out/gate.jsonl" --split train

say "no test question may be in them"
legwork audit --train "$out/core.jsonl" "$out/gate.jsonl" --split test "${config[@]}"

say "a new model, with a tokenizer of its own"
legwork init --out "$out/base" --texts "$out/core.jsonl" "${shape[@]}"

say "what of a row is learned"
legwork mask show "$out/core.jsonl@[0:1]" --model "$out/base" --row 1 --plain

say "core and gate, balanced by tokens in the loss"
legwork mix --core "$out/core.jsonl@$rows" --gate "$out/gate.jsonl@$gate" --model "$out/base" --out "$out/mix" "${mixing[@]}"

say "training"
legwork train --plain --rows "$out/mix/mix.jsonl" --eval "$out/core.jsonl@$held" --model "$out/base" --out "$out/train" \
  "${training[@]}"
legwork verify "$out/train"

say "the last checkpoint as a Hugging Face folder"
checkpoint="$(find "$out/train/checkpoints" -mindepth 1 -maxdepth 1 -name 'step-*' | sort | tail -n 1)"
legwork export "$checkpoint" --original "$out/base" --out "$out/sft"
legwork verify "$out/sft" --against "$out/base" --checkpoint "$checkpoint"

say "base and trained model answer test questions in this process"
engine=(--set 'models.worker.engine={context=4096,cache_mib=256}')
legwork eval "${config[@]}" --quiet --run "$out/eval-base" "${asked[@]}" --model "$out/base" "${engine[@]}"
legwork eval "${config[@]}" --quiet --run "$out/eval-sft" "${asked[@]}" --model "$out/sft" "${engine[@]}"

say "the trained model served, and asked by its ids over HTTP"
# In place of a shell of its own, so that it is the server that is ended.
(exec ${LEGWORK:-cargo run --release --quiet --} serve model "$out/sft" --listen 127.0.0.1:0 --context 4096 --cache-mib 256) \
  >"$out/serve.txt" 2>&1 &
server=$!
trap 'kill "$server" 2>/dev/null || true' EXIT
for _ in {1..600}; do
  url="$(grep -oE 'http://127\.0\.0\.1:[0-9]+' "$out/serve.txt" || true)"
  if [[ -n "$url" ]]; then break; fi
  sleep 0.1
done
legwork eval "${config[@]}" --quiet --run "$out/eval-served" "${asked[@]}" --set "tokenizers.worker=$out/sft/tokenizer.json" \
  --set "models.worker={kind=\"sglang\",url=\"${url:?the server did not begin, see $out/serve.txt}\",model=\"sft\"}"
kill "$server"
wait "$server" || true

say "before and after; then in process and served"
legwork compare "$out/eval-base" "$out/eval-sft" --html "$out/compare.html"
legwork compare "$out/eval-sft" "$out/eval-served"
