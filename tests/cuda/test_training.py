"""Trainings on CUDA: batches that fit in memory, exact resume, precision, and translation."""

from pathlib import Path

import numpy as np
import pytest
import torch
from pydantic import TypeAdapter

import seq2attn
from seq2attn.data.collate import make_batch
from seq2attn.data.corpus import Corpus
from seq2attn.experiment.training_config import TrainingConfig
from seq2attn.losses.training_loss import TrainingLoss
from seq2attn.models import ModelConfig, build_model
from seq2attn.optim.optimizers import parameter_groups
from seq2attn.options import TranslationOptions
from seq2attn.training.distributed import DistributedContext
from seq2attn.training.memory import MIN_TOKENS, MemoryTrial
from seq2attn.training.resolve import MIN_UPDATES
from tests.support.gpu import DEVICE, MARKS
from tests.support.trainings import MODELS, assert_exact_resume, content, metrics, train_run

pytestmark = MARKS
SMALL = ("recurrent", "transformer")


@pytest.mark.parametrize("precision", ["bfloat16", "float32"])
@pytest.mark.parametrize("model", SMALL)
def test_a_training_learns_and_translates(corpus, model, precision):
    options = {"model": MODELS[model], "max_duration": ["80 updates"], "precision": precision}
    run = train_run(corpus, "run", validation={"every": "40 updates", "metric": "loss"}, **options)
    losses = [line["loss"] for line in metrics(run, "train")]
    assert losses[-1] < 0.9 * losses[0]
    cuda, cudnn = torch.backends.cuda, torch.backends.cudnn
    assert not cuda.cudnn_sdp_enabled()
    assert cuda.matmul.allow_tf32 == cudnn.allow_tf32 == (precision == "bfloat16")
    translators = [seq2attn.load(run.folder, TranslationOptions(device=device)) for device in ("cpu", DEVICE.type)]
    assert not cuda.matmul.allow_tf32 and not cudnn.allow_tf32
    lines = (corpus / "dev.src").read_text().splitlines()
    one, other = ([t.text for t in translator.translate(lines)] for translator in translators)
    assert sum(a == b for a, b in zip(one, other, strict=True)) >= len(lines) - 1


@pytest.mark.parametrize("model", SMALL)
def test_interrupted_trainings_equal_uninterrupted_ones(corpus, model):
    assert_exact_resume(corpus, 24, model=MODELS[model], deterministic=True)


@pytest.mark.parametrize("precision", ["bfloat16", "float32"])
def test_the_largest_batch_fits_and_a_larger_one_frees_its_memory(precision):
    wide = {**MODELS["transformer"]["encoder"], "ffn_dim": 2**13}
    described = content(Path(), "run", model={**MODELS["transformer"], "encoder": wide})["model"]
    model = build_model(TypeAdapter(ModelConfig).validate_python(described), 20, 20).to(DEVICE)
    objective, config = TrainingLoss(model).train(), TrainingConfig(precision=precision)
    optimizer, world = config.optimizer.build(parameter_groups(model, {})), DistributedContext(0, 1, DEVICE)
    corpus = Corpus.from_pairs([([4] * 7, [5] * 7)] * 10**6, 20)
    trial = MemoryTrial(config, objective, optimizer, world)
    objective(make_batch(corpus, np.arange(8)).to(DEVICE)).loss.backward()  # cuBLAS keeps a workspace for each thread
    objective.zero_grad(set_to_none=True)
    before = torch.cuda.memory_allocated()
    total = torch.cuda.get_device_properties(DEVICE).total_memory
    torch.cuda.set_per_process_memory_fraction(min(1.0, (before + 2**30) / total))
    try:
        tokens = trial.find_max_tokens(corpus, np.arange(10**6))
        assert MIN_TOKENS < tokens < 10**6 * 8 / MIN_UPDATES
        for size, fits in ((tokens, True), (8 * tokens, False)):
            assert trial.fits(corpus, np.arange(size // 8)) == fits
            assert torch.cuda.memory_allocated() - before < 2**24
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
        torch.cuda.empty_cache()
