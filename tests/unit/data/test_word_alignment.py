"""From links between words to attention targets of tokens, in any segmentation."""

from itertools import product
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from seq2attn.data.collate import make_batch
from seq2attn.data.data_config import DataConfig
from seq2attn.data.filter import FiltersConfig
from seq2attn.data.prepare import prepare
from seq2attn.data.prepared_data import load_prepared
from seq2attn.data.readers import PlainTextConfig
from seq2attn.data.word_alignment import split_words, word_ids
from seq2attn.errors import DataError
from seq2attn.tokenizers.base import Tokenizer
from seq2attn.tokenizers.normalize import is_blank
from seq2attn.tokenizers.sentencepiece_model import SentencePieceTokenizerConfig
from seq2attn.tokenizers.subwords import BPETokenizerConfig, UnigramTokenizerConfig
from seq2attn.tokenizers.tokenizer_config import TokenizersConfig
from seq2attn.tokenizers.wordpiece import WordPieceTokenizerConfig
from seq2attn.tokenizers.words import CharacterTokenizerConfig, WordTokenizerConfig
from tests.support.bert import make_bert
from tests.support.corpora import write_corpus
from tests.support.marian import make_vocabulary, train_pieces
from tests.support.tokenizers import ODD, STOCHASTIC, TEXT, TRAINED

TOKENIZERS: dict[str, Tokenizer] = {
    **TRAINED,
    "nfkc": BPETokenizerConfig(vocab_size=400, normalization="nfkc", lowercase=True).train(TEXT),
    "nfkc words": WordTokenizerConfig(normalization="nfkc", lowercase=True).train([*TEXT, "a ,b c"]),
}
LINES = 30


def check_word_ids(tokenizer: Tokenizer, line: str, ids: list[int], indices: list[int]) -> None:
    """The tokens of each word are decoded to the same text as those of the word alone."""
    words = [] if is_blank(line) else split_words(line)
    assert len(indices) == len(ids) and indices == sorted(indices)
    assert all(0 <= index < len(words) for index in indices)
    for number, word in enumerate(words):
        word_tokens = [id for id, index in zip(ids, indices, strict=True) if index == number]
        alone = tokenizer.decode(tokenizer.encode(word))
        if is_blank(word):  # a blank line has no tokens, and a blank word has those that it has after another
            alone = tokenizer.decode(tokenizer.encode(f"a {word}")).partition(" ")[2]
        assert tokenizer.decode(word_tokens) == alone


@pytest.mark.parametrize("name", TOKENIZERS)
@given(line=st.text() | st.lists(st.sampled_from(TEXT), max_size=2).map(" ".join))
@example(ODD)
@example("a \u200b \u00ad b\u200b \x1b")
def test_words_of_tokens(name: str, line: str) -> None:
    ids = TOKENIZERS[name].encode(line)
    check_word_ids(TOKENIZERS[name], line, ids, word_ids(TOKENIZERS[name], line, ids))


@pytest.mark.parametrize("name", STOCHASTIC)
@given(lines=st.lists(st.text() | st.sampled_from([ODD, *TEXT]), max_size=4), seed=st.integers(0, 2**32 - 1))
def test_words_of_tokens_in_random_segmentation(name: str, lines: list[str], seed: int) -> None:
    for line, ids in zip(lines, STOCHASTIC[name].sample(lines, seed), strict=True):
        check_word_ids(STOCHASTIC[name], line, ids, word_ids(STOCHASTIC[name], line, ids))


def test_tokens_without_text_are_of_no_word(tmp_path: Path) -> None:
    make_bert(tmp_path / "bert", ["a", "b", "c", "the", "boat"])
    wordpiece = WordPieceTokenizerConfig(path=tmp_path / "bert").train([])
    make_vocabulary(tmp_path, tags=[">>fra<<"])
    files = {"kind": "sentencepiece", "path": tmp_path / "source.spm", "vocabulary": tmp_path / "vocab.json"}
    tagged = SentencePieceTokenizerConfig.model_validate({**files, "tag": ">>fra<<"}).train([])
    for tokenizer, line in product((wordpiece, tagged), ("", "a", "a b c", "the boat's c")):
        ids = tokenizer.encode(line)
        words = word_ids(tokenizer, line, ids)
        assert words[:1] == [len(split_words(line))][: len(ids)]
        check_word_ids(tokenizer, line, ids[1:], words[1:])


@pytest.mark.parametrize("line", ["20 % mehr", "a : b", "a ( b ) c", 'a "b." ( c ) : d', "<2en> a ; : b"])
def test_words_that_punctuation_joins(tmp_path: Path, line: str) -> None:
    """Moses writes `20%`, `a:`, `(b)` and `"b".`: each token is still of the word with its letter."""
    train_pieces([line], tmp_path / "model", model_type="char")
    files = {"kind": "sentencepiece", "path": tmp_path / "model", "punctuation": "de"}
    plain = SentencePieceTokenizerConfig.model_validate(files).train([])
    for tokenizer in (plain, plain.with_tags(("<2en>",))):
        ids = tokenizer.encode(line)
        tag, text = tokenizer.split_tag(line)
        words = [*split_words(text), *[tag] * bool(tag)]  # a tag is not counted: its number is that after the last
        letters = [""] * len(words)
        for id, word in zip(ids, word_ids(tokenizer, line, ids), strict=True):
            letters[word] += tokenizer.decode([id])
        assert [*map(sorted, letters)] == [*map(sorted, words)]


class _JoiningTokenizer:
    is_right_to_left = False

    def split_tag(self, line: str) -> tuple[str, str]:
        return "", line

    def encode(self, line: str) -> list[int]:
        return [7 if len(line) > 3 else 8] * bool(line)

    def word_ids(self, ids: list[int]) -> list[int]:
        return list(range(len(ids)))

    def decode(self, ids: list[int]) -> str:
        return "x" * len(ids)


def test_a_tokenizer_that_joins_words_is_an_error() -> None:
    with pytest.raises(DataError, match='cannot assign tokens to the words of "one two"'):
        word_ids(_JoiningTokenizer(), "one two", [7])  # type: ignore[arg-type]


@pytest.fixture
def data(tmp_path: Path) -> DataConfig:
    """Targets are reversed sources; every fifth pair has an empty side, some words have no or several links."""
    random, pairs, links = Random(0), list[tuple[str, str]](), list[str]()
    for number in range(LINES):
        words = random.choices([*TEXT[0].split(), "lantern", "slowly", "x-y", "•"], k=random.randint(1, 6))
        pairs.append((" ".join(words), " ".join(words[::-1]) if number % 5 else ""))
        linked = [(len(words) - 1 - place, place) for place in range(len(words)) if random.random() < 0.8]
        linked += [(0, place) for place in range(len(words)) if random.random() < 0.3]
        marks = random.choices("-?", weights=(4, 1), k=len(linked))  # some are only possible
        linked = [f"{source}{mark}{target}" for (source, target), mark in zip(linked, marks, strict=True)]
        links.append(" ".join(linked if number % 5 else []))
    train = write_corpus(tmp_path, "train", pairs, links)
    return DataConfig(train=train, dev=train.model_copy(update={"alignment": None}))


SEGMENTATIONS = {
    "bpe": TokenizersConfig(joint=BPETokenizerConfig(vocab_size=300)),
    "mixed": TokenizersConfig(source=WordTokenizerConfig(min_frequency=3), target=CharacterTokenizerConfig()),
    "random": TokenizersConfig(joint=BPETokenizerConfig(vocab_size=300, dropout=0.5)),
    "random source": TokenizersConfig(
        source=UnigramTokenizerConfig(vocab_size=300, alpha=0.3), target=WordTokenizerConfig()
    ),
    "filtered words": TokenizersConfig(joint=WordTokenizerConfig(pre_tokenizer="whitespace")),
}


@pytest.mark.parametrize("name", SEGMENTATIONS)
def test_attention_targets_of_batches(tmp_path: Path, data: DataConfig, name: str) -> None:
    longest = 4 if name == "filtered words" else 99
    filtered = data.model_copy(update={"filters": FiltersConfig(max_length=longest)})
    prepare(filtered, SEGMENTATIONS[name], tmp_path / "run", print)
    prepared = load_prepared(tmp_path / "run")
    assert prepared.dev.alignments is None
    (train,) = data.train
    pairs = [(pair, links.sure) for pair, links in train.pairs() if links and pair[1]]
    pairs = [(pair, links) for pair, links in pairs if len(pair[0].split()) <= longest]
    for corpus in (prepared.train.corpus, prepared.train.epoch_corpus(1, 0), prepared.train.epoch_corpus(1, 1)):
        assert len(corpus) == len(pairs) and corpus.alignments is not None
        batch = make_batch(corpus, range(len(corpus))[::-1])
        assert batch.alignment_targets is not None
        assert batch.alignment_targets.shape == (*batch.labels.shape, batch.source.size(1))
        for row, (texts, links) in enumerate(pairs):
            expected = np.zeros(batch.alignment_targets.shape[1:])
            if links:
                words = [indices.tolist() for indices in corpus.alignments.word_ids[row]]
                for side, ids in enumerate(corpus[row]):
                    tokenizer = (prepared.source, prepared.target)[side]
                    check_word_ids(tokenizer, texts[side], ids.tolist(), words[side])
                for place, target_word in enumerate(words[1]):
                    is_linked = np.array([(source_word, target_word) in links for source_word in words[0]])
                    expected[place, : len(words[0])] = is_linked / max(is_linked.sum(), 1)
            np.testing.assert_allclose(batch.alignment_targets[-1 - row], expected, rtol=1e-6)


def test_other_links_are_prepared_again(tmp_path: Path, data: DataConfig) -> None:
    log: list[str] = []
    for _ in range(2):
        alignments = prepare(data, SEGMENTATIONS["bpe"], tmp_path / "run", log.append).train.corpus.alignments
    assert sum("already prepared" in line for line in log) == 1 and alignments is not None
    assert isinstance(alignments.word_ids.ids, np.memmap) and isinstance(alignments.links.ids, np.memmap)
    (train,) = data.train
    assert isinstance(train, PlainTextConfig) and train.alignment is not None
    train.alignment.write_text("\n" * LINES)
    log.clear()
    alignments = prepare(data, SEGMENTATIONS["bpe"], tmp_path / "run", log.append).train.corpus.alignments
    assert "already prepared" not in log[0] and alignments is not None and len(alignments.links.ids) == 0
    plain = data.model_copy(update={"train": (train.model_copy(update={"alignment": None}),)})
    assert prepare(plain, SEGMENTATIONS["bpe"], tmp_path / "run", print).train.corpus.alignments is None


@pytest.mark.parametrize("part", ["train", "dev", "test"])
def test_links_are_checked_before_training_of_tokenizers(tmp_path: Path, data: DataConfig, part: str) -> None:
    bad = data.train[0].model_copy(update={"alignment": tmp_path / "bad"})
    (tmp_path / "bad").write_text("\n" * (LINES - 1) + "0-9\n")
    parts = {"train": data.train, "dev": data.dev, part: {"hard": bad} if part == "test" else bad}
    with pytest.raises(DataError, match=rf"bad:{LINES}: the link `0-9` points at word 9 of the target"):
        prepare(DataConfig.model_validate(parts), SEGMENTATIONS["bpe"], tmp_path / "run", print)
    assert not (tmp_path / "run").exists()
