#!/usr/bin/env bash
# BLEU of decoding methods, each against beam search, by sacreBLEU's paired bootstrap:
# scripts/decoding.sh SOURCE REFERENCE FOLDER RUN [RUN OF AN ENSEMBLE]...
set -euo pipefail
source=$1 reference=$2 folder=$3 run=$4
systems=()
ensemble=()
for other in "${@:5}"; do
    ensemble+=(--ensemble "$other")
done
decode() {
    seq2attn translate "$run" -i "$source" -o "$folder/$1" "${@:2}"
    systems+=("$folder/$1")
}
mkdir -p "$folder"
decode beam-5 --beam 5 # sacreBLEU's baseline
decode greedy --greedy
decode beam-10 --beam 10
decode no-length-penalty --beam 5 --set search.lengths.length_penalty=none
gnmt=(--beam 5 --set search.lengths.length_penalty=gnmt)
decode gnmt-length-penalty "${gnmt[@]}"
decode gnmt-coverage-penalty "${gnmt[@]}" --set search.coverage_penalty=0.2
decode no-repeated-trigrams --beam 5 --set search.no_repeat_ngram_size=3
decode diverse-beam --set search.beam_size=10 --set search.num_beam_groups=5
decode mbr-of-beam --set search.beam_size=10 --set search.mbr=true
decode mbr-of-samples --mbr 50
if [ "${#ensemble[@]}" -gt 0 ]; then
    decode ensemble --beam 5 "${ensemble[@]}"
fi
python - "$reference" "${systems[@]}" <<'END'
import sys
from pathlib import Path

from seq2attn.experiment.evaluation_config import EvaluationConfig
from seq2attn.metrics.significance import paired_scores
from seq2attn.io.tables import format_table
from seq2attn.io.text_lines import read_lines

references, *systems = [list(read_lines(Path(name))) for name in sys.argv[1:]]
translations = {Path(name).name: lines for name, lines in zip(sys.argv[2:], systems, strict=True)}
metrics = EvaluationConfig().build(references)
(scores,) = paired_scores(metrics, translations, [references], ["bleu"]).values()
rows = [(name, f"{one.value:.2f}", "" if one.p_value is None else f"{one.p_value:.3f}") for name, one in scores.items()]
print(format_table([("search", "BLEU", "p"), *rows]), f"BLEU: {next(iter(scores.values())).signature}", sep="\n\n")
END
