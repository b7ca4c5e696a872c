#!/usr/bin/env bash
# A campaign on Slurm: a server for every task, and the driver on the first node.
#
#   sbatch slurm.sh                                       two nodes, sixteen servers of one GPU
#   sbatch --ntasks-per-node=4 --gpus-per-task=2 slurm.sh --set engine.sglang.tp_size=2
#   MODEL=sdar-8b OUT=/shared/runs/sdar sbatch --nodes=1 slurm.sh
#
# OUT must be on storage that all nodes see. Arguments are --set KEY=VALUE, for the servers and the
# driver alike (own prompts: --set workload.name=jsonl --set workload.path=FILE).
# Submit it again after whatever ended it: what was recorded is not served again.
#SBATCH --job-name=dwise-profile
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8
#SBATCH --gpus-per-task=1
#SBATCH --cpus-per-task=8
#SBATCH --time=12:00:00
set -euo pipefail
MODEL=${MODEL:-llada2.1-mini}
OUT=${OUT:-$SLURM_SUBMIT_DIR/runs/$MODEL}
PORT=${PORT:-30000}

export MODEL PORT
export RECORDINGS=$OUT.recordings
mkdir -p "$RECORDINGS"
# The single quotes are meant: every task expands its own numbers.
# shellcheck disable=SC2016
srun --cpus-per-task="${SLURM_CPUS_PER_TASK:-8}" --kill-on-bad-exit=0 bash -c '
  exec dwise profile serve --model "$MODEL" "$@" --recording "$RECORDINGS/$SLURM_PROCID" \
    --host 0.0.0.0 --port $((PORT + 100 * SLURM_LOCALID)) >>"$RECORDINGS/$SLURM_PROCID.log" 2>&1
' serve "$@" &
steps=$!
trap 'kill "$steps" 2>/dev/null || true' EXIT

# A server that does not come up is left out after half an hour, as long as others answer.
servers=() deadline=$((SECONDS + 1800))
for node in $(scontrol show hostnames "$SLURM_JOB_NODELIST"); do
  for ((i = 0; i < SLURM_NTASKS_PER_NODE; i++)); do
    url=http://$node:$((PORT + 100 * i))
    until curl --noproxy '*' -sf -o /dev/null "$url/health"; do
      ((SECONDS < deadline)) || break
      kill -0 "$steps" 2>/dev/null || {
        echo "error: the servers ended, see $RECORDINGS/*.log" >&2
        exit 1
      }
      sleep 5
    done
    servers+=(--server "$url")
  done
done

dwise train --model "$MODEL" "$@" --out "$OUT" --resume "${servers[@]}"
