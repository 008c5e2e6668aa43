#!/usr/bin/env bash
# From nothing to a translation with a picture of its attention: a few minutes on two processor cores.
#   bash scripts/demo.sh [FOLDER]      what it makes goes into FOLDER (demo)
set -euo pipefail
case ${1:-/} in /*) ;; *) set -- "$PWD/$1" ;; esac
cd "$(dirname "$0")/.."
folder=${1:-demo}
source scripts/environment.sh

run="$folder/run"
rm -rf "$run"
mkdir -p "$folder"
seq2attn train configs/phrasebook.yaml --set "run_dir=$run"

sentence="Die Mutter hat dem Kind gestern ein neues Buch gegeben."
echo
echo "== Sentences"
seq2attn translate "$run" "$sentence" "Morgen werden wir mit dem Zug nach Berlin fahren."

echo
echo "== Test sets: unseen combinations, and sentences longer than any in training"
seq2attn evaluate "$run" --plot "$folder/bleu-by-length.png"

echo
echo "== Attention"
seq2attn translate "$run" "$sentence" --attention -
seq2attn translate "$run" "$sentence" --attention "$folder/attention.png" > "$folder/translation.txt"
seq2attn explore "$run" "$sentence" -o "$folder/explorer.html"
echo
echo "pictures: $folder/attention.png $folder/bleu-by-length.png"
echo "why these words: open $folder/explorer.html, or run: seq2attn explore $run"
