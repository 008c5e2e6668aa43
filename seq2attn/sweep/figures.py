"""Figures of a report: BLEU by source length, and alignments (Bahdanau et al. 2015, figures 2 and 3)."""

from __future__ import annotations

from pathlib import Path

from seq2attn.config.plugin import plugin_modules
from seq2attn.data.readers import read_pairs
from seq2attn.inference.input_checks import InputChecker
from seq2attn.inference.load import load
from seq2attn.options import AttentionSelection, TranslationOptions
from seq2attn.sweep.plan import TrialRun
from seq2attn.sweep.recipe import Recipe
from seq2attn.sweep.record import Records
from seq2attn.visualization.attention import draw_attention
from seq2attn.visualization.curves import draw_bleu_by_length

NUM_ALIGNMENTS = 4
ALIGNMENT_LENGTHS = range(10, 21)
"""Number of words of the sentences whose alignments are drawn (Bahdanau et al. 2015, section 5.2.1)."""


def draw_figures(recipe: Recipe, records: Records, folder: Path) -> dict[str, Path]:
    """The figures of the recipe as SVG files, by their captions; those of finished trainings only."""
    figures = dict[str, Path]()
    if "bleu-by-length" in recipe.config.figures:
        first = {trial: next(iter(seeds.items())) for trial, seeds in records.items() if seeds}
        for name in recipe.plan.baseline.experiment.data.test if first else ():
            path = folder / f"bleu-by-length-{name}.svg"
            lines = {f"{trial} seed {seed}": record.sets[name].by_length for trial, (seed, record) in first.items()}
            draw_bleu_by_length(lines, path)
            figures[f"BLEU by source length, {name}"] = path
    if "alignments" in recipe.config.figures and (seeds := records[recipe.plan.baseline.name]):
        figures |= _draw_alignments(recipe, next(iter(seeds)), folder)
    return figures


def _draw_alignments(recipe: Recipe, seed: int, folder: Path) -> dict[str, Path]:
    """Attention weights of the baseline for the first sentences of usual length; the mean of all heads."""
    baseline = recipe.plan.baseline
    pairs = (pair for corpus in baseline.experiment.data.test.values() for pair in read_pairs(corpus))
    sources = [source for (source, _), _ in pairs if len(source.split()) in ALIGNMENT_LENGTHS]
    allowed = plugin_modules(baseline.experiment)  # the recipe names them
    translator = load(TrialRun(baseline, seed).folder, TranslationOptions(allow_code=[*allowed]))
    selection, figures = AttentionSelection(head="mean", whole_words=True), dict[str, Path]()
    checker = InputChecker()  # its warnings are those of the evaluation
    translations = translator.translate_iterable(sources[:NUM_ALIGNMENTS], attention=True, checker=checker)
    for number, translation in enumerate(translations, start=1):
        if (weights := translation.attention_weights) is None:  # of a plug-in without attention
            continue
        path = folder / f"alignment-{number}.svg"
        draw_attention(weights, path, selection)
        figures[f"Alignment {number}, {baseline.name} seed {seed}"] = path
    return figures
