"""Whole trainings on CUDA: memory that is short, exact resume, settings, and translating with what was trained."""

from __future__ import annotations

import pytest
import torch

from seq2attn.experiment import Experiment
from seq2attn.translator import Translator
from seq2attn.verifying.verify import verify_resume
from tests.cuda import DEVICE, MARKS
from tests.laws.small import MODELS, content, corpus, metrics, trained

pytestmark = MARKS
__all__ = ["corpus"]  # a fixture
SMALL = ("recurrent", "transformer")


@pytest.mark.parametrize("precision", ["bfloat16", "float32"])
@pytest.mark.parametrize("model", SMALL)
def test_a_training_learns_and_translates(corpus, model, precision):
    options = {"model": MODELS[model], "until": ["30 epochs"], "precision": precision}
    run = trained(corpus, "run", **options)
    losses = [line["loss"] for line in metrics(run, "train")]
    assert losses[-1] < 0.8 * losses[0]
    cuda, cudnn = torch.backends.cuda, torch.backends.cudnn
    assert not cuda.cudnn_sdp_enabled()
    assert cuda.matmul.allow_tf32 == cudnn.allow_tf32 == (precision == "bfloat16")
    translators = [Translator.load(run.folder, device) for device in ("cpu", DEVICE.type)]
    assert not cuda.matmul.allow_tf32 and not cudnn.allow_tf32
    lines = (corpus / "dev.src").read_text().splitlines()
    one, other = ([t.text for t in translator.translate(lines)] for translator in translators)
    assert sum(a == b for a, b in zip(one, other, strict=True)) >= len(lines) - 1


@pytest.mark.parametrize("model", SMALL)
def test_interrupted_trainings_end_as_if_they_had_not_been(corpus, model, tmp_path):
    config = content(corpus, "run", model=MODELS[model], deterministic=True)
    log = []
    compared = verify_resume(
        Experiment.model_validate(config), tmp_path / "home", log.append, updates=24, times=3, seed=1
    )
    assert [one for one in compared if not one.same] == [], log


@pytest.mark.parametrize("precision", ["bfloat16", "float32"])
def test_memory_that_is_short_is_shared_out_and_given_back(corpus, precision):
    wide = {**MODELS["transformer"], "embeddings": {"dim": 8, "tie": "output"}}
    wide["encoder"] = {**wide["encoder"], "feed_forward": 2**19}
    total = torch.cuda.get_device_properties(DEVICE).total_memory
    before = torch.cuda.memory_allocated()
    torch.cuda.set_per_process_memory_fraction(min(1.0, 1.5 * 2**30 / total))
    try:
        options = {"until": ["3 updates"], "batch": {"tokens": "fit"}, "precision": precision}
        run = trained(corpus, "run", model=wide, **options)
        assert "tokens fits" in (run.folder / "train.log").read_text()
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    torch.cuda.empty_cache()
    assert torch.cuda.memory_allocated() - before < 2**24
