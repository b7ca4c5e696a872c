#!/usr/bin/env bash
# A campaign on one machine, SGLang in the same process tree: profile, train, report.
#
#   ./one_gpu.sh                                          llada2.1-mini into runs/llada2.1-mini
#   MODEL=sdar-8b ./one_gpu.sh
#   ./one_gpu.sh --set engine.sglang.tp_size=2            two GPUs for one model
#   OUT=runs/1024 ./one_gpu.sh --set decoding.budget_tokens=1024
#
# Start it again after whatever ended it: it goes on where it was.
set -euo pipefail
MODEL=${MODEL:-llada2.1-mini}
OUT=${OUT:-runs/$MODEL}

exec dwise train --model "$MODEL" --out "$OUT" --resume "$@"
