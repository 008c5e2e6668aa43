"""Trainings with a small BERT."""

import pytest

from tests.support.bert import make_bert
from tests.support.trainings import WORDS


@pytest.fixture
def folder(corpus):
    return make_bert(corpus / "bert", WORDS)


def options(folder, **bert):
    path = str(folder)
    decoder = {"kind": "luong", "dim": 8, "attention": {"score": {"kind": "additive", "dim": 8}}}
    return {
        "tokenizer": {"source": {"kind": "wordpiece", "path": path}, "target": {"kind": "words"}},
        "model": {"embeddings": {"dim": 8}, "encoder": {"kind": "bert", "path": path, **bert}, "decoder": decoder},
    }
