"""Laws of minimum risk training: equation 13 of Shen et al. 2016 over the candidates that the model samples."""

from copy import copy

import numpy as np
import pytest
import torch
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from seq2attn.data.collate import collate
from seq2attn.data.prepared_data import load_prepared
from seq2attn.experiment.evaluation_config import EvaluationConfig
from seq2attn.experiment.experiment_config import ExperimentConfig
from seq2attn.experiment.training_config import MinimumRiskConfig
from seq2attn.losses.training_loss import TrainingLoss
from seq2attn.models import build_model
from seq2attn.search.search_config import LengthsConfig, SampleConfig
from seq2attn.search.translate_ids import translate_ids
from seq2attn.tokenizers.vocabulary import EOS, Vocabulary, mark_unknown
from seq2attn.tokenizers.words import WordTokenizer, WordTokenizerConfig
from seq2attn.training.minimum_risk import MinimumRiskLoss, build_loss, expected_cost, sentence_metric
from tests.support.marks import slow_but
from tests.support.models import EVERY_DECODER, REPRESENTATIVE, model
from tests.support.trainings import BAHDANAU, MODELS, assert_exact_resume, content, log_of, metrics, train_run

PAIRS = [([4, 5, 6], [6, 5, 4]), ([7, 8], [8, 9, 10, 7, 5]), ([6], [6])]
TARGET = WordTokenizer(WordTokenizerConfig(), Vocabulary.from_tokens(["a", "cat", "sees", "the", "old", "dogs", "now"]))
METRIC = sentence_metric(EvaluationConfig(), "bleu", ["a cat"])


def objective(decoder="luong", metric=METRIC, dropout=0.0, **options):
    net = model("gru", decoder).train()
    for part in net.modules():
        if isinstance(part, torch.nn.Dropout):
            part.p = dropout
    config = MinimumRiskConfig(**{"num_samples": 6, "alpha": 0.4, **options})
    return MinimumRiskLoss(net, 0.1, config, metric, TARGET)


def call_with_seed(function, *arguments, seed=1):
    torch.manual_seed(seed)
    return function(*arguments)


def risk(log_probs, costs, alpha):
    """Equations 13 and 14 with NumPy, of one sentence."""
    weights = np.exp(alpha * (log_probs - np.max(log_probs)))
    return (weights / weights.sum()) @ costs


@pytest.mark.parametrize("alpha", [0.005, 1.0, 3.0])
def test_the_expected_cost_is_that_of_the_paper(alpha):
    rng = np.random.default_rng(0)
    log_probs, costs = -60 * rng.random((4, 5)), rng.random((4, 5))
    log_probs[1, 3:] = log_probs[3, 1:] = -np.inf
    found = expected_cost(torch.from_numpy(log_probs), torch.from_numpy(costs), alpha)
    expected = [
        risk(row[row > -np.inf], cost[row > -np.inf], alpha) for row, cost in zip(log_probs, costs, strict=True)
    ]
    np.testing.assert_allclose(found.numpy(), expected)


def test_its_gradient_raises_candidates_that_cost_less_than_expected():
    """For a table of logits: alpha Q(y) (cost(y) - risk), through the softmax of the table."""
    logits, alpha = torch.randn(7, dtype=torch.double, requires_grad=True), 0.7
    chosen, costs = torch.tensor([0, 2, 3, 6]), torch.tensor([0.0, 0.3, 0.9, 1.0], dtype=torch.double)

    def loss(table):
        return expected_cost(table.log_softmax(0)[chosen][None], costs[None], alpha).sum()

    assert torch.autograd.gradcheck(loss, logits)
    (found,) = torch.autograd.grad(loss(logits), logits)
    log_probs = logits.detach().log_softmax(0)
    q = (alpha * log_probs[chosen]).softmax(0)
    by_candidate = alpha * q * (costs - q @ costs)
    expected = torch.zeros_like(found).index_add(0, chosen, by_candidate) - log_probs.exp() * by_candidate.sum()
    torch.testing.assert_close(found, expected)
    assert found[0] < 0 < found[6]  # the best candidate becomes more probable, the worst less
    better = logits.detach() + torch.eye(7, dtype=torch.double)[0]
    assert loss(better) < loss(logits)


@pytest.mark.parametrize("decoder", slow_but(REPRESENTATIVE, EVERY_DECODER))
def test_the_loss_is_that_of_each_candidate_alone(decoder):
    """In value and gradient, by forced decoding of one pair after the other with a table of logits."""
    training, batch = objective(decoder), collate(PAIRS)
    loss = call_with_seed(training, batch)
    candidates = call_with_seed(training.sample, *zip(*PAIRS, strict=True))
    expected, likelihood = torch.zeros(()), 0.0
    for (source, _), ids in zip(PAIRS, candidates, strict=True):
        log_probs = torch.stack([training.model.token_log_probs([(source, one)]).sum() for one in ids])
        texts = [TARGET.decode(one) for one in ids]
        scores = [BLEU(effective_order=True).sentence_score(mark_unknown(text), texts[:1]).score for text in texts]
        weights = (training.config.alpha * log_probs).softmax(0)
        expected = expected + (weights * (1 - torch.tensor(scores) / 100)).sum()
        likelihood -= float(log_probs[0].detach())
    torch.testing.assert_close(loss.loss, expected)
    assert float(loss.negative_log_likelihood) == pytest.approx(likelihood, rel=1e-5)
    assert loss.num_target_tokens == sum(len(target) + 1 for _, target in PAIRS) and not loss.samples_attention
    parameters = [p for p in training.model.parameters() if p.requires_grad]
    pairs = [torch.autograd.grad(one, parameters, allow_unused=True) for one in (loss.loss, expected)]
    for found, right in zip(*pairs, strict=True):
        torch.testing.assert_close(found, right, rtol=1e-3, atol=1e-7)


def test_candidates_are_the_reference_and_distinct_samples_without_dropout():
    training = objective(dropout=0.6, num_samples=40)
    sources, references = zip(*PAIRS, strict=True)
    candidates = call_with_seed(training.sample, sources, references)
    assert all(part.training for part in training.model.modules())
    assert candidates == call_with_seed(training.sample, sources, references)
    assert candidates != call_with_seed(training.sample, sources, references, seed=2)
    torch.manual_seed(1)
    seed, lengths = int(torch.randint(2**62, ())), LengthsConfig(max_length=17, max_length_ratio=None)
    search = SampleConfig(num_samples=40, seed=seed, lengths=lengths)
    drawn = translate_ids(training.model.eval(), sources, search, budget=8192)
    for ids, reference, samples in zip(candidates, references, drawn, strict=True):
        assert ids[0] == tuple(reference) and len(set(ids)) == len(ids) > 5
        assert {*ids} == {tuple(reference), *(sample.tokens for sample in samples)}


def test_samples_have_the_same_maximum_length_and_prefix_for_any_source():
    training, references = objective(), [[4] * 20, [5]]
    with torch.no_grad():
        training.model.output_projection.bias[EOS] = -99.0
    training.target = copy(TARGET)
    training.target.line_prefix = (8, 7)
    for _, *samples in call_with_seed(training.sample, [[6], [7] * 9], references):
        assert {(len(ids), *ids[:2]) for ids in samples} == {(20 + 20 // 2 + 10, 8, 7)}


def test_validation_has_the_cross_entropy():
    training, batch = objective().eval(), collate(PAIRS)
    torch.testing.assert_close(vars(training(batch)), vars(TrainingLoss(training.model, 0.1)(batch)))


@pytest.mark.parametrize(
    ("name", "reference"), [("bleu", BLEU(effective_order=True, lowercase=True)), ("chrf", CHRF(lowercase=True))]
)
def test_costs_are_those_of_the_sentence_metric(name, reference):
    training = objective(metric=sentence_metric(EvaluationConfig(lowercase=True), name, ["a cat"]))
    ids = [tuple(TARGET.encode(text)) for text in ("a cat sees the dogs now", "a cat sees the dogs", "old", "")]
    scores = [reference.sentence_score(TARGET.decode(one), [TARGET.decode(ids[0])]).score for one in ids]
    assert training.costs(ids) == pytest.approx([1 - score / 100 for score in scores])
    assert training.costs(ids)[0] == pytest.approx(0, abs=1e-9) and training.costs(ids)[3] == 1


@pytest.mark.parametrize("name", [pytest.param("recurrent", marks=pytest.mark.slow), "transformer"])
@pytest.mark.slow
def test_resuming_is_exact(corpus, name):
    options = {"validation": {"every": "2 updates", "metric": "loss"}, "minimum_risk": {"num_samples": 3}}
    assert_exact_resume(corpus, 4, model=MODELS[name], **options)


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [0.005, 0.5])
def test_training_raises_the_metric_of_samples(alpha):
    training, batch = objective("luong", CHRF(), alpha=alpha, num_samples=30), collate(PAIRS)
    optimizer = torch.optim.Adam(training.model.parameters(), lr=0.02)

    def sampled_chrf():
        candidates = call_with_seed(training.sample, *zip(*PAIRS, strict=True), seed=99)
        return 1 - np.mean([np.mean(training.costs(ids)[1:]) for ids in candidates])

    before = sampled_chrf()
    for update in range(20):
        optimizer.zero_grad()
        call_with_seed(training, batch, seed=update).loss.backward()
        optimizer.step()
    assert sampled_chrf() > before + 0.1


@pytest.mark.slow
def test_a_run_continues_another_with_the_objective(corpus):
    train_run(corpus, "first", max_duration=["4 updates"])
    options = {"init_from": {"run_dir": str(corpus / "first")}, "minimum_risk": {"num_samples": 4, "metric": "chrf"}}
    run = train_run(corpus, "second", max_duration=["4 updates"], **options)
    assert "initial weights: those of" in log_of(run)
    rows = metrics(run, "train")
    assert rows and all(0 < row["loss"] < 1 < row["perplexity"] for row in rows)
    assert all(row["loss"] > 1 for row in metrics(run, "validation"))
    config = run.load_config().model_copy(update={"evaluation": EvaluationConfig(lowercase=True)})
    loss = build_loss(run.load().model, config, load_prepared(run.folder))
    assert isinstance(loss.metric, CHRF) and loss.metric.lowercase and loss.label_smoothing == 0.1


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("r_drop", 1.0),
        ("scheduled_sampling", {}),
        ("guided_alignment", {}),
        ("batch", {"padding_free": True}),
        ("compile", True),
    ],
)
def test_other_objectives_are_refused(corpus, key, value):
    with pytest.raises(ValueError, match=f"{key}.*with `minimum_risk`"):
        ExperimentConfig.model_validate(content(corpus, "run", minimum_risk={}, **{key: value}))


GUMBEL = {"score": {"kind": "coverage", "dim": 8}, "align": {"kind": "hard-gumbel"}}
TRANSFORMER = MODELS["transformer"]


@pytest.mark.parametrize(
    ("decoder", "message"),
    [
        (MODELS["hard"]["decoder"], "another alignment than `hard-reinforce`"),
        (BAHDANAU["decoder"] | {"attention": GUMBEL}, "another alignment than `hard-gumbel`"),
        (TRANSFORMER["decoder"] | {"layer_dropout": 0.1}, "needs `model.decoder.layer_dropout: 0`"),
        ({"kind": "ssru", "ffn_dim": 16, "layer_dropout": 0.1}, "needs `model.decoder.layer_dropout: 0`"),
    ],
)
def test_models_that_differ_from_candidate_to_candidate_are_refused(corpus, decoder, message):
    with pytest.raises(ValueError, match=message):
        ExperimentConfig.model_validate(
            content(corpus, "run", model={**TRANSFORMER, "decoder": decoder}, minimum_risk={})
        )


def test_all_candidates_of_a_sentence_are_scored_by_the_same_layers(corpus):
    """Layers of the encoder may be dropped: it is computed once for all."""
    encoder = TRANSFORMER["encoder"] | {"layers": 4, "layer_dropout": 0.5, "dropout": 0.0}
    fields = {"embeddings": {"dim": 8}, "encoder": encoder, "decoder": TRANSFORMER["decoder"] | {"dropout": 0.0}}
    fields["decoder"] |= {"attention_dropout": 0.0}
    options = content(corpus, "run", model=fields, minimum_risk={})
    net = build_model(ExperimentConfig.model_validate(options).model, 11, 11).train()
    training = MinimumRiskLoss(net, 0.1, MinimumRiskConfig(), METRIC, TARGET)
    candidates = [[(4,), (5, 6, 7), (8, 9, 10, 5, 6), (4,)], [(7,), (7, 7), (7,), (7, 7)]]
    found = [call_with_seed(training.log_probs, collate(PAIRS[:2]), candidates, seed=seed) for seed in range(4)]
    for one in found:
        torch.testing.assert_close(one[0, 0], one[0, 3])
        torch.testing.assert_close(one[1, :2], one[1, 2:])
    assert not torch.equal(found[0], found[1])
