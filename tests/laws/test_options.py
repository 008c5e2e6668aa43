"""Laws of wiring: each option of a config reaches its component, and no other."""

import math
import sys
from copy import deepcopy
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from pydantic import TypeAdapter

from seq2attn.data.batch_planner import plan_batches
from seq2attn.data.collate import IGNORE_INDEX, collate, make_micro_batches
from seq2attn.data.prepared_data import load_prepared
from seq2attn.losses.scheduled_sampling import ScheduledSamplingConfig
from seq2attn.losses.training_loss import TrainingLoss
from seq2attn.models import ModelConfig, build_model
from seq2attn.optim.optimizers import parameter_groups
from seq2attn.search.search_config import SearchConfig
from seq2attn.search.translate_ids import translate_ids
from seq2attn.tokenizers.vocabulary import BOS, EOS, PAD
from seq2attn.training.distributed import DistributedContext, StopRequest
from seq2attn.training.loop import Trainer
from seq2attn.training.metrics_logger import MetricsLogger, Session
from seq2attn.training.minimum_risk import build_loss
from seq2attn.training.train_state import TrainState, update_seed
from seq2attn.training.validation import Validator
from tests.support.compare_runs import MEASUREMENTS
from tests.support.models import model
from tests.support.trainings import (
    BAHDANAU,
    BPE_DROPOUT,
    MODELS,
    WORD_TOKENIZERS,
    WORDS,
    last_weights,
    log_of,
    metrics,
    train_run,
)

WHOLE = {"batch": {"tokens": 10_000}, "max_duration": ["1 update"]}
"""One update with the whole text."""


def shrink_target_vocabulary(corpus):
    """Makes the vocabulary of the target smaller, and disjoint from the source."""
    for name in ("train", "dev"):
        target = corpus / f"{name}.tgt"
        target.write_text(target.read_text().replace("ul", "o").upper())


@pytest.mark.parametrize(("smoothing", "clip", "decay"), [(0.0, None, 0.0), (0.3, 0.05, 0.2)])
def test_an_update_is_its_formula(corpus, smoothing, clip, decay):
    """Gradient of the label-smoothed cross-entropy per token, clipped, plus weight decay, times the learning rate."""
    shrink_target_vocabulary(corpus)
    sgd = {"kind": "sgd", "lr": 2.0, "weight_decay": decay}
    options = {"lr_schedule": {"kind": "constant", "warmup_updates": 4}, "label_smoothing": smoothing, "seed": 3}
    run = train_run(corpus, "run", optimizer=sgd, max_grad_norm=clip, **options, **WHOLE)
    prepared = load_prepared(run.folder)
    torch.manual_seed(3)
    sizes = len(prepared.source.vocabulary), len(prepared.target.vocabulary)
    model = build_model(ModelConfig.model_validate(BAHDANAU), *sizes)
    pairs = prepared.train.corpus
    batch = collate([pairs[row] for row in range(len(pairs))])
    logits = model.output_projection(model(batch.source, batch.sequences, batch.target).hidden)
    labels = batch.labels.flatten()
    loss = F.cross_entropy(logits.flatten(0, 1), labels, ignore_index=IGNORE_INDEX, label_smoothing=smoothing)
    loss.backward()
    norm = math.sqrt(sum(float(p.grad.pow(2).sum()) for p in model.parameters()))
    assert clip is None or norm > clip
    share = 1.0 if clip is None else clip / norm
    expected = {name: p - 0.5 * (share * p.grad + decay * p) for name, p in model.named_parameters()}
    actual = last_weights(run)
    for name, weights in expected.items():
        torch.testing.assert_close(actual[name], weights.detach(), rtol=1e-4, atol=1e-6, msg=name)
    report = metrics(run, "train")[-1]
    nll = F.cross_entropy(logits.flatten(0, 1), labels, ignore_index=IGNORE_INDEX)
    assert report["loss"] == pytest.approx(loss.item(), rel=1e-4)
    assert report["perplexity"] == pytest.approx(nll.exp().item(), rel=1e-4)
    assert (report["learning_rate"], report["gradient_norm"]) == pytest.approx((0.5, norm), rel=1e-4)


def test_the_learning_rate_follows_epochs_or_updates(corpus):
    options = {"batch": {"tokens": 200}, "report_every": 1}
    halving = {"kind": "halving", "start_epoch": 1.0, "every_epochs": 0.5}
    run = train_run(corpus, "halving", lr_schedule=halving, max_duration=["3 epochs"], **options)
    rates = [line["learning_rate"] for line in metrics(run, "train")]
    epoch = len(rates) // 3
    assert epoch > 1
    assert rates == pytest.approx([0.01 * 0.5 ** max(0, 2 * n // epoch - 1) for n in range(3 * epoch)])
    noam = {"kind": "noam", "dim": 16, "warmup_updates": 2}
    run = train_run(corpus, "noam", lr_schedule=noam, max_duration=["4 updates"], **options)
    for n, line in enumerate(metrics(run, "train"), 1):
        assert line["learning_rate"] == pytest.approx(0.01 * 16**-0.5 * min(n**-0.5, n * 2**-1.5))


def trainer_of(run, loss_module, state, rank=0):
    logger = MetricsLogger(run, is_main_process=False, since=None, tensorboard=False)
    session = Session(run, DistributedContext(rank, 1, torch.device("cpu")), logger, StopRequest())
    optimizer = torch.optim.SGD(parameter_groups(loss_module, {}), lr=0.1)
    return Trainer(run.load_config(), load_prepared(run.folder), loss_module, optimizer, state, session)


def micro_batches_of(corpus, update):
    return make_micro_batches(corpus, update, packed=False, pinned=False)


def test_an_update_has_the_methods_of_its_config_its_number_and_the_baseline_so_far(corpus):
    sampling = {"max_probability": 1.0, "warmup_updates": 6}
    methods = {"r_drop": 2.0, "scheduled_sampling": sampling, "precision": "bfloat16"}
    sgd = {"optimizer": {"kind": "sgd", "lr": 1.0}, "max_grad_norm": None}
    run = train_run(corpus, "run", model=MODELS["hard"], **methods, **sgd, **WHOLE)
    prepared = load_prepared(run.folder)
    objective = build_loss(run.load().model, run.load_config(), prepared).train()
    expected = TrainingLoss(deepcopy(objective.model), 0.1, None, 2.0, ScheduledSamplingConfig(**sampling)).train()
    trainer = trainer_of(run, objective, TrainState(update=2, reinforce_baseline=-2.0))
    (part,) = micro_batches_of(prepared.train.corpus, [np.arange(9)])
    trainer.update([part], None)
    torch.manual_seed(update_seed(1, 3, 0))
    with torch.autocast("cpu", torch.bfloat16):
        loss = expected(part.batch, -2.0, 3).loss
    (loss / len(part.batch.label_index)).backward()
    for one, other in zip(objective.parameters(), expected.parameters(), strict=True):
        torch.testing.assert_close(one, other - other.grad)


def test_tensorboard_has_the_numbers_of_the_metrics(corpus, monkeypatch):
    purged, scalars = [], {}

    def writer(folder, purge_step):
        purged.append(purge_step)
        return SimpleNamespace(add_scalar=lambda name, *one: scalars.setdefault(name, []).append(one), close=list)

    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", SimpleNamespace(SummaryWriter=writer))
    for updates in (4, 6):
        run = train_run(corpus, "run", max_duration=[f"{updates} updates"], tensorboard=True, resume="if-exists")
    assert purged == [1, 5]  # a start drops what one before its first checkpoint left, and a resumption what came after
    for line in metrics(run):
        for name in line.keys() - {"kind", "update"} - MEASUREMENTS:
            assert (line[name], line["update"]) in scalars[f"{line['kind']}/{name}"]


def test_the_time_is_the_mean_over_processes(corpus, monkeypatch):
    """Here the other process has none to add."""
    run = train_run(corpus, "run", max_duration=["1 update"])
    trainer = trainer_of(run, TrainingLoss(run.load().model), TrainState())
    trainer.distributed = DistributedContext(0, 2, torch.device("cpu"))
    monkeypatch.setattr(torch.distributed, "all_reduce", lambda *_, **__: None)
    trainer.clock -= 7200
    trainer._update_clock()
    assert trainer.state.seconds // 60 == trainer.metrics.seconds // 60 == 60


def test_each_update_of_each_seed_and_process_has_its_own_dropout(corpus, monkeypatch):
    seeds, manual_seed = list[int](), torch.manual_seed
    monkeypatch.setattr(torch, "manual_seed", lambda seed: (seeds.append(seed), manual_seed(seed))[1])
    for seed in (1, 2):
        run = train_run(corpus, f"seed-{seed}", seed=seed, batch={"tokens": 200}, max_duration=["3 updates"])
    trainer = trainer_of(run, TrainingLoss(run.load().model), TrainState(), rank=1)
    train = trainer.prepared.train.corpus
    trainer.update(micro_batches_of(train, [np.arange(9)]), None)
    of_updates = [seed for seed in seeds if seed not in (1, 2)]  # the others are of the initial weights
    assert len(of_updates) == len({*of_updates}) == 3 + 3 + 1


@pytest.mark.parametrize("tokenizer", [WORD_TOKENIZERS, BPE_DROPOUT], ids=["words", "BPE-dropout"])
def test_each_epoch_has_its_own_batches_and_segmentation(corpus, tokenizer):
    options = {"batch": {"tokens": 200}, "report_every": 1, "max_duration": ["2 epochs"]}
    run = train_run(corpus, "run", tokenizer=tokenizer, seed=5, **options)
    train, num_tokens = load_prepared(run.folder).train, []
    for epoch in range(2):
        lengths = train.epoch_corpus(5, epoch).lengths
        batches = plan_batches(lengths, tokens=200, seed=5, epoch=epoch)
        num_tokens += [int((lengths[batch, 1] + 1).sum()) for batch in batches]
    assert [line["target_tokens"] for line in metrics(run, "train")] == np.cumsum(num_tokens).tolist()


def test_validation_translates_with_the_target_vocabulary(corpus):
    shrink_target_vocabulary(corpus)
    run = train_run(corpus, "run", validation={"every": "1 update", "metric": "bleu"}, **WHOLE)
    lines = (run.folder / "samples.txt").read_text().splitlines()
    texts = [line.split(":", 1)[1] for line in lines if line.startswith("translation:")]
    assert "".join(texts).strip() and all(text.isupper() for text in texts if text.strip())


def endless_model():
    """A model that never predicts EOS, and prefers BOS and PAD."""
    net = model("gru", "luong")
    with torch.no_grad():
        net.output_projection.bias[[PAD, BOS]], net.output_projection.bias[EOS] = 99.0, -99.0
    return net


@pytest.mark.parametrize("kind", ["greedy", "beam", "sample"])
def test_lengths_depend_on_the_source_and_special_tokens_are_never_predicted(kind):
    lengths = {"max_length_ratio": 1.5, "max_length": 15}
    search = TypeAdapter(SearchConfig).validate_python({"kind": kind, "lengths": lengths})
    for source, most in (([4], 11), ([4, 5], 13), ([4, 5, 6, 7], 15)):
        ((best, *_),) = translate_ids(endless_model(), [source], search, budget=100)
        assert len(best.tokens) == most and not {PAD, BOS, EOS} & {*best.tokens}


def test_translations_of_validation_have_the_lengths_of_the_search(corpus):
    run = train_run(corpus, "run", validation={"every": "1 update", "metric": "bleu"}, **WHOLE)
    config, prepared, net = run.load_config(), load_prepared(run.folder), run.load().model
    with torch.no_grad():
        net.output_projection.bias[EOS] = -99.0
    context = DistributedContext(0, 1, torch.device("cpu"))
    result = Validator(config, prepared, context).validate(TrainingLoss(net))
    lengths = [len(result.translations[row].split()) for row in range(len(prepared.dev))]
    assert lengths == [3 * length + 10 for length in prepared.dev.lengths[:, 0].tolist()]


@pytest.mark.parametrize(
    ("length_penalty", "divisor"),
    [("none", lambda n: 1.0), ("average", lambda n: n**0.7), ("gnmt", lambda n: ((5 + n) / 6) ** 0.7)],
)
def test_scores_have_the_length_penalty_of_the_config(length_penalty, divisor):
    lengths = {"length_penalty": length_penalty, "alpha": 0.7, "max_length": 9}
    search = TypeAdapter(SearchConfig).validate_python({"kind": "beam", "beam_size": 4, "lengths": lengths})
    (hypotheses,) = translate_ids(model("gru", "luong"), [[4, 5, 6]], search, budget=100)
    assert len(hypotheses) == 4
    for best in hypotheses:
        assert best.score == pytest.approx(best.log_prob / divisor(len(best.tokens) + 1), rel=1e-5)


def test_validation_has_no_dropout(corpus):
    run = train_run(corpus, "run", model=MODELS["transformer"], label_smoothing=0.2, **WHOLE)
    (line,), dev = metrics(run, "validation"), load_prepared(run.folder).dev
    net = run.load().model
    batch = collate([dev[row] for row in range(len(dev))])
    with torch.no_grad():
        logits = net.output_projection(net(batch.source, batch.sequences, batch.target).hidden).flatten(0, 1)
    loss = F.cross_entropy(logits, batch.labels.flatten(), ignore_index=IGNORE_INDEX, label_smoothing=0.2)
    assert line["loss"] == pytest.approx(loss.item(), rel=1e-5)


def test_pretrained_vectors_are_those_of_the_vocabulary_of_their_side(corpus):
    shrink_target_vocabulary(corpus)
    sides = {"source": WORDS[:30], "target": [word.upper() for word in WORDS[:30] if not word.endswith("ul")]}
    vectors = {side: torch.arange(8.0 * len(words)).view(-1, 8) / 100 for side, words in sides.items()}
    for side, words in sides.items():
        rows = zip(words, vectors[side].tolist(), strict=True)
        (corpus / side).write_text("".join(f"{word} {' '.join(map(str, row))}\n" for word, row in rows))
    embeddings = {"dim": 8} | {f"{side}_vectors": str(corpus / side) for side in sides}
    sgd = {"kind": "sgd", "lr": 1e-12}
    run = train_run(corpus, "run", model={**BAHDANAU, "embeddings": embeddings}, optimizer=sgd, **WHOLE)
    loaded = run.load()
    net, tokenizers = loaded.model, loaded.tokenizers
    for (side, words), tokenizer in zip(sides.items(), tokenizers, strict=True):
        embedding, size = getattr(net, f"{side}_embedding"), len(tokenizer.vocabulary)
        ids = [tokenizer.vocabulary.id(word) for word in words]
        torch.testing.assert_close(embedding(torch.tensor(ids)), vectors[side])
        others = torch.tensor(sorted({*range(size)} - {*ids}))
        assert len({*ids}) == len(words) and embedding(others).std() > 0.5  # initialized with a variance of one
        assert f"{side} vectors: pretrained vectors for {len(words)} of {size} tokens" in log_of(run)
