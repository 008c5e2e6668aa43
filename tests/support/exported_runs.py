"""Runs with random weights that Hugging Face has too."""

from pathlib import Path

import torch

from seq2attn.config.load import load
from seq2attn.experiment.experiment_config import ExperimentConfig
from seq2attn.experiment.run_directory import RunDirectory
from seq2attn.io.weights import unique_state_dict
from seq2attn.models import build_model
from seq2attn.tokenizers.vocabulary import BOS, EOS
from tests.support.marian import SOURCE, TARGET

CONFIG = """\
run_dir: run
data:
  train: {kind: plain, source: train.de, target: train.en}
  dev: {kind: plain, source: train.de, target: train.en}
tokenizer: TOKENIZER
model:
  embeddings: {dim: 16, tie: all}
  encoder: {kind: transformer, layers: 2, heads: 2, ffn_dim: 32}
  decoder: {kind: transformer, layers: 1, heads: 4, ffn_dim: 24, attention: {score: {kind: multi-head, heads: 4}}}
search: {kind: beam, beam_size: 3, no_repeat_ngram_size: 1, lengths: {max_length: 9}}
"""
JOINT, EACH = "{joint: {kind: bpe}}", "{source: {kind: unigram}, target: {kind: bpe}}"
LINES = (*SOURCE, "", "Das\tHaus \u00a0 u\u0308ber dem Flu\u00df \u2581 ﬁx", "ÄÖÜ Ꙃ 😀 A\u030a", SOURCE[2] * 9)


def make_run(folder: Path, tokenizer: str = JOINT, changes: list[str] | None = None) -> RunDirectory:
    """`folder/run` with random weights; no translation ends before its limit, so that beams do not end by chance."""
    for suffix, lines in (("de", SOURCE), ("en", TARGET)):
        (folder / f"train.{suffix}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    too_long = "Ein neues Boot. " * 400  # more tokens than positions
    (folder / "lines").write_text("\n".join([*LINES, too_long, ""]), encoding="utf-8")
    (folder / "own.yaml").write_text(CONFIG.replace("TOKENIZER", tokenizer), encoding="utf-8")
    experiment = load(folder / "own.yaml", ExperimentConfig, changes or [])
    run = RunDirectory(folder / "run")
    run.save_config(experiment)
    text = [*SOURCE, *TARGET]
    if experiment.tokenizer.is_joint:
        source = target = experiment.tokenizer.per_side[0].train(text)
    else:
        source, target = (one.train(text) for one in experiment.tokenizer.per_side)
    source.save(run.folder / "source")
    target.save(run.folder / "target")
    torch.manual_seed(1)
    model = build_model(experiment.model, len(source.vocabulary), len(target.vocabulary))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * (0.35 if parameter.dim() > 1 else 0.1))
        model.output_projection.bias[[BOS, EOS]] += torch.tensor([1.0, -30.0])
    run.save_model(unique_state_dict(model), (source.vocabulary, target.vocabulary), {"checkpoints": []})
    return run
