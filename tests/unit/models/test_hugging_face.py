"""Random encoder-decoders of Hugging Face with their weights copied into ours: the same function.

Marian is post-norm with positions from a table, BART post-norm with GELU, Pegasus pre-norm. Marian's and Pegasus's
sinusoids have other wavelengths than ours, so that their tables go into learned positions. BART's two norms of the
embeddings are taken out of it: ours has none.
"""

import functools

import pytest
import torch
from torch import nn
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    GenerationConfig,
    LogitsProcessor,
    MarianConfig,
    MarianMTModel,
    PegasusConfig,
    PegasusForConditionalGeneration,
)

from seq2attn.data.collate import collate_source
from seq2attn.models import ModelConfig, build_model
from seq2attn.pretrained.bart import hf_name
from seq2attn.search.length_penalty import LengthLimits, LengthPenalty
from seq2attn.search.search import search
from seq2attn.search.strategies import NEG_INF, BeamSearch
from seq2attn.tokenizers.vocabulary import BOS, EOS, PAD

WORDS, DIM, HEADS, HIDDEN, LAYERS, PLACES = 23, 16, 4, 24, 2, 40
KINDS = {
    "marian": (MarianConfig, MarianMTModel, {"scale_embedding": True, "activation_function": "relu"}),
    "bart": (BartConfig, BartForConditionalGeneration, {"activation_function": "gelu"}),
    "pegasus": (PegasusConfig, PegasusForConditionalGeneration, {"activation_function": "relu"}),
}
SPECIAL = {
    "pad_token_id": PAD, "bos_token_id": BOS, "eos_token_id": EOS, "decoder_start_token_id": BOS,
    "forced_eos_token_id": None,
}  # fmt: skip
SOURCES = [[5, 9, 4], [7], [3, 3, 18, 11, 20, 6], [22, 10, 8, 8], [13, 4], [19, 17, 16, 15, 14, 13, 12]]
MAX_LENGTH = 14


def randomize(model):
    """Weights far from zero, also of norms; EOS is probable enough that translations end."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.add_(torch.randn_like(parameter) * 0.3)
        model.final_logits_bias.copy_(torch.randn(1, WORDS))
        model.final_logits_bias[0, EOS] = 1.5
    return model.double().eval()


@functools.cache
def theirs(kind):
    config, model, options = KINDS[kind]
    sizes = {
        f"{side}_{name}": size
        for side in ("encoder", "decoder")
        for name, size in (("layers", LAYERS), ("attention_heads", HEADS), ("ffn_dim", HIDDEN))
    }
    torch.manual_seed(4)
    sizes |= {"vocab_size": WORDS, "d_model": DIM, "max_position_embeddings": PLACES}
    net = model(config(attn_implementation="eager", **sizes, **SPECIAL, **options))
    if kind == "bart":
        for side in (net.model.encoder, net.model.decoder):
            side.layernorm_embedding = nn.Identity()
    net.generation_config = GenerationConfig(**SPECIAL)
    return randomize(net)


@functools.cache
def ours(kind):
    their = theirs(kind)
    part = {
        "kind": "transformer", "layers": LAYERS, "heads": HEADS, "ffn_dim": HIDDEN, "position_encoding": "learned",
        "max_positions": PLACES, "norm_order": "pre" if kind == "pegasus" else "post",
        "activation": their.config.activation_function,
    }  # fmt: skip
    decoder = {**part, "attention": {"score": {"kind": "multi-head", "heads": HEADS}}}
    embeddings = {"dim": DIM, "scaled": their.config.scale_embedding}
    settings = {"embeddings": embeddings, "encoder": part, "decoder": decoder}
    net = build_model(ModelConfig.model_validate(settings), WORDS, WORDS).double().eval()
    with torch.no_grad():
        for table in (net.source_embedding.embedding, net.target_embedding.embedding, net.output_projection):
            table.weight.copy_(their.lm_head.weight)
        net.output_projection.bias.copy_(their.final_logits_bias[0])
        weights = their.state_dict()
        for name, parameter in net.named_parameters():
            if "position_encoding" in name:
                table = weights[hf_name(name.replace("position_encoding.embedding", "embed_positions"))]
                parameter.copy_(table[2 if kind == "bart" else 0 :])
            elif "coder." in name:
                parameter.copy_(weights[hf_name(name)])
    return net


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_logits_and_self_attention(kind):
    source, mask = collate_source(SOURCES)
    target = torch.randint(3, WORDS, (len(SOURCES), 9), generator=torch.Generator().manual_seed(0))
    target[:, 0] = BOS
    with torch.no_grad():
        inputs = {"input_ids": source, "attention_mask": mask.long(), "decoder_input_ids": target}
        expected = theirs(kind)(**inputs, use_cache=False, output_attentions=True)
        net = ours(kind)
        logits = net.output_projection(net(source, mask, target).hidden)
        encoded, weights = net.encoder.forward_with_weights(net.source_embedding(source), mask)
    assert expected.logits.std() > 0.5
    near = {"rtol": 1e-5, "atol": 1e-5}
    torch.testing.assert_close(logits, expected.logits, **near)
    states = expected.encoder_last_hidden_state * mask[..., None]
    means = states.sum(1) / mask.sum(1, keepdim=True)
    torch.testing.assert_close(encoded.final_state[0][:, 0], means, **near)
    rows = mask[:, None, None, :, None].expand_as(weights)
    torch.testing.assert_close(weights[rows], torch.stack(expected.encoder_attentions, 1)[rows], **near)


class FirstMayEnd(BeamSearch):
    """Only the best K of the 2K candidates may end a translation, as in Hugging Face; ours allows all."""

    def __call__(self, log_probs, scores):
        parent, token, score = super().__call__(log_probs, scores)
        score[:, self.beam_size :].masked_fill_(token[:, self.beam_size :] == EOS, NEG_INF)
        return parent, token, score


class EndAtMaximum(LogitsProcessor):
    """The last token is EOS with its probability; `forced_eos_token_id` would give it a probability of one."""

    def __call__(self, tokens, log_probs):
        end = torch.arange(WORDS) == EOS
        return log_probs.masked_fill(~end, NEG_INF) if tokens.size(1) == MAX_LENGTH else log_probs


@pytest.mark.parametrize(("kind", "width", "alpha"), [("marian", 3, 0.6), ("bart", 5, 0.0), ("pegasus", 5, 1.0)])
def test_the_same_beams(kind, width, alpha):
    source, mask = collate_source(SOURCES)
    net, sentences = ours(kind), torch.ones(len(SOURCES), dtype=torch.long)
    memory, state = net.encode(source, mask)
    limits = LengthLimits(sentences, sentences * MAX_LENGTH)
    best = search(
        net.step, state, memory, strategy=FirstMayEnd(width), limits=limits, bos=BOS, eos=EOS,
        suppress_tokens=(PAD, BOS), lengths=LengthPenalty("average", alpha),
    )  # fmt: skip
    expected = theirs(kind).generate(
        source, attention_mask=mask.long(), num_beams=width, num_return_sequences=width, length_penalty=alpha,
        early_stopping="never", max_length=MAX_LENGTH + 1, suppress_tokens=[PAD, BOS], do_sample=False,
        logits_processor=[EndAtMaximum()], return_dict_in_generate=True, output_scores=True,
    )  # fmt: skip
    tokens = [without_end(row) for row in expected.sequences[:, 1:].tolist()]
    assert len({tuple(row) for row in tokens}) > 4
    assert [without_end(row) for row in best.tokens.flatten(0, 1).tolist()] == tokens
    torch.testing.assert_close(best.scores.flatten(), expected.sequences_scores)


def without_end(row):
    return row[: row.index(EOS)]
