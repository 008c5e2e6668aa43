"""Updates on CUDA: no synchronization with the host, and few kernel launches."""

import itertools
from pathlib import Path

import numpy as np
import pytest
import torch
import torch._dynamo

from seq2attn.config.load import load
from seq2attn.data.collate import collate, make_micro_batches
from seq2attn.data.corpus import Corpus
from seq2attn.data.prepared_data import load_prepared
from seq2attn.experiment.experiment_config import ExperimentConfig
from seq2attn.experiment.training_config import TrainingConfig
from seq2attn.losses.training_loss import TrainingLoss
from seq2attn.models import build_model
from seq2attn.nn.device import configure_cuda
from seq2attn.optim.lr_schedules import ConstantScheduleConfig
from seq2attn.optim.optimizers import parameter_groups
from seq2attn.training.distributed import DistributedContext, StopRequest
from seq2attn.training.loop import Trainer
from seq2attn.training.metrics_logger import MetricsLogger, Session
from seq2attn.training.train_state import TrainState
from tests.support.gpu import DEVICE, MARKS, launches, relative_distance
from tests.support.packed_models import loss_and_gradients, objective, random_pairs
from tests.support.trainings import train_run

pytestmark = MARKS
BENCH = Path(__file__).parents[2] / "configs" / "bench"


def random_corpus(count, tokens, vocabulary=8_000):
    """A corpus of `count` pairs of about `tokens` tokens."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(max(2, tokens - 8), tokens + 8, (count, 2))
    pairs = [tuple(rng.integers(4, vocabulary, n).tolist() for n in both) for both in lengths]
    return Corpus.from_pairs(pairs, vocabulary)


class Updates:
    """Updates of a config of the benchmark, with the dev set of another run."""

    def __init__(self, folder, name, vocabulary=8_000, **training):
        run = train_run(folder, "run", max_duration=["1 update"])
        experiment = load(BENCH / f"{name}.yaml", ExperimentConfig)
        config = TrainingConfig.model_validate({**experiment.training.model_dump(), **training})
        config = config.model_copy(update={"lr_schedule": ConstantScheduleConfig()})
        configure_cuda(DEVICE, tf32=True)
        model = build_model(experiment.model, vocabulary, vocabulary).to(DEVICE)
        optimizer = config.optimizer.build(parameter_groups(model, {}))
        logger = MetricsLogger(run, is_main_process=False, since=None, tensorboard=False)
        session = Session(run, DistributedContext(0, 1, DEVICE), logger, StopRequest())
        parts = load_prepared(run.folder), TrainingLoss(model, 0.1).train(), optimizer, TrainState(), session
        self.trainer = Trainer(experiment.model_copy(update={"training": config}), *parts)

    def parts(self, corpus):
        packed = self.trainer.training.batch.padding_free
        return make_micro_batches(corpus, [np.arange(len(corpus))], packed=packed, pinned=True)

    def update(self, parts):
        self.trainer.update(parts, None)


@pytest.mark.parametrize(("name", "packed"), [("t", False), ("t", True), ("r1", False)])
def test_an_update_does_not_synchronize(corpus, name, packed):
    """RNNs, as that of r1, have no padding-free batches."""
    updates = Updates(corpus, name, batch={"tokens": 4096, "padding_free": packed})
    pairs = random_corpus(60, 14)
    parts = updates.parts(pairs)
    updates.update(parts)  # one-time initialization may synchronize
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        updates.update(parts)
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize(("packed", "most"), [(False, 1_700), (True, 1_700)])
def test_an_update_of_the_base_transformer_is_few_launches(corpus, packed, most):
    updates = Updates(corpus, "transformer-base", batch={"tokens": 24_000, "padding_free": packed})
    pairs = random_corpus(1_600, 14)
    parts = updates.parts(pairs)
    updates.update(parts)
    assert 500 < launches(lambda: updates.update(parts)) < most


def test_attention_is_not_cudnns(corpus):
    """cuDNN builds a plan for each new shape."""
    updates = Updates(corpus, "t", batch={"tokens": 4096})
    pairs = random_corpus(60, 14)
    with torch.profiler.profile() as profile:
        updates.update(updates.parts(pairs))
        torch.cuda.synchronize()
    names = {event.key for event in profile.key_averages()}
    assert any("attention" in name for name in names)
    assert not any("cudnn_attention" in name for name in names)


@pytest.mark.parametrize("packed", [False, True])
def test_a_compiled_transformer_is_compiled_once_for_all_sizes(packed):
    torch._dynamo.reset()
    plain, compiled = objective().to(DEVICE), objective().to(DEVICE)
    compiled.model.compile(dynamic=True)
    with torch._dynamo.config.patch(error_on_recompile=True):
        for count, length in itertools.product((5, 7, 11, 33), (9, 20, 30)):
            batch = collate(random_pairs(count, length), packed=packed).to(DEVICE)
            with torch.autocast(DEVICE.type, torch.bfloat16):
                loss, gradients = loss_and_gradients(plain, batch)
                same, same_gradients = loss_and_gradients(compiled, batch)
            assert float(same.loss.detach()) == pytest.approx(float(loss.loss.detach()), rel=0.02)
            for name, gradient in gradients.items():
                if name.endswith("key_proj.bias"):  # adds the same to all scores of a query: only noise
                    largest = 0.1 * gradients[name.replace("key_proj", "query_proj")].norm()
                    assert max(gradient.norm(), same_gradients[name].norm()) < largest, name
                else:
                    assert relative_distance(same_gradients[name], gradient) < 0.1, name
    torch._dynamo.reset()
