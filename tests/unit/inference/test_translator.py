"""`Translator`: order, windows, prefixes, numbers of hypotheses, and shapes of attention weights."""

import io
import os
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from seq2attn.config.base import FieldError
from seq2attn.errors import UserError
from seq2attn.inference.engines.source_limit import SourceLimit
from seq2attn.inference.search_options import resolve_search
from seq2attn.io.text_lines import read_line_batches
from seq2attn.nn.device import resolve_device
from seq2attn.options import TranslationOptions
from seq2attn.search.search_config import (
    BeamConfig,
    GreedyConfig,
    LengthsConfig,
    SampleConfig,
    beam_search,
    greedy_search,
    mbr_sampling,
)
from seq2attn.training import distributed
from seq2attn.training.distributed import training_device
from seq2attn.visualization.attention_map import AttentionMap
from tests.support.translators import DECODERS, SEARCH, WORDS, translator

pytestmark = pytest.mark.filterwarnings("ignore:the model does not know", "ignore:.*too many tokens")
LINES = ["a few words", "", "not many", "  ", " ".join(WORDS * 3), "many many words", "unknown", "a few words"]
GREEDY = GreedyConfig()


@pytest.mark.parametrize("kind", DECODERS)
def test_windows_and_batches_do_not_change_translations(kind: str) -> None:
    one = translator(kind)
    together = [translation.tokens for translation in one.translate(LINES)]
    assert len(set(together)) > 2
    assert together == [one.translate(line).tokens for line in LINES]
    assert together == [translation.tokens for translation in one.translate_iterable(LINES, window=3)]
    one = replace(one, max_batch_tokens=1)  # each line alone
    assert together == [translation.tokens for translation in one.translate(iter(LINES))]


def test_a_string_has_one_translation_and_lines_have_a_list() -> None:
    one = translator()
    translation = one.translate("a few words")
    assert one.translate(["a few words"]) == [translation] and one.translate([]) == []
    assert translation.source_tokens == ("a", "few", "words")
    endless = (line for _ in iter(int, 1) for line in LINES)
    assert next(one.translate_iterable(endless, window=5)).source_tokens == ("a", "few", "words")
    with pytest.raises(TypeError, match="use `translate`"):
        next(one.translate_iterable("a few words"))


def test_a_beam_size_means_the_same_for_a_list_and_an_iterable() -> None:
    one = translator()
    together, each = one.translate(LINES, GREEDY, beam=4), one.translate_iterable(LINES, beam_search(GREEDY, 4))
    assert together == list(each)
    assert {len(translation.alternatives) for translation in together if translation.tokens} == {3}


def test_samples_of_equal_lines_differ_between_windows_and_follow_the_seed() -> None:
    one, lines = translator(), ["a few words"] * 6

    def sample(seed: int, window: int) -> list[tuple[str, ...]]:
        search = SampleConfig(seed=seed, lengths=LengthsConfig(max_length=9))
        return [each.tokens for each in one.translate_iterable(lines, search, window=window)]

    first, second = sample(1, 2), sample(2, 2)
    assert len({*first, *second}) > 9 and first == sample(1, 2)


def test_an_empty_line_has_an_empty_translation() -> None:
    for search in (SEARCH, GREEDY, SampleConfig(num_samples=2)):
        for one in translator().translate(["", " \t "], search, attention=True):
            assert (one.text, one.tokens, one.alternatives, one.cross_attention) == ("", (), (), None)


def test_beam_size_and_number_of_hypotheses_are_arguments() -> None:
    one = translator()
    wide = SEARCH.model_copy(update={"beam_size": 5})
    expected = one.translate("a few words", wide)
    assert one.translate("a few words", beam=5) == expected != one.translate("a few words")
    assert len(expected.alternatives) == 4
    two = one.translate("a few words", beam=5, num_hypotheses=2)
    assert (two.text, two.alternatives) == (expected.text, expected.alternatives[:1])
    samples = SampleConfig(num_samples=2)
    assert len(one.translate("a few words", samples, num_hypotheses=2).alternatives) == 1
    beam = r"``beam={0}``"
    for search, count, fix in (
        (SEARCH, 4, beam),
        (GREEDY, 2, beam),
        (samples, 3, r"``overrides=search\.num_samples={}``"),
    ):
        with pytest.raises(UserError, match=rf"{count} translations of a line.*{fix.format(count)}"):
            one.translate("a few words", search, num_hypotheses=count)


@pytest.mark.parametrize("kind", DECODERS)
def test_translations_begin_with_their_prefix(kind: str) -> None:
    one = translator(kind)
    same = one.translate(LINES, prefix="of which")
    assert all(each.text.startswith("of which") for each in same if each.source_tokens)
    assert (same[1].text, same[3].text) == ("", "")
    prefixes = ["there", "", "not many", "", "", "are", "words", "a few words of"]
    for line, prefix, each in zip(LINES, prefixes, one.translate(iter(LINES), prefix=iter(prefixes)), strict=True):
        assert each.tokens == one.translate(line, prefix=prefix).tokens
        assert each.tokens[: len(prefix.split())] == tuple(prefix.split()) or not line.strip()
    free = one.translate("a few words", GREEDY)
    again = one.translate("a few words", GREEDY, prefix=" ".join(free.tokens[:2]))
    assert (again.tokens, again.log_prob) == (free.tokens, pytest.approx(free.log_prob))
    with pytest.raises(ValueError, match="shorter"):
        one.translate(["a", "few"], prefix=["a"])
    with pytest.raises(UserError, match="no translation can begin with 'strange'"):
        one.translate("a", prefix="strange")


def test_a_split_line_begins_with_its_prefix_once() -> None:
    one = translator(limit=SourceLimit(3, "it is a test"))
    whole = one.translate("a few words of which there are", prefix="not many")
    assert len(whole.segments) > 1 and whole.text.startswith("not many")
    alone = [one.translate(part, prefix="not many" * (not number)) for number, part in enumerate(whole.segments)]
    assert [token for each in alone for token in each.tokens] == list(whole.tokens)


def test_reprs_are_short() -> None:
    one = translator("transformer")
    translation = one.translate("a few words " * 3, attention=True)
    expected = {
        repr(one): "Translator(",
        repr(translation): f"Translation({translation.text!r}, score={translation.score:.4f}, 2 alter",
        repr(translation.attention_weights): "AttentionWeights(",
        repr(AttentionMap.from_weights(translation.attention_weights, "cross")): "AttentionMap(",
        repr(one.engine): "NativeEngine(",
    }
    for text, start in expected.items():
        assert text.startswith(start) and len(text) < 300 and "\n" not in text


@pytest.mark.parametrize(("kind", "layers"), [("luong", 1), ("transformer", 2)])
def test_attention_weights_of_all_tokens_and_eos(kind: str, layers: int) -> None:
    for each in translator(kind).translate(["a few words", "not many"], attention=True):
        assert each.cross_attention is not None
        assert each.cross_attention.shape == (layers, 4, len(each.tokens) + 1, len(each.source_tokens) + 1)
        np.testing.assert_allclose(each.cross_attention.sum(-1), 1, rtol=1e-5)


def test_attention_weights_of_a_given_translation() -> None:
    one = translator("transformer")
    translation = one.translate("a few words", attention=True)
    forced = one.attention_weights("a few words", translation.text)
    searched = translation.attention_weights
    assert searched is not None and (forced.source, forced.target) == (searched.source, searched.target)
    assert forced.source.tokens == (*translation.source_tokens, "</s>")
    assert forced.target.tokens == (*translation.tokens, "</s>")
    np.testing.assert_allclose(forced.cross_attention, translation.cross_attention)
    assert forced.encoder_self_attention is None
    empty = one.attention_weights("", "")
    assert (empty.source.tokens, empty.cross_attention.shape) == (("</s>",), (2, 4, 1, 1))


def test_models_without_attention_have_no_weights() -> None:
    translation = translator("fixed").translate("a few words", attention=True)
    assert (translation.cross_attention, translation.attention_weights is None) == (None, False)
    assert translator("luong").translate("a few words").attention_weights is None


def test_search_options_keep_the_lengths() -> None:
    lengths = LengthsConfig(max_length=7)
    search = SampleConfig(temperature=0.5, lengths=lengths)
    assert mbr_sampling(search, 9) == search.model_copy(update={"num_samples": 9, "mbr": True})
    assert beam_search(search, 2) == BeamConfig(beam_size=2, lengths=lengths)
    beam, wider = (BeamConfig(beam_size=size, patience=1.0, lengths=lengths) for size in (5, 7))
    assert beam_search(beam, 7) == wider
    assert greedy_search(search) == GreedyConfig(lengths=lengths)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"beam": 10**5}, "a beam has 1 to 1,000 hypotheses, not 100,000"),
        ({"beam": 0}, "a beam has 1 to 1,000 hypotheses, not 0"),
        ({"num_hypotheses": 0}, "each line has at least 1 translation, not 0"),
        ({"num_hypotheses": -1}, "each line has at least 1 translation, not -1"),
    ],
)
def test_numbers_of_hypotheses_are_checked(options: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        translator().translate("a few words", SEARCH, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mbr": 0}, "``mbr`` takes 1 to 1,000 samples, not 0"),
        ({"mbr": 5000}, "``mbr`` takes 1 to 1,000 samples, not 5,000"),
        ({"batch_tokens": 0}, "``batch_tokens=0``: a batch has at least one token"),
    ],
)
def test_numbers_of_options_are_checked(options: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        resolve_search(BeamConfig(), TranslationOptions(**options))


def test_the_device_of_a_training(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_RANK", "1")
    for processes in ("1", "2"):
        monkeypatch.setenv("WORLD_SIZE", processes)
        assert training_device("cpu") == torch.device("cpu")
    with pytest.raises(FieldError, match=r"there is no device `cuda:77` here"):
        training_device("cuda:77")
    devices: list[str] = []
    monkeypatch.setattr(distributed, "resolve_device", lambda name: devices.append(name) or torch.device(name))
    assert training_device("cuda") == torch.device("cuda:1")  # of the local rank, which must exist
    assert devices == ["cuda", "cuda:1"]
    with pytest.raises(FieldError, match="`cuda:0` would be shared by several processes"):
        training_device("cuda:0")
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert [training_device(name) for name in ("cuda", "cuda:1")] == [torch.device("cuda:0"), torch.device("cuda:1")]
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("LOCAL_RANK", "77")
    monkeypatch.setattr(
        distributed, "resolve_device", lambda name: torch.device(name) if name == "cuda" else resolve_device(name)
    )
    with pytest.raises(FieldError, match="there is no device `cuda:77` here"):
        training_device("cuda")


@pytest.mark.parametrize("read_size", [1, 2, 1000])
def test_input_lines_are_cut_at_newlines_only(read_size: int) -> None:
    for text in (b"", b"\n", b"a", b"a\n", b"a\n\nbcd\r\n\x85\n\n", b"\n\nabc"):
        stream = io.BufferedReader(io.BytesIO(text))  # type: ignore[arg-type]
        batches = list(read_line_batches(stream, read_size))
        assert all(batches)
        assert [line for batch in batches for line in batch] == [line.removesuffix(b"\n") for line in io.BytesIO(text)]


def test_available_input_lines_are_one_batch() -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as stream, os.fdopen(writing, "wb", buffering=0) as writer:
        batches = read_line_batches(stream)
        writer.write(b"a\nb\nc")
        assert next(batches) == [b"a", b"b"]
        writer.write(b"d\n")
        assert next(batches) == [b"cd"]
        writer.write(b"\ne")
        writer.close()
        assert list(batches) == [[b""], [b"e"]]
