#!/usr/bin/env bash
# Trains every step of docs/attention.md that is not trained yet, and draws each into a folder:
# scripts/attention.sh [FOLDER] [TRAIN OPTION]...
set -euo pipefail
case ${1:-/} in /*) ;; *) set -- "$PWD/$1" "${@:2}" ;; esac
cd "$(dirname "$0")/.."
folder=${1:-runs/attention}
shift || true
sentence="Dein Sohn hat den Brief nicht im Restaurant geschrieben."
reference="Your son did not write the letter in the restaurant."
mkdir -p "$folder"
draw() {
    local translation
    translation=$(
        seq2attn translate "runs/attention/$1" "$sentence" --overwrite --whole-words --attention "$folder/$2.png" "${@:3}"
    )
    echo "$2.png: $translation"
    if [ "$translation" != "$reference" ]; then
        echo "warning: $2.png shows a translation that is not the reference: $reference" >&2
    fi
}
for config in configs/attention/[0-9]*.yaml; do
    step=$(basename "$config" .yaml)
    if ! grep -qs "training ended after" "runs/attention/$step/train.log"; then
        seq2attn train "$config" --resume-if-exists "$@"
    fi
    seq2attn evaluate "runs/attention/$step"
    if [ "$step" != 01-without ]; then
        draw "$step" "$step"
    fi
done
draw 12-transformer 12-transformer-self --attention-kind encoder
seq2attn explore runs/attention/[0-9]*/ "$sentence" --overwrite -o "$folder/steps.html"
