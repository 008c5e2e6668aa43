"""Validation translates the dev set as `evaluate --greedy` does: the same scores for the same weights and text."""

import json

import pytest

from seq2attn.experiment.experiment_config import ExperimentConfig
from seq2attn.training.train import train
from tests.support.commands import invoke_in
from tests.support.trainings import WORD_TOKENIZERS, content, metrics

FAST = {"kind": "adam", "lr": 0.1}
CHARACTERS = {"source": {"kind": "words"}, "target": {"kind": "characters"}}
BACKWARD = WORD_TOKENIZERS | {"right_to_left": True, "reverse_source": True}
CONFIGS = {
    "ordinary": {},
    "long lines": {"filters": {"max_length": 4}},
    "lowest limit": {"lengths": {"max_source_length": 2}},
    "characters": {"tokenizer": CHARACTERS},
    "from right to left": {"tokenizer": BACKWARD, "lengths": {"max_source_length": 3, "long_inputs": "truncate"}},
    "other limits": {"search": {"no_repeat_ngram_size": 1}, "lengths": {"max_length": 9, "min_length_ratio": 2}},
}
"""Configs whose greedy translations depend on their limits: the models repeat words without an end."""


@pytest.mark.parametrize("name", CONFIGS)
def test_the_scores_of_a_checkpoint_are_those_of_evaluate(corpus, name):
    options = dict(CONFIGS[name])
    filters, lengths, search = (options.pop(key, {}) for key in ("filters", "lengths", "search"))
    validation = {"every": "8 updates", "metric": "chrf"}
    values = content(corpus, "run", max_duration=["8 updates"], validation=validation, optimizer=FAST, **options)
    values["data"]["filters"] = filters
    values["search"] = {"kind": "beam", "beam_size": 2, "lengths": lengths, **search}
    run = train(ExperimentConfig.model_validate(values))
    dev = ("--source", "dev.src", "--reference", "dev.tgt")
    report = json.loads(invoke_in(corpus, "evaluate", run.folder, "--greedy", "--json", *dev).out)
    scores = {score["name"]: score["value"] for score in report["sets"]["dev.src"]["scores"]}
    (validated,) = metrics(run, "validation")
    assert [validated["bleu"], validated["chrf"]] == pytest.approx([scores["BLEU"], scores["chrF2"]], rel=1e-9)
    assert scores["chrF2"] > 0
