#!/usr/bin/env bash
# Tests and measurements on a GPU that is lent for minutes, each call in less than ten:
#   scripts/gpu.sh short|short-search|correctness|laws|counts|training|search|results [--dry-run]
# `short` (7 minutes) and `short-search` (4) are for 15 minutes in all, of which each start of a machine takes two:
# LIMIT is the time of a call in seconds.
# The log and the figures are written to $OUT (runs/gpu by default) as they come. The text is data/multi30k; wheels in
# build/wheels, for packages that a machine without network lacks, are unpacked. --dry-run prints the commands.
set -uo pipefail
cd "$(dirname "$0")/.."
call=${1:-}
dry=${2:-}
calls=(short short-search correctness laws counts training search results)
if [[ " ${calls[*]} " != *" $call "* || $# -lt 1 || $# -gt 2 || "${dry:---dry-run}" != --dry-run ]]; then
    echo "usage: scripts/gpu.sh ${calls[*]} [--dry-run], of which one call" >&2
    exit 2
fi
OUT=${OUT:-runs/gpu}
python=$(command -v python3 || command -v python)
export PYTHONPATH="$PWD:$PWD/scripts:$PWD/build/wheels/unpacked${PYTHONPATH:+:$PYTHONPATH}"
export PYTHONUNBUFFERED=1 OMP_NUM_THREADS=8
end=${LIMIT:-570}
failed=0

# A command with its limit in seconds: `step 60 COMMAND...`. SIGINT, as after Ctrl-C the benchmark ends its processes.
step() {
    local limit=$1 left=$((end - SECONDS))
    shift
    printf '== %s s:' "$limit"
    printf ' %q' "$@"
    echo
    if [ -n "$dry" ]; then return; fi
    if [ "$left" -lt 10 ]; then
        echo "== skipped: no time left"
        failed=1
        return
    fi
    timeout --signal=INT --kill-after=10 "$((limit < left - 5 ? limit : left - 5))" "$@"
    local status=$?
    echo "== exit $status after $SECONDS s of the call"
    if [ "$status" != 0 ]; then failed=1; fi
}

bench() { # SECONDS ARGUMENTS...
    step "$1" "$python" scripts/bench.py "${@:2}" --gpu --busy-ok --threads 8
}

seq2attn() { # SECONDS ARGUMENTS...
    step "$1" "$python" -m seq2attn "${@:2}"
}

measure() { # SECONDS ARGUMENTS...
    step "$1" "$python" scripts/gpu_measurements.py "${@:2}"
}

prepare() {
    nvidia-smi || { echo "there is no GPU"; exit 3; } # all tests would be skipped
    rm -rf runs/gpu-scratch
    for wheel in build/wheels/*.whl; do
        if [ -e "$wheel" ]; then "$python" -m zipfile -e "$wheel" build/wheels/unpacked; fi
    done
    # Without a package each command would fail by itself.
    "$python" - <<'END' || exit 3
import torch
print("torch", torch.__version__, "CUDA", torch.version.cuda, "cuDNN", torch.backends.cudnn.version())
assert torch.cuda.is_available(), "PyTorch sees no GPU"
import benchmark.command, seq2attn.cli, seq2attn.inference.translator
END
}

short() {
    export TORCH_CUDNN_SDPA_DEPRIORITIZED=1 # else Hugging Face waits for a plan of each new shape; ours never uses cuDNN's
    OMP_NUM_THREADS=2 step 160 "$python" -m pytest -m cuda tests/cuda -n 8 -p no:cacheprovider -ra --durations=10
    for padding_free in false true; do
        measure 45 counts configs/bench/transformer-base.yaml --out "$OUT/counts-$padding_free.json" \
            --set run_dir=runs/gpu-scratch/counts-$padding_free --set training.batch.padding_free=$padding_free
    done
    bench 130 train --model transformer-base --peers hf --rounds 1 --window 8 --warm 5 --out "$OUT/training.json"
}

short-search() {
    bench 75 fit --model transformer-base --peers "" --set training.batch.tokens=25000 \
        --set training.batch.micro_batch_tokens=25000 --set "training.max_duration=[300 updates]" \
        --set "training.validation.every=300 updates" --set training.lr_schedule.warmup_updates=100
    measure 110 search runs/bench/transformer-base --source data/multi30k/test_2016_flickr.de --out "$OUT/search.json"
}

correctness() {
    step 420 "$python" -m pytest -m cuda tests/cuda -p no:cacheprovider -ra --durations=15
}

laws() {
    for model in t r1; do
        bench 60 fit --model $model --peers ""
        seq2attn 45 doctor runs/bench/$model --device cuda --sentences 100
        for precision in float32 bfloat16; do # losses side by side
            seq2attn 45 train configs/bench/$model.yaml --set run_dir=runs/gpu-scratch/$precision-$model \
                --set training.precision=$precision --set "training.max_duration=[200 updates]" \
                --set training.report_every=20 --set "training.validation.every=200 updates"
        done
    done
}

counts() {
    for config in transformer-base r1; do
        measure 120 counts configs/bench/$config.yaml --out "$OUT/counts-$config.json" --set run_dir=runs/gpu-scratch/counts-$config
    done
    measure 120 counts configs/bench/transformer-base.yaml --out "$OUT/counts-packed.json" \
        --set run_dir=runs/gpu-scratch/counts-packed --set training.batch.padding_free=true
}

training() {
    bench 270 train --model transformer-base --peers hf --rounds 2 --window 10 --warm 15 --out "$OUT/training.json"
    bench 150 train --model transformer-big --peers hf --rounds 1 --window 10 --warm 10 --out "$OUT/training-big.json"
    bench 130 train --model r1 --peers plain --rounds 1 --window 10 --warm 10 --out "$OUT/training-r1.json"
}

search() {
    bench 120 fit --model transformer-base --peers ctranslate2 \
        --set training.batch.tokens=25000 --set training.batch.micro_batch_tokens=25000
    measure 330 search runs/bench/transformer-base --source data/multi30k/test_2016_flickr.de --out "$OUT/search.json"
    bench 120 search --model transformer-base --peers ctranslate2 --case "beam 5" --rounds 1 --out "$OUT/search-peers.json"
}

# The trainings of docs/results.md, eight at a time; a second call on the same machine trains what is left. The archive
# holds their results, for `seq2attn sweep CONFIG --leaderboard` elsewhere.
results() {
    export OMP_NUM_THREADS=2
    local precision=(--set changes.training.precision=bfloat16) methods=configs/sweeps/multi30k-methods.yaml
    seq2attn 265 sweep configs/sweeps/multi30k.yaml --jobs 8 "${precision[@]}"
    seq2attn 60 sweep $methods --jobs 8 "${precision[@]}" --set "trials=[{method: baseline}]"
    # minimum-risk training begins with a finished training of the baseline
    if [ -n "$dry" ] || [ -e runs/sweeps/multi30k-methods/trials/baseline/seed-1/result.json ]; then
        seq2attn 205 sweep $methods --jobs 8 "${precision[@]}"
    fi
    step 30 tar -czf "$OUT/results.tgz" --exclude=data --exclude=checkpoints --exclude=model.safetensors runs/sweeps
}

if [ -n "$dry" ]; then
    "$call"
    exit
fi
if [ "$call" != correctness ] && [ ! -e data/multi30k/train.de ]; then
    echo "scripts/gpu.sh: data/multi30k is missing: python scripts/download.py multi30k" >&2
    exit 2
fi
mkdir -p "$OUT"
{
    prepare
    "$call"
    exit "$failed"
} 2>&1 | tee "$OUT/$call.log"
exit "${PIPESTATUS[0]}"
