#!/usr/bin/env bash
# The whole chain over the embedded world, from nothing to a paired table: an oracle works through training questions; its
# trajectories become rows; a small model is made, trained on them, exported, verified and served; base and trained model answer
# the test questions; the two runs are compared.
#
#   recipes/archive.sh [FOLDER]           into FOLDER, runs/recipe-archive if absent; it must not be there yet
#
# LEGWORK is the program, `cargo run --release --` if absent. SIZE=small (a few minutes on two cores, what CI runs) or
# SIZE=full (all training questions; for a machine with more cores).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

out="${1:-runs/recipe-archive}"
size="${SIZE:-small}"
if [[ -e "$out" ]]; then
  printf '%s is there already; name another folder or remove it\n' "$out" >&2
  exit 2
fi
mkdir -p "$out"

legwork() {
  # Unquoted: the default is a program with arguments.
  ${LEGWORK:-cargo run --release --quiet --} "$@"
}

case "$size" in
small)
  tier=(--tier easy) questions=160 test_questions=20
  shape=(--vocabulary 1536 --hidden 96 --layers 3 --heads 6 --kv-heads 2 --ffn 256 --context 8192)
  train=(--batch 8 --epochs 2 --tokens-max 8192 --lr 3e-3 --min-lr 3e-4 --save-every 40 --keep-last 2)
  ;;
full)
  tier=() questions=680 test_questions=150
  shape=(--vocabulary 4096 --hidden 256 --layers 6 --heads 8 --kv-heads 4 --ffn 768 --context 16384)
  train=(--batch 32 --epochs 3 --tokens-max 16384 --lr 1e-3 --min-lr 1e-4 --save-every 50 --keep-last 2)
  ;;
*)
  printf 'SIZE is %s, expected small or full\n' "$size" >&2
  exit 2
  ;;
esac

say() { printf '\n==> %s\n' "$*"; }

say "an oracle plays the worker over training questions"
legwork eval --plain --quiet --run "$out/oracle" --set run.split=train --questions "$questions" "${tier[@]}" \
  --set models.worker.skill=perfect
say "its trajectories, and the gate's rows from their prefixes"
legwork ledger export trajectories "$out/oracle" --out "$out/core.jsonl" --split train
legwork ledger export gate "$out/oracle" --out "$out/gate.jsonl" --split train
