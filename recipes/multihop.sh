#!/usr/bin/env bash
# A real pretrained model on real questions, from rows to a paired table: a mock worker follows the trail of the answer key through
# training questions over a fixed corpus; its trajectories become rows; a small chat model is trained on them, exported and
# verified; base and trained model answer the test questions, and the two runs are compared.
#
#   recipes/multihop.sh [FOLDER]          into FOLDER, runs/recipe-multihop if absent; it must not be there yet
#
# DATA is a folder in the multihop form (corpus.jsonl, train.jsonl, test.jsonl). MODEL is a folder as Hugging Face has it, such as
# `legwork fetch HuggingFaceTB/SmolLM2-135M-Instruct` makes; of a GGUF file recipes/multihop_from_gguf.py makes one. DEVICE is cuda
# or cpu, where a single epoch takes hours. LEGWORK is the program, `cargo run --release --quiet --` if absent; for a card it is
# built with `--features cuda`. STAGES are those to go through, `rows train eval` if absent, so that a card need only be there for
# the last two.
set -euo pipefail

stages="${STAGES:-rows train eval}"
out="${1:-runs/recipe-multihop}"
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
model="${MODEL:?MODEL is the folder of a model, such as models/SmolLM2-135M-Instruct}"
device="${DEVICE:-cuda}"
epochs="${EPOCHS:-5}" batch="${BATCH:-16}" rate="${RATE:-5e-4}" held="${HELD:-48}"

legwork() {
  # Unquoted: the default is a program with arguments.
  ${LEGWORK:-cargo run --release --quiet --} "$@"
}

say() { printf '\n==> %s\n' "$*"; }

common=(-c "$here/multihop.toml" --quiet --set "world={kind=\"multihop\",path=\"$out/world\"}" --set "index.cache=$out/indexes"
  --set "tokenizers.worker=$model/tokenizer.json")

make_rows() {
  if [[ -e "$out" ]]; then
    printf '%s is there already; name another folder or remove it\n' "$out" >&2
    exit 2
  fi
  data="${DATA:?DATA is the folder of corpus.jsonl, train.jsonl and test.jsonl}"
  mkdir -p "$out/world"
  # Addresses are left out, since they say what the titles say; so are questions whose documents a rule inferred, and two of three
  # that are answered by yes or no, since those can be guessed.
  say "the world: of training questions those with annotated documents, and of three answered by yes or no the first"
  sed -E 's/"url": "([^"\\]|\\.)*", //' "$data/corpus.jsonl" >"$out/world/corpus.jsonl"
  cp "$data/test.jsonl" "$out/world/test.jsonl"
  grep -v '"gold_source": "inferred"' "$data/train.jsonl" |
    awk '/"answers": \["(yes|no)"/ { if (asked++ % 3) next } { print }' >"$out/world/train.jsonl"

  say "a mock worker follows the trail of the answer key; what it finds of the test questions is what retrieval allows"
  legwork eval "${common[@]}" --run "$out/trail" --set run.split=train --set 'models.worker={mock="trail"}'
  legwork eval "${common[@]}" --run "$out/trail-test" --set 'models.worker={mock="trail"}'
  legwork verify "$out/trail"

  say "its trajectories, of questions answered rightly"
  legwork ledger export trajectories "$out/trail" --out "$out/core.jsonl" --split train

  say "no test question may be in them"
  legwork audit --train "$out/core.jsonl" --split test "${common[@]:0:2}" "${common[@]:3}"

  say "what of a row is learned"
  legwork mask show "$out/core.jsonl@[0:1]" --model "$model" --row 1 --plain

  say "a mix of one source: its manifest says what is in it"
  legwork mix --core "$out/core.jsonl@[$held:]" --repeat 1 --model "$model" --batch "$batch" --out "$out/mix"
}

train() {
  say "training"
  legwork train --plain --rows "$out/mix/mix.jsonl" --eval "$out/core.jsonl@[0:$held]" --model "$model" --out "$out/train" \
    --device "$device" --batch "$batch" --epochs "$epochs" --tokens-max 16384 --length-max 8192 --lr "$rate" --min-lr 5e-5 \
    --save-every 0 --eval-every 66
  legwork verify "$out/train"

  say "the last checkpoint as a Hugging Face folder"
  checkpoint="$(find "$out/train/checkpoints" -mindepth 1 -maxdepth 1 -name 'step-*' | sort | tail -n 1)"
  legwork export "$checkpoint" --original "$model" --out "$out/sft"
  legwork verify "$out/sft" --against "$model" --checkpoint "$checkpoint"
}

evaluate() {
  say "base and trained model answer the test questions"
  legwork eval "${common[@]}" --run "$out/eval-base" --model "$model" --device "$device" --set models.worker.engine.context=8192
  legwork eval "${common[@]}" --run "$out/eval-sft" --model "$out/sft" --device "$device" --set models.worker.engine.context=8192
  legwork verify "$out/eval-base"
  legwork verify "$out/eval-sft"

  say "before and after"
  legwork compare "$out/eval-base" "$out/eval-sft" --html "$out/compare.html"
}

for stage in $stages; do
  case "$stage" in
  rows) make_rows ;;
  train) train ;;
  eval) evaluate ;;
  *)
    printf 'a stage is rows, train or eval, not %s\n' "$stage" >&2
    exit 2
    ;;
  esac
done
