#!/usr/bin/env bash
# The run of the model card: core trajectories three times, gate rows until their tokens in the loss balance, seed 42; one epoch in
# slots of 32 from slot 1, context 40,960, the card's schedule, everything of the way forwards computed again, the model cut over four
# cards. Midway it is told to end and is resumed, as a scheduler would; the checkpoint is exported, verified, and asked.
#
#   recipes/card.sh [FOLDER]              into FOLDER, runs/recipe-card if absent; it must not be there yet
#
# MODEL is a folder as Hugging Face has it, such as `legwork fetch Qwen/Qwen3-4B` makes. CORE and GATE are chat rows, such as core.jsonl
# and gating/train.jsonl of the card's data sets; without them rows of random words are drawn in the card's proportions and lengths,
# enough for about 22 slots. TP are the ranks, DP the replicas. BESIDE names others, such as "tp=2 tp=1 dp=4", that make the first
# BESIDE_SLOTS slots of the same mixture, for their losses and rates beside it; STRAIGHT=1 makes the whole run once more without a break.
# DEVICE is cuda or cpu; LEGWORK is the program, `cargo run --release --quiet --` if absent; for cards it is built with
# `--features cuda`. SHORTER divides the lengths of drawn rows, to try the chain out with a small model.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

out="${1:-runs/recipe-card}"
model="${MODEL:?MODEL is the folder of a model, such as models/Qwen3-4B}"
device="${DEVICE:-cuda}" tp="${TP:-4}" dp="${DP:-1}" slots="${BESIDE_SLOTS:-6}" shorter="${SHORTER:-1}"
if [[ -n "${CORE:-}" && -z "${GATE:-}" || -z "${CORE:-}" && -n "${GATE:-}" ]]; then
  printf 'CORE and GATE are given both or neither\n' >&2
  exit 2
fi
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

# Rows of random words. Of the card's: 2,435 tokens in the loss of a core row, here in twelve turns between pages that fill most of
# the context; 94 of a gate row, after a part of a trajectory.
draw() { # SEED ROWS core|gate
  awk -v seed="$1" -v rows="$2" -v kind="$3" -v shorter="$shorter" '
    function dice(below) { state = (state * 16807) % 2147483647; return state % below }
    function words(count,   text) { for (text = ""; count > 0; count--) text = text " " word[dice(known)]; return substr(text, 2) }
    function say(role, count) { return ", {\"role\": \"" role "\", \"content\": \"" words(1 + int(count / shorter)) "\"}" }
    BEGIN {
      state = seed
      known = split("river stone market letter winter garden bridge window doctor summer island school church street number " \
        "village castle forest mountain harbor station library museum theater record paper story music point line field water " \
        "north south east west early late first second long short open close high low red green black white", list, " ")
      for (at = 1; at <= known; at++) word[at - 1] = list[at]
      for (row = 1; row <= rows; row++) {
        line = "{\"messages\": [{\"role\": \"system\", \"content\": \"" words(20) "\"}"
        if (kind == "core") {
          line = line say("user", 300)
          for (turn = 1; turn < 12; turn++) line = line say("assistant", 180 + dice(20)) say("user", 1000 + dice(2200))
          line = line say("assistant", 340)
        } else line = line say("user", 600 + dice(3000)) say("assistant", 70 + dice(30))
        print line "], \"metadata\": {\"question_id\": \"" kind "-" row "\"}}"
      }
    }'
}

# The last figure of that name that a run's record holds for each slot: slot, then figure.
figures() { # RUN NAME
  sed -nE "s/.*\"step\":([0-9]+),.*\"$2\":([-+.eE0-9]+).*/\1 \2/p" "$1/metrics.jsonl" | awk '{ last[$1] = $2 } END { for (slot in last) print slot, last[slot] }' | sort -n
}
slots_of() { figures "$1" took_ms | awk '{ last = $1 } END { print last + 0 }'; }
# The greatest relative difference of two runs over the slots that both made.
apart() { # RUN RUN NAME
  join <(figures "$1" "$3" | sort) <(figures "$2" "$3" | sort) | awk -v name="$3" '
    { off = $2 - $3; if (off < 0) off = -off; size = $2 < 0 ? -$2 : $2; if (size > 0 && off / size > most) most = off / size; count++ }
    END { printf "  %s: %.2e apart at most, over %d slots\n", name, most, count; exit count == 0 }'
}
# Tokens a second of a run, its first two slots left out: kernels are compiled and memory is reserved in them.
rate() {
  join <(figures "$1" tokens | sort) <(figures "$1" took_ms | sort) | sort -n | awk '
    NR > 2 { tokens += $2; ms += $3 } END { if (ms > 0) printf "%.0f", 1000 * tokens / ms; else printf "-" }'
}

if [[ -z "${CORE:-}" ]]; then
  say "rows of random words, in the card's proportions"
  draw 1 9 core >"$out/core.jsonl"
  draw 2 800 gate >"$out/gate.jsonl"
fi
core="${CORE:-$out/core.jsonl}" gate="${GATE:-$out/gate.jsonl}"

say "core and gate, balanced by tokens in the loss"
legwork mix --core "$core" --repeat 3 --gate "$gate" --seed 42 --batch 32 --model "$model" --out "$out/mix"

# Ranks take the first cards.
training() { # RUN TP DP [FLAG...]
  local cards="$device"
  if [[ "$device" == cuda ]]; then cards="cuda:$(seq -s, 0 $(($2 * $3 - 1)))"; fi
  exec ${LEGWORK:-cargo run --release --quiet --} train --plain --rows "$out/mix/mix.jsonl" --model "$model" --out "$1" --tp "$2" --dp "$3" \
    --device "$cards" --batch 32 --epochs 1 --first-slot 1 --lr 1e-5 --min-lr 1e-6 --warmup 0.1 --decay 0.1 --beta1 0.9 --beta2 0.95 \
    --tokens-max 40960 --length-max 40960 --keep-attention false --save-every 0 --keep-last 1 "${@:4}"
}
# Waits until a run has made so many slots, or is over.
until_slot() { # RUN SLOT PROCESS
  while kill -0 "$3" 2>/dev/null; do
    if [[ -f "$1/metrics.jsonl" ]] && (($(slots_of "$1") >= $2)); then return; fi
    sleep 0.5
  done
}

say "training, told to end midway"
planned=$(($(wc -l <"$out/mix/mix.jsonl") / 32))
(training "$out/train" "$tp" "$dp") &
process=$!
until_slot "$out/train" $((planned / 2)) "$process"
kill -TERM "$process"
wait "$process" || printf 'ended with exit code %d\n' $?

say "and resumed"
(training "$out/train" "$tp" "$dp" --resume)
legwork verify "$out/train"

say "the last checkpoint as a Hugging Face folder: rows that pad the vocabulary are gone, the others are there"
checkpoint="$(find "$out/train/checkpoints" -mindepth 1 -maxdepth 1 -name 'step-*' | sort | tail -n 1)"
legwork export "$checkpoint" --original "$model" --out "$out/sft"
legwork verify "$out/sft" --against "$model" --checkpoint "$checkpoint"

say "the export answers"
legwork eval -p archive-mock --quiet --run "$out/eval" --tier easy --questions 4 --model "$out/sft" --device "$device"
legwork verify "$out/eval"

if [[ -n "${STRAIGHT:-}" ]]; then
  say "the same without a break"
  (training "$out/straight" "$tp" "$dp")
  apart "$out/train" "$out/straight" loss
  apart "$out/train" "$out/straight" grad_norm
  rm -rf "$out/straight/checkpoints"
fi

printf '\n%-12s %s tokens/s over %s slots\n' "tp=$tp dp=$dp" "$(rate "$out/train")" "$(slots_of "$out/train")"
for layout in ${BESIDE:-}; do
  ranks=1 replicas=1
  case "$layout" in
  tp=*) ranks="${layout#tp=}" ;;
  dp=*) replicas="${layout#dp=}" ;;
  *)
    printf 'BESIDE holds tp=N or dp=N, not %s\n' "$layout" >&2
    exit 2
    ;;
  esac
  (training "$out/$layout" "$ranks" "$replicas" >"$out/$layout.txt" 2>&1) &
  process=$!
  until_slot "$out/$layout" "$slots" "$process"
  # At once: its checkpoint is of no use.
  kill -KILL "$process" 2>/dev/null || true
  wait "$process" 2>/dev/null || true
  printf '\n%-12s %s tokens/s over %s slots\n' "$layout" "$(rate "$out/$layout")" "$(slots_of "$out/$layout")"
  apart "$out/train" "$out/$layout" loss
  apart "$out/train" "$out/$layout" grad_norm
  rm -rf "$out/$layout/checkpoints"
done
