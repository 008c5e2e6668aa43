"""From links between words to where each target token shall look, however lines are cut."""

from itertools import product
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from seq2attn.data.collate import collate, make_batch
from seq2attn.data.config import DataConfig
from seq2attn.data.corpus import Corpus
from seq2attn.data.filter import FiltersConfig
from seq2attn.data.prepare import load_prepared, prepare
from seq2attn.data.readers import PlainTextConfig
from seq2attn.data.word_alignment import split_words
from seq2attn.data.word_ids import encode_with_word_ids, word_ids
from seq2attn.errors import DataError
from seq2attn.tokenizers.base import Tokenizer
from seq2attn.tokenizers.characters import CharacterTokenizerConfig
from seq2attn.tokenizers.config import TokenizersConfig
from seq2attn.tokenizers.subwords import BPETokenizerConfig, UnigramTokenizerConfig
from seq2attn.tokenizers.words import WordTokenizerConfig
from tests.unit.tokenizers.test_tokenizers import DRAWING, TEXT, TRAINED

ODD = "a•b\u00a0c ,d ﬁn ´x ▁ y▁z Σας don't"


def check_numbers(tokenizer: Tokenizer, line: str, ids: list[int], numbers: list[int]) -> None:
    """The tokens of each word say what the word says alone."""
    words = split_words(line)
    assert len(numbers) == len(ids) and numbers == sorted(numbers)
    assert all(0 <= number < len(words) for number in numbers)
    for number, word in enumerate(words):
        own = [id for id, of in zip(ids, numbers, strict=True) if of == number]
        assert tokenizer.decode(own) == tokenizer.decode(tokenizer.encode(word))


NORMAL: dict[str, Tokenizer] = {
    **TRAINED,
    "nfkc": BPETokenizerConfig(vocab_size=400, normalization="nfkc", lowercase=True).train(TEXT),
    "nfkc words": WordTokenizerConfig(normalization="nfkc", lowercase=True).train([*TEXT, "a ,b c"]),
}


@pytest.mark.parametrize("name", NORMAL)
@given(line=st.text() | st.lists(st.sampled_from(TEXT), max_size=2).map(" ".join))
@example(ODD)
def test_tokens_know_their_words(name: str, line: str) -> None:
    ids, numbers = encode_with_word_ids(NORMAL[name], line)
    assert ids == NORMAL[name].encode(line)
    check_numbers(NORMAL[name], line, ids, numbers)


@pytest.mark.parametrize("name", DRAWING)
@given(lines=st.lists(st.text() | st.sampled_from([ODD, *TEXT]), max_size=4), seed=st.integers(0, 2**32 - 1))
def test_so_do_tokens_cut_at_random(name: str, lines: list[str], seed: int) -> None:
    for line, ids in zip(lines, DRAWING[name].sample(lines, seed), strict=True):
        check_numbers(DRAWING[name], line, ids, word_ids(DRAWING[name], line, ids))


class _Contrary:
    """A tokeniser that joins words."""

    def encode(self, line: str) -> list[int]:
        return [7 if len(line) > 3 else 8] * bool(line)

    def word_ids(self, ids: list[int]) -> list[int]:
        return list(range(len(ids)))


def test_a_tokeniser_that_joins_words_is_refused() -> None:
    tokenizer = _Contrary()
    with pytest.raises(DataError, match='cannot assign tokens to the words of "one two"'):
        encode_with_word_ids(tokenizer, "one two")  # type: ignore[arg-type]


# ---------------------------------------------------------------------- prepared

LINES = 30


@pytest.fixture
def data(tmp_path: Path) -> DataConfig:
    """Targets are their sources from behind; every fifth pair has an empty side, some links are left out."""
    draw, texts = Random(0), list[tuple[str, str, str]]()
    for number in range(LINES):
        words = [draw.choice([*TEXT[0].split(), "lantern", "slowly", "x-y", "•"]) for _ in range(draw.randint(1, 6))]
        links = [f"{len(words) - 1 - place}-{place}" for place in range(len(words)) if draw.random() < 0.8]
        empty = number % 5 == 0
        texts.append((" ".join(words), "" if empty else " ".join(words[::-1]), "" if empty else " ".join(links)))
    paths = [tmp_path / f"train.{side}" for side in ("source", "target", "links")]
    for path, lines in zip(paths, zip(*texts, strict=True), strict=True):
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    train = PlainTextConfig(source=paths[0], target=paths[1], alignment=paths[2])
    return DataConfig(train=train, dev=train.model_copy(update={"alignment": None}))


CUTS = {
    "bpe": TokenizersConfig(joint=BPETokenizerConfig(vocab_size=300)),
    "mixed": TokenizersConfig(source=WordTokenizerConfig(min_frequency=3), target=CharacterTokenizerConfig()),
    "drawn": TokenizersConfig(joint=BPETokenizerConfig(vocab_size=300, dropout=0.5)),
    "half drawn": TokenizersConfig(
        source=UnigramTokenizerConfig(vocab_size=300, alpha=0.3), target=WordTokenizerConfig()
    ),
}


def expected_guide(data: DataConfig) -> list[set[tuple[str, str]]]:
    texts = [path.read_text(encoding="utf-8").split("\n")[:LINES] for path in data.train[0].files]
    pairs = [pair for pair in zip(*texts, strict=True) if pair[1]]
    return [
        {(source.split()[int(a)], target.split()[int(b)]) for a, b in (link.split("-") for link in links.split())}
        for source, target, links in pairs
    ]


@pytest.mark.parametrize("cut", CUTS)
def test_batches_tell_where_to_look(tmp_path: Path, data: DataConfig, cut: str) -> None:
    prepare(data, CUTS[cut], tmp_path / "run", print)
    prepared = load_prepared(tmp_path / "run")
    assert prepared.dev.alignments is None
    wanted = expected_guide(data)
    for corpus in (
        prepared.train.corpus,
        prepared.train.epoch_corpus(1, 0),
        prepared.train.epoch_corpus(1, 1),
    ):
        assert len(corpus) == len(wanted)
        batch = make_batch(corpus, range(len(corpus)))
        assert batch.alignment_targets is not None and batch.alignment_targets.shape == (
            *batch.labels.shape,
            batch.source.size(1),
        )
        for row, words in enumerate(wanted):
            guide = batch.alignment_targets[row].numpy()
            sums = guide.sum(1)
            assert np.all(np.isclose(sums, 1) | (sums == 0))
            source, target = corpus[row]
            assert sums[len(target) :].sum() == guide[:, len(source) :].sum() == 0  # ends and padding
            said = set()
            for step, word in product(range(len(target)), range(len(source))):
                if guide[step, word]:
                    assert np.isclose(guide[step, word], 1 / (guide[step] > 0).sum())
                    said.add((step, word))
            assert pieces_of(said, corpus, row, prepared.source, prepared.target) == {
                (shown(prepared.source, a), shown(prepared.target, b)) for a, b in words
            }


def shown(tokenizer: Tokenizer, word: str) -> str:
    return tokenizer.decode(tokenizer.encode(word)).replace(" ", "")


def pieces_of(
    cells: set[tuple[int, int]], corpus: Corpus, row: int, source: Tokenizer, target: Tokenizer
) -> set[tuple[str, str]]:
    """The texts of the words that cells link, each cell of a block between two words being there."""
    assert corpus.alignments is not None
    sides = list(zip(corpus[row], corpus.alignments.word_ids[row], (source, target), strict=True))

    def word(side: int, number: int) -> str:
        ids, of, tokenizer = sides[side]
        return tokenizer.decode(ids[of == number].tolist()).replace(" ", "")

    blocks = {(int(sides[0][1][s]), int(sides[1][1][t])) for t, s in cells}
    for a, b in blocks:
        tokens = product(np.flatnonzero(sides[1][1] == b).tolist(), np.flatnonzero(sides[0][1] == a).tolist())
        assert set(tokens) <= cells
    return {(word(0, a), word(1, b)) for a, b in blocks}


def test_links_stay_with_their_pairs_when_some_are_left_out(tmp_path: Path, data: DataConfig) -> None:
    strict = data.model_copy(update={"filters": FiltersConfig(max_length=4, drop_duplicates=True)})
    text = TokenizersConfig(joint=WordTokenizerConfig(pre_tokenizer="whitespace"))
    corpus = prepare(strict, text, tmp_path / "run", print).train.corpus
    whole = prepare(data, text, tmp_path / "whole", print).train.corpus
    assert 0 < len(corpus) < len(whole)
    everything = {pair_of(whole, row) for row in range(len(whole))}
    assert {pair_of(corpus, row) for row in range(len(corpus))} <= everything


def pair_of(corpus: Corpus, row: int) -> str:
    assert corpus.alignments is not None
    return str([[part.tolist() for part in pair] for pair in (corpus[row], corpus.alignments.links[row])])


def test_guides_lie_on_disk(tmp_path: Path, data: DataConfig) -> None:
    guide = prepare(data, CUTS["bpe"], tmp_path / "run", print).train.corpus.alignments
    assert guide is not None
    assert isinstance(guide.word_ids.ids, np.memmap) and isinstance(guide.links.ids, np.memmap)


def test_other_links_are_prepared_again(tmp_path: Path, data: DataConfig) -> None:
    log: list[str] = []
    prepare(data, CUTS["bpe"], tmp_path / "run", print)
    prepare(data, CUTS["bpe"], tmp_path / "run", log.append)
    assert "already prepared" in log[0]
    (train,) = data.train
    assert isinstance(train, PlainTextConfig) and train.alignment is not None
    train.alignment.write_text("\n" * LINES)
    log.clear()
    guide = prepare(data, CUTS["bpe"], tmp_path / "run", log.append).train.corpus.alignments
    assert "already prepared" not in log[0] and guide is not None and len(guide.links.ids) == 0
    plain = data.model_copy(update={"train": (train.model_copy(update={"alignment": None}),)})
    assert prepare(plain, CUTS["bpe"], tmp_path / "run", print).train.corpus.alignments is None


@pytest.mark.parametrize("part", ["train", "dev", "test"])
def test_links_are_checked_before_anything_is_learnt(tmp_path: Path, data: DataConfig, part: str) -> None:
    bad = data.train[0].model_copy(update={"alignment": tmp_path / "bad"})
    (tmp_path / "bad").write_text("\n" * (LINES - 1) + "0-9\n")
    parts = {"train": data.train, "dev": data.dev, part: {"hard": bad} if part == "test" else bad}
    with pytest.raises(DataError, match=rf"bad:{LINES}: the link `0-9` points at word 9 of the target"):
        prepare(DataConfig.model_validate(parts), CUTS["bpe"], tmp_path / "run", print)
    assert not (tmp_path / "run").exists()


def test_a_batch_without_links_has_no_guide() -> None:
    corpus = Corpus.from_pairs([([5, 6], [7]), ([8], [9])], 10)
    batch = make_batch(corpus, np.array([1, 0]))
    assert batch.alignment_targets is None and batch.to("meta").alignment_targets is None
    assert batch.labels.equal(collate([corpus[1], corpus[0]]).labels)
