#!/usr/bin/env bash
# A campaign on one node of several GPUs: a server for every TP of them, and one driver.
#
#   ./one_node.sh                                         eight servers of one GPU
#   TP=2 ./one_node.sh                                    four servers of two GPUs
#   TP=8 ./one_node.sh --set engine.sglang.ep_size=8      one server, experts spread
#   MODEL=sdar-8b GPUS=4 ./one_node.sh
#
# Arguments are --set KEY=VALUE, for the servers and the driver alike (own prompts: --set
# workload.name=jsonl --set workload.path=FILE). Start it again after whatever ended it: what was
# recorded is not served again.
set -euo pipefail
MODEL=${MODEL:-llada2.1-mini}
OUT=${OUT:-runs/$MODEL}
GPUS=${GPUS:-8}
TP=${TP:-1}
PORT=${PORT:-30000}

((GPUS >= TP && GPUS % TP == 0)) || {
  echo "error: GPUS=$GPUS are not servers of TP=$TP" >&2
  exit 2
}
recordings=$OUT.recordings
settings=(--set "engine.sglang.tp_size=$TP" "$@")
mkdir -p "$recordings"
pids=() servers=()
trap '((${#pids[@]} == 0)) || kill "${pids[@]}" 2>/dev/null || true' EXIT
for ((i = 0; i < GPUS / TP; i++)); do
  # Ports far enough apart for those that SGLang takes beside its own.
  port=$((PORT + 100 * i))
  CUDA_VISIBLE_DEVICES=$(seq -s, $((i * TP)) $((i * TP + TP - 1))) \
    dwise profile serve --model "$MODEL" "${settings[@]}" \
    --recording "$recordings/$i" --port "$port" >>"$recordings/$i.log" 2>&1 &
  pids+=($!)
  servers+=(--server "http://127.0.0.1:$port")
done

for ((i = 0; i < GPUS / TP; i++)); do
  until curl --noproxy '*' -sf -o /dev/null "http://127.0.0.1:$((PORT + 100 * i))/health"; do
    kill -0 "${pids[$i]}" 2>/dev/null || {
      echo "error: server $i ended, see $recordings/$i.log" >&2
      exit 1
    }
    sleep 5
  done
done

dwise train --model "$MODEL" "${settings[@]}" --out "$OUT" --resume "${servers[@]}"
