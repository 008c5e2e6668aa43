"""What is better seen within a process: the order of lines, their windows, and the shapes of attention."""

from __future__ import annotations

import io
import os

import numpy as np
import pytest
import torch
from torch import Tensor

from seq2attn.decoders import FixedContextDecoderConfig, LuongDecoderConfig, TransformerDecoderConfig
from seq2attn.encoders import (
    Encoder,
    EncoderConfig,
    EncoderOutput,
    RecurrentEncoderConfig,
)
from seq2attn.errors import UserError
from seq2attn.inference.source_line import SourceLimit
from seq2attn.inference.translator import Translator
from seq2attn.io.text_lines import read_line_batches
from seq2attn.models import build_model
from seq2attn.models.config import EmbeddingsConfig, ModelConfig
from seq2attn.search.config import BeamConfig, GreedyConfig, LengthsConfig, SampleConfig, resolve_search
from seq2attn.tokenizers.words import WordTokenizerConfig
from seq2attn.training import distributed
from seq2attn.training.distributed import training_device
from seq2attn.visualization.attention_map import AttentionMap

WORDS = ["a", "few", "words", "of", "which", "there", "are", "not", "many"]
LINES = [
    "a few words",
    "",
    "not many",
    "  ",
    " ".join(WORDS * 3),
    "many many words",
    "unknown",
    "a few words",
]
SEARCH = BeamConfig(kind="beam", beam_size=3, lengths=LengthsConfig(max_length=12))
GRU = RecurrentEncoderConfig(kind="gru", dim=16)
DECODERS = {
    "fixed": FixedContextDecoderConfig(kind="fixed-context", dim=16),
    "luong": LuongDecoderConfig(kind="luong", dim=16),
    "transformer": TransformerDecoderConfig(kind="transformer", layers=1),
}


def translator(kind: str = "luong", encoder: EncoderConfig = GRU) -> Translator:
    """One with first weights: what it says makes no sense, and is different for different lines."""
    torch.manual_seed(3)
    words = WordTokenizerConfig().train(WORDS)
    config = ModelConfig(
        embeddings=EmbeddingsConfig(dim=16),
        encoder=encoder,
        decoder=DECODERS[kind],
    )
    model = build_model(config, len(words.vocabulary), len(words.vocabulary)).eval()
    return Translator(model, words, words, SEARCH)


@pytest.mark.parametrize("kind", DECODERS)
def test_windows_and_batches_do_not_change_answers(kind: str) -> None:
    one = translator(kind)
    together = [found.tokens for found in one.translate(LINES)]
    assert len(set(together)) > 2
    assert together == [one.translate(line).tokens for line in LINES]
    assert together == [found.tokens for found in one.translate_iterable(LINES, window=3)]
    one.max_batch_tokens = 1  # each line alone
    assert together == [found.tokens for found in one.translate(iter(LINES))]


def test_one_line_has_one_translation_and_several_have_a_list() -> None:
    one = translator()
    found, many = one.translate("a few words"), one.translate(["a few words"])
    assert isinstance(many, list) and [found] == many
    assert found.source_tokens == ("a", "few", "words")


def test_lines_are_taken_only_when_they_are_needed() -> None:
    endless = (line for _ in iter(int, 1) for line in LINES)
    first = next(translator().translate_iterable(endless, window=5))
    assert first.source_tokens == ("a", "few", "words")


def test_an_empty_line_has_an_empty_translation() -> None:
    for search in (SEARCH, GreedyConfig(kind="greedy"), SampleConfig(kind="sample", num_samples=2)):
        found = translator().translate(["", " \t "], search, attention=True)
        assert [(one.text, one.tokens, one.alternatives, one.cross_attention) for one in found] == [
            ("", (), (), None)
        ] * 2
    assert translator().translate([]) == []


def test_beam_size_and_number_of_hypotheses_are_arguments() -> None:
    one = translator()
    wide = SEARCH.model_copy(update={"beam_size": 5})
    expected = one.translate("a few words", wide)
    assert one.translate("a few words", beam_size=5) == expected != one.translate("a few words")
    assert len(expected.alternatives) == 4
    two = one.translate("a few words", beam_size=5, num_hypotheses=2)
    assert (two.text, two.alternatives) == (expected.text, expected.alternatives[:1])
    samples = SampleConfig(kind="sample", num_samples=2)
    assert len(one.translate("a few words", samples, num_hypotheses=2).alternatives) == 1
    for search, count in ((SEARCH, 4), (GreedyConfig(kind="greedy"), 2), (samples, 3)):
        with pytest.raises(UserError, match=rf"{count} translations of a line .*--beam {count}, .*beam_size={count}"):
            one.translate("a few words", search, num_hypotheses=count)


@pytest.mark.parametrize("kind", DECODERS)
def test_a_prefix_is_the_beginning_of_each_translation(kind: str) -> None:
    one = translator(kind)
    found = one.translate(LINES, prefix="of which")
    assert all(each.text.startswith("of which") for each in found if each.source_tokens)
    assert (found[1].text, found[3].text) == ("", "")
    prefixes = ["there", "", "not many", "", "", "are", "words", "a few words of"]
    each_its_own = one.translate(iter(LINES), prefix=iter(prefixes))
    for line, prefix, each in zip(LINES, prefixes, each_its_own, strict=True):
        assert each.tokens == one.translate(line, prefix=prefix).tokens
        assert each.tokens[: len(prefix.split())] == tuple(prefix.split()) or not line.strip()
    free = one.translate("a few words", GreedyConfig(kind="greedy"))
    again = one.translate("a few words", GreedyConfig(kind="greedy"), prefix=" ".join(free.tokens[:2]))
    assert (again.tokens, again.log_prob) == (free.tokens, pytest.approx(free.log_prob))
    with pytest.raises(ValueError, match="shorter"):
        one.translate(["a", "few"], prefix=["a"])
    with pytest.raises(UserError, match="no translation can begin with 'strange'"):
        one.translate("a", prefix="strange")


def test_a_line_in_parts_begins_with_its_prefix_once() -> None:
    one = translator()
    one.source_limit = SourceLimit(3, "it is a test")
    found = one.translate("a few words of which there are", prefix="not many")
    assert len(found.segments) > 1 and found.text.startswith("not many")
    alone = [one.translate(part, prefix="not many" * (not number)) for number, part in enumerate(found.segments)]
    assert [token for each in alone for token in each.tokens] == list(found.tokens)


def test_what_is_printed_of_them_is_short() -> None:
    one = translator("transformer")
    found = one.translate("a few words " * 3, attention=True)
    shown = {
        repr(one): "Translator(",
        repr(found): f"Translation({found.text!r}, score={found.score:.4f}, 2 alter",
    }
    shown |= {
        repr(found.attention_weights): "AttentionWeights(",
        repr(AttentionMap.from_weights(found.attention_weights, "cross")): "AttentionMap(",
    }
    shown |= {repr(one.engine): "NativeEngine("}
    for text, start in shown.items():
        assert text.startswith(start) and len(text) < 300 and "\n" not in text


@pytest.mark.parametrize(("kind", "heads"), [("luong", 1), ("transformer", 8)])
def test_attention_is_of_every_token_and_the_ends(kind: str, heads: int) -> None:
    for found in translator(kind).translate(["a few words", "not many"], attention=True):
        assert found.cross_attention is not None
        assert found.cross_attention.shape == (1, heads, len(found.tokens) + 1, len(found.source_tokens) + 1)
        np.testing.assert_allclose(found.cross_attention.sum(-1), 1, rtol=1e-5)


def test_without_attention_there_is_none_to_see() -> None:
    found = translator("fixed").translate("a few words", attention=True)
    assert (found.cross_attention, found.attention_weights is None) == (None, False)
    assert translator("luong").translate("a few words").attention_weights is None


def test_any_pair_can_be_looked_at() -> None:
    one = translator("transformer")
    found = one.translate("a few words", attention=True)
    seen = one.attention_weights("a few words", found.text)
    assert found.attention_weights is not None and found.attention_weights.source.tokens == (
        *found.source_tokens,
        "</s>",
    )
    assert (seen.source, seen.target) == (found.attention_weights.source, found.attention_weights.target)
    np.testing.assert_allclose(seen.cross_attention, found.cross_attention)
    assert seen.encoder_self_attention is None
    nothing = one.attention_weights("", "")
    assert (nothing.source.tokens, nothing.cross_attention.shape) == (("</s>",), (1, 8, 1, 1))


def test_an_encoder_from_elsewhere_need_not_know_the_question() -> None:
    class Elsewhere(Encoder):
        def __init__(self, inner: Encoder) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, words: Tensor, mask: Tensor) -> EncoderOutput:  # type: ignore[override]
            return self.inner(words, mask)

    one = translator("luong")
    one.model.encoder = Elsewhere(one.model.encoder)
    found = one.translate("a few words", attention=True).attention_weights
    assert found is not None and found.cross_attention is not None and found.encoder_self_attention is None


def test_what_is_asked_for_keeps_the_limits() -> None:
    lengths = LengthsConfig(max_length=7)
    search = SampleConfig(kind="sample", lengths=lengths)
    assert resolve_search(search, beam=None, greedy=False) is search
    assert resolve_search(search, beam=2, greedy=False) == BeamConfig(kind="beam", beam_size=2, lengths=lengths)
    patient = BeamConfig(kind="beam", beam_size=5, patience=1.0, lengths=lengths)
    wider = BeamConfig(kind="beam", beam_size=7, patience=1.0, lengths=lengths)
    assert resolve_search(patient, beam=7, greedy=False) == wider
    assert resolve_search(search, beam=None, greedy=True) == GreedyConfig(kind="greedy", lengths=lengths)


def test_the_device_of_a_training(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_RANK", "1")
    for processes in ("1", "2"):
        monkeypatch.setenv("WORLD_SIZE", processes)
        assert training_device("cpu") == torch.device("cpu")
    with pytest.raises(UserError, match=r"there is no device `cuda:77` here"):
        training_device("cuda:77")
    cards: list[str] = []
    monkeypatch.setattr(distributed, "resolve_device", lambda name: cards.append(name) or torch.device(name))
    assert training_device("cuda") == torch.device("cuda:1")  # its own, which must be there
    assert cards == ["cuda", "cuda:1"]
    with pytest.raises(UserError, match="`cuda:0` would be shared by several processes"):
        training_device("cuda:0")
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert (training_device("cuda"), training_device("cuda:1")) == (
        torch.device("cuda:0"),
        torch.device("cuda:1"),
    )


class TestArriving:
    @pytest.mark.parametrize("most", [1, 2, 3, 1000])
    @pytest.mark.parametrize("text", [b"", b"\n", b"a", b"a\n", b"a\n\nbcd\r\n\x85\n\n", b"\n\nabc"])
    def test_lines_are_cut_at_newlines_only(self, text: bytes, most: int) -> None:
        stream = io.BufferedReader(io.BytesIO(text))  # type: ignore[arg-type]
        groups = list(read_line_batches(stream, most))
        assert all(groups)
        assert [line for group in groups for line in group] == [line.removesuffix(b"\n") for line in io.BytesIO(text)]

    def test_what_has_come_comes_together(self) -> None:
        reading, writing = os.pipe()
        with os.fdopen(reading, "rb") as stream, os.fdopen(writing, "wb", buffering=0) as person:
            groups = read_line_batches(stream)
            person.write(b"a\nb\nc")
            assert next(groups) == [b"a", b"b"]
            person.write(b"d\n")
            assert next(groups) == [b"cd"]
            person.write(b"\ne")
            person.close()
            assert list(groups) == [[b""], [b"e"]]
