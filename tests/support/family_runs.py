"""Untrained runs of every model family, with a small text, for tests of commands."""

from pathlib import Path
from typing import Any

import torch

from seq2attn.data.prepare import prepare
from seq2attn.experiment.experiment_config import ExperimentConfig
from seq2attn.experiment.run_directory import RunDirectory
from seq2attn.io.weights import unique_state_dict
from seq2attn.models import build_model
from tests.support.bert import make_bert
from tests.support.models import config
from tests.support.trainings import WORD_TOKENIZERS, WORDS, content, write_corpus

FAMILIES = {
    "bahdanau": ("gru", "bahdanau-gru"),
    "luong": ("gru", "luong-feeding", "general"),
    "luong without feeding": ("lstm", "luong", "dot", "local-m"),
    "local": ("gru", "luong-feeding", "general", "local-p"),
    "hard": ("gru", "bahdanau-gru", "additive", "hard-reinforce"),
    "monotonic": ("gru", "bahdanau-gru", "coverage", "monotonic"),
    "sparse": ("gru", "recurrent-previous-whole", "cosine", "entmax15"),
    "fixed": ("lstm", "fixed-lstm"),
    "convolutional": ("convolutional", "convolutional", "scaled-dot"),
    "transformer": ("transformer", "transformer", "multi-head"),
    "transformer, modern": ("transformer-relative", "transformer-rotary", "multi-head-2-groups"),
    "deep and shallow": ("transformer", "luong", "general"),
    "bert": ("bert", "luong", "general"),
}
"""Rows of the tables of `tests.support.models`: an encoder, a decoder, a score and an alignment."""


def make_run(folder: Path, encoder: str, *parts: str, tokenizer: dict[str, Any] = WORD_TOKENIZERS) -> RunDirectory:
    """An untrained run with large output weights, so that tokens differ in probability."""
    model = config(encoder, *parts).model_dump()
    if encoder == "bert":
        path = {"path": str(make_bert(folder / "bert", WORDS))}
        model["encoder"], tokenizer = {"kind": "bert", **path}, {**tokenizer, "source": {"kind": "wordpiece", **path}}
    values = content(write_corpus(folder, 40, 12, 9), "run", model=model, tokenizer=tokenizer)
    values["search"] = {"kind": "beam", "beam_size": 3, "lengths": {"max_length": 12}}
    experiment = ExperimentConfig.model_validate(values)
    prepared = prepare(experiment.data, experiment.tokenizer, experiment.run_dir, lambda line: None)
    run = RunDirectory(experiment.run_dir)
    run.save_config(experiment)
    torch.manual_seed(0)
    vocabularies = prepared.source.vocabulary, prepared.target.vocabulary
    net = build_model(experiment.model, *map(len, vocabularies))
    torch.nn.init.normal_(net.output_projection.weight, std=2.0)
    run.save_model(unique_state_dict(net), vocabularies, {"checkpoints": []})
    return run
