"""Laws of R-Drop, scheduled sampling, LayerDrop and word dropout: their formulas, and nothing outside training."""

import itertools
from dataclasses import replace

import pytest
import torch

from seq2attn.data.collate import collate
from seq2attn.encoders.transformer import TransformerEncoderConfig
from seq2attn.losses.scheduled_sampling import ScheduledSamplingConfig
from seq2attn.losses.training_loss import TrainingLoss
from seq2attn.models import ModelConfig, build_model
from seq2attn.models.seq2seq import TokenEmbedding
from seq2attn.nn.kernels.cross_entropy import symmetric_kl
from seq2attn.nn.packing import Sequences
from seq2attn.tokenizers.vocabulary import BOS
from tests.support.marks import slow_but
from tests.support.models import EVERY_DECODER, REPRESENTATIVE, calm, model
from tests.support.trainings import BPE_DROPOUT, MODELS, assert_exact_resume

PAIRS = [([3, 4, 5, 6], [5, 4, 3]), ([6, 5], [3, 3, 4, 6, 7])]
ALWAYS = ScheduledSamplingConfig(max_probability=1.0, warmup_updates=0)
LAYERS = {"kind": "transformer", "layers": 4, "heads": 2, "ffn_dim": 16, "dropout": 0, "layer_dropout": 0.5}


def hidden_of(net, batch):
    return net(batch.source, batch.sequences, batch.target).hidden.flatten(0, 1)[batch.label_index]


@pytest.mark.parametrize("decoder", slow_but(REPRESENTATIVE, EVERY_DECODER))
def test_r_drop_is_the_mean_of_two_passes_and_their_divergence(decoder):
    net, batch = model("transformer", decoder).train(), collate(PAIRS)
    net.target_embedding.dropout.p = 0.3
    torch.manual_seed(3)
    first, second = TrainingLoss(net, 0.1)(batch), TrainingLoss(net, 0.1)(batch)
    torch.manual_seed(3)
    divergence = symmetric_kl(hidden_of(net, batch), hidden_of(net, batch), net.output_projection)
    torch.manual_seed(3)
    loss = TrainingLoss(net, 0.1, r_drop=4.0)(batch)
    torch.testing.assert_close(loss.loss, (first.loss + second.loss) / 2 + 2 * divergence)
    likelihoods = first.negative_log_likelihood + second.negative_log_likelihood
    torch.testing.assert_close(loss.negative_log_likelihood, likelihoods / 2)
    assert divergence > 0 and loss.num_target_tokens == first.num_target_tokens
    calm_losses = [TrainingLoss(calm(net), 0.1, r_drop=weight)(batch) for weight in (4.0, None)]
    torch.testing.assert_close(*map(vars, calm_losses))


@pytest.mark.parametrize("decoder", slow_but(REPRESENTATIVE, EVERY_DECODER))
def test_sampled_inputs_are_the_predictions_of_the_token_before(decoder):
    net, batch = calm(model("transformer", decoder)), collate(PAIRS)
    predictions = net.log_probs(net(batch.source, batch.sequences, batch.target).hidden).argmax(-1)
    target = torch.cat([batch.target[:, :1], predictions[:, :-1]], 1)
    assert (batch.target[:, 0] == BOS).all() and not torch.equal(target, batch.target)
    expected = TrainingLoss(net)(replace(batch, target=target))
    sampled = TrainingLoss(net, scheduled_sampling=ALWAYS)
    torch.testing.assert_close(sampled.eval()(batch, update=1).loss, TrainingLoss(net)(batch).loss)
    calm(sampled).training = True
    torch.testing.assert_close(sampled(batch, update=1).loss, expected.loss)


def test_the_share_of_predictions_grows_to_its_maximum():
    sampling = ScheduledSamplingConfig(max_probability=0.4, warmup_updates=100)
    assert [sampling.probability(update) for update in (0, 25, 100, 900)] == pytest.approx([0, 0.1, 0.4, 0.4])
    net = calm(model("gru", "luong"))
    objective, batch = TrainingLoss(net, scheduled_sampling=sampling), collate([([3, 4], [5] * 400)])
    replaced = objective._replace_tokens(batch, 0.4).target != batch.target
    assert 0.3 < replaced.float().mean() < 0.5


@pytest.mark.parametrize("name", ["recurrent", "transformer"])
@pytest.mark.slow
def test_resuming_is_exact(corpus, name):
    methods = {"r_drop": 3.0, "scheduled_sampling": {"max_probability": 0.5, "warmup_updates": 6}}
    assert_exact_resume(corpus, 8, model=MODELS[name], tokenizer=BPE_DROPOUT, **methods)


def test_layer_drop_skips_layers_in_training_only():
    """The outputs are those of the model without some of its layers, and all 16 combinations come."""
    encoder = TransformerEncoderConfig.model_validate(LAYERS).build(8)
    embedded, sequences = torch.randn(1, 3, 8), Sequences(torch.ones(1, 3, dtype=torch.bool))
    layers, expected = encoder.layers, {}
    for kept in itertools.product([False, True], repeat=4):
        encoder.layers = torch.nn.ModuleList(itertools.compress(layers, kept))
        expected[kept] = encoder.eval()(embedded, sequences).keys
    encoder.layers = layers
    torch.testing.assert_close(encoder(embedded, sequences).keys, expected[True, True, True, True])
    encoder.train()
    found = [encoder(embedded, sequences).keys for _ in range(200)]
    matches = [[kept for kept, keys in expected.items() if torch.allclose(keys, one, atol=1e-6)] for one in found]
    assert all(len(match) == 1 for match in matches) and {match[0] for match in matches} == {*expected}


@pytest.mark.parametrize("kind", ["transformer", "ssru"])
def test_a_decoder_skips_layers_in_training_only(kind):
    attention = {"score": {"kind": "multi-head", "heads": 2}}
    decoder = {**LAYERS, "kind": kind, "layer_dropout": 0.999, "attention": attention}
    if kind == "ssru":
        del decoder["heads"]
    parts = {"embeddings": {"dim": 8}, "encoder": {"kind": "gru", "dim": 8}, "decoder": decoder}
    net, batch = build_model(ModelConfig.model_validate(parts), 9, 9), collate(PAIRS)
    hidden = hidden_of(net.eval(), batch)
    net.decoder.train()
    skipped = hidden_of(net, batch)
    net.decoder.layers = torch.nn.ModuleList()
    net.decoder.eval()
    assert not torch.allclose(hidden, skipped)
    embedded = net.target_embedding(batch.target) + net.decoder.position_encoding(torch.arange(batch.target.size(1)))
    torch.testing.assert_close(skipped, net.decoder.norm(embedded).flatten(0, 1)[batch.label_index])


def test_word_dropout_drops_whole_tokens():
    embedding = TokenEmbedding(9, 8, scaled=False, dropout=0.0, word_dropout=0.25)
    ids = torch.randint(9, (40, 50))
    vectors = embedding.train()(ids)
    dropped = (vectors == 0).all(-1)
    assert 0.2 < dropped.float().mean() < 0.3
    torch.testing.assert_close(vectors[~dropped], embedding.embedding(ids)[~dropped] / 0.75)
    torch.testing.assert_close(embedding.eval()(ids), embedding.embedding(ids))
