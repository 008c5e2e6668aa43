#!/usr/bin/env bash
# From nothing to a translation with a picture of its attention: a few minutes on two processor cores.
#   bash scripts/demo.sh [FOLDER]      what it makes goes into FOLDER (demo)
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${1:-demo}
source scripts/environment.sh

rm -rf "$folder"
mkdir -p "$folder"
run="$folder/run"
seq2attn train configs/phrasebook.yaml --set "run=$run"

echo
echo "== Sentences"
seq2attn translate "$run" "Der kleine Hund schläft heute nicht." "Wir wollen morgen ein neues Haus kaufen."

echo
echo "== Test sets"
seq2attn evaluate "$run" --picture "$folder/bleu-by-length.png"

echo
echo "== Attention"
seq2attn translate "$run" "Wir wollen morgen ein neues Haus kaufen." --attention -
seq2attn translate "$run" "Wir wollen morgen ein neues Haus kaufen." --attention "$folder/attention.png" > /dev/null
echo "pictures: $folder/attention.png $folder/bleu-by-length.png"
