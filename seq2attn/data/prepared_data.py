"""Prepared text: the tokenizers and memory-mapped token ids of a training, read without the original text.

source/ target/          the tokenizers; the same one twice if it is joint
data/train/ data/dev/    the ids, and beside them the text as data/train.jsonl, data/dev.jsonl
data/dev-1.jsonl ...     the dev set with further references as targets, if any
data/train/word_ids/, alignments/    the word of each token and the links between words, if known
data/hashes.npy          hashes of the training pairs, to find them in test sets
data-report.json         statistics of all corpora
data/prepared.json       written last: fingerprint of the text and config that all of it was made from
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pydantic import PositiveInt

from seq2attn.data.corpus import Corpus, read_text_pairs
from seq2attn.data.training_set import TrainingPart, TrainingSet
from seq2attn.errors import RunError
from seq2attn.io.files import check_format, read_object, validate
from seq2attn.tokenizers.base import Tokenizer, TokenizerPair
from seq2attn.tokenizers.tokenizer_config import load_tokenizers

PREPARED, TRAIN, DEV = "data/prepared.json", "data/train", "data/dev"
PREPARE_HINT = "remove the folder it is in, and prepare the data again"


@dataclass(frozen=True)
class _Counts:
    """Content of `data/prepared.json`, besides fingerprints."""

    corpora: tuple[TrainingPart, ...]
    references: PositiveInt = 1


@dataclass(frozen=True)
class PreparedData:
    """The prepared text of a training."""

    source: Tokenizer
    target: Tokenizer
    train: TrainingSet
    dev: Corpus
    dev_sources: tuple[str, ...]
    dev_references: tuple[tuple[str, ...], ...]  # one stream per reference, as in sacreBLEU

    @property
    def tokenizers(self) -> TokenizerPair:
        """The tokenizers of source and target."""
        return TokenizerPair(self.source, self.target)


def load_prepared(folder: Path | str) -> PreparedData:
    """The output of `prepare`, without reading the original text. Raises RunError when a file is missing or corrupt."""
    folder = Path(folder)
    content = read_object(folder / PREPARED, "prepare the data first")
    check_format(content, folder / PREPARED, PREPARE_HINT)
    problem = "has no counts of the training corpora"
    counts = validate(_Counts, content, folder / PREPARED, problem, PREPARE_HINT)
    tokenizers = load_tokenizers(folder)
    train, dev = (_load_corpus(folder / name, tokenizers) for name in (TRAIN, DEV))
    if sum(part.report.num_kept for part in counts.corpora) != len(train):
        raise RunError(
            f"{folder / PREPARED}: its corpora do not add up to the pairs of {folder / TRAIN}; {PREPARE_HINT}"
        )
    streams = [list(read_text_pairs(path)) for path in dev_text_paths(folder, counts.references)]
    training_set = TrainingSet(tokenizers, train, text_path(folder / TRAIN), counts.corpora)
    references = tuple(tuple(target for _, target in stream) for stream in streams)
    return PreparedData(*tokenizers, training_set, dev, tuple(source for source, _ in streams[0]), references)


def _load_corpus(folder: Path, tokenizers: TokenizerPair) -> Corpus:
    corpus = Corpus.load(folder)
    if len(corpus.ids) and corpus.ids.max() >= tokenizers.max_vocab_size:
        raise RunError(f"{folder}: the prepared ids are not of these tokenizers; {PREPARE_HINT}")
    return corpus


def text_path(folder: Path) -> Path:
    """The file with the text of a prepared corpus."""
    return folder.with_suffix(".jsonl")


def dev_text_paths(folder: Path, num_references: int) -> Iterator[Path]:
    """The files with the text of the dev set, one per reference."""
    return (text_path(folder / (f"{DEV}-{n}" if n else DEV)) for n in range(num_references))
