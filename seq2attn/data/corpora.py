"""Public corpora by name: homes, texts and SHA-256 sums; a text is downloaded or copied, and checked.

Fetching again continues an interrupted transfer; texts that are already right stay as they are.
"""

import gzip
import shutil
import tarfile
import zipfile
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import IO

from seq2attn.data.corpus_formats import plain, sgml_segments, tatoeba, ted, unescaped, xml_segments
from seq2attn.errors import DataError
from seq2attn.io.download import download
from seq2attn.io.files import atomic_path, sha256_of

CORRUPT_ERRORS = (gzip.BadGzipFile, EOFError, zlib.error, tarfile.TarError, zipfile.BadZipFile, KeyError)
"""Errors of an archive, without those of a disk."""


@dataclass(frozen=True)
class Part:
    """A file at `url`, or the file `member` of the archive there, whose lines `lines` prepares.

    Archives are .tgz, .tar and .zip by their name; a file ending in .gz is decompressed.
    """

    url: str
    member: str | None = None
    lines: Callable[[Iterable[bytes]], Iterable[bytes]] = plain


@dataclass(frozen=True)
class Text:
    """One side of one split: its parts, joined. `sha256` is that of the text, where it is known."""

    name: str
    parts: tuple[Part, ...]
    sha256: str | None = None


@dataclass(frozen=True)
class PublicCorpus:
    """Texts of a corpus.

    `is_living`: its website is updated, so that the checksums are those of one copy, and only copies from a mirror are
    checked.
    """

    description: str
    texts: tuple[Text, ...]
    is_living: bool = False


@dataclass(frozen=True)
class FetchResult:
    """Texts of a corpus after a fetch: new ones, those already there, and those without a known checksum."""

    new: tuple[str, ...]
    present: tuple[str, ...]
    unchecked: tuple[str, ...]


def fetch_corpus(name: str, folder: Path, *, mirror: Path | None = None) -> FetchResult:
    """Download of the texts of a corpus that `folder` lacks; with a mirror, copies of `mirror/NAME/TEXT` instead.

    Raises DataError for an unknown corpus, and for a text that is not there, or not the one expected.
    """
    if name not in CORPORA:
        raise DataError(f"{name}: unknown corpus; known are {', '.join(CORPORA)}")
    if mirror and not (mirror / name).is_dir():
        raise DataError(f"{mirror / name}: no such folder; a mirror has a folder for each corpus")
    corpus = CORPORA[name]
    sums = {text.name: None if corpus.is_living and not mirror else text.sha256 for text in corpus.texts}
    folder.mkdir(parents=True, exist_ok=True)
    new = [text for text in corpus.texts if not _is_right(folder / text.name, sums[text.name])]
    if others := [text.name for text in new if (folder / text.name).exists()]:
        raise DataError(f"{folder / others[0]}: exists, and is not the text of {name}; move it away")
    if corpus.is_living and not mirror and 0 < len(new) < len(sums):
        raise DataError(f"{folder}: lacks {new[0].name}, and all texts must be of one download; move the others away")
    for position, text in enumerate(new, start=1):
        with atomic_path(folder / text.name) as unchecked:
            if mirror:
                _copy(mirror / name / text.name, unchecked)
            else:
                _write(text, unchecked, folder)
            try:
                _check(unchecked, sums[text.name], f"{mirror / name / text.name}" if mirror else _origin(text))
            except DataError:
                _remove_downloads([text], folder)
                raise
        _remove_downloads(corpus.texts, folder, needed_by=new[position:])
    names = [text.name for text in new]
    present = [name for name in sums if name not in names]
    return FetchResult(tuple(names), tuple(present), tuple(name for name, known in sums.items() if not known))


def _remove_downloads(texts: Iterable[Text], folder: Path, *, needed_by: Iterable[Text] = ()) -> None:
    for url in _urls(texts) - _urls(needed_by):
        _download_path(url, folder).unlink(missing_ok=True)


def _urls(texts: Iterable[Text]) -> set[str]:
    return {part.url for text in texts for part in text.parts}


def _is_right(path: Path, sha256: str | None) -> bool:
    return path.is_file() and (sha256 is None or sha256 == sha256_of(path))


def _origin(text: Text) -> str:
    return " + ".join(part.url + (f" ({part.member})" if part.member else "") for part in text.parts)


def _check(path: Path, sha256: str | None, origin: str) -> None:
    if not path.stat().st_size:
        raise DataError(f"{origin}: no text; the origin has changed, use a copy with ``mirror=DIR``")
    actual = sha256_of(path) if sha256 else None
    if actual != sha256:
        hint = "run this again; if the error stays, the origin has changed: use a copy with ``mirror=DIR``"
        raise DataError(f"{origin}: not the text expected (SHA-256 {actual} instead of {sha256}); removed, {hint}")


def _copy(origin: Path, path: Path) -> None:
    try:
        shutil.copyfile(origin, path)
    except OSError as error:
        raise DataError(f"{origin}: cannot be copied: {error.strerror}") from error


def _write(text: Text, path: Path, folder: Path) -> None:
    """The text from its downloads, which `folder` holds until all texts of the corpus are written."""
    with path.open("wb") as output:
        for part in text.parts:
            file = _download_path(part.url, folder)
            download(part.url, file)
            try:
                with _open(file, part) as lines:
                    output.writelines(part.lines(lines))
            except CORRUPT_ERRORS as error:
                file.unlink()
                raise DataError(f"{_origin(Text('', (part,)))}: corrupt ({error}); removed, run this again") from error


def _download_path(url: str, folder: Path) -> Path:
    return folder / f"{url.partition('//')[2].replace('/', '_').replace(':', '_')}.part"


@contextmanager
def _open(file: Path, part: Part) -> Iterator[Iterable[bytes]]:
    """The lines of a part. Nothing of an archive is unpacked to a path."""
    with ExitStack() as stack:
        content: IO[bytes]
        if part.member is None:
            content = stack.enter_context(file.open("rb"))
        elif part.url.endswith(".zip"):
            content = stack.enter_context(stack.enter_context(zipfile.ZipFile(file)).open(part.member))
        else:
            content = _tar_member(stack.enter_context(tarfile.open(file, "r|*")), part.member)
        yield gzip.GzipFile(fileobj=content) if (part.member or part.url).endswith(".gz") else content


def _tar_member(archive: tarfile.TarFile, name: str) -> IO[bytes]:
    for member in archive:
        content = archive.extractfile(member) if member.name.removeprefix("./") == name and member.isfile() else None
        if content:
            return content
    raise KeyError(f"there is no file {name}")


def _multi30k(form: str, ending: str, sums: dict[str, str]) -> tuple[Text, ...]:
    home = f"https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/{form}"
    texts = [(name, *name.rsplit(".", 1), sha256) for name, sha256 in sums.items()]
    return tuple(Text(n, (Part(f"{home}/{ending.format(split, side)}"),), sha256) for n, split, side, sha256 in texts)


def _stanford(folder: str, splits: str, sides: str) -> tuple[Text, ...]:
    """Texts of the Stanford NLP group, tokenized, with entities such as `&apos;`."""
    home = f"https://nlp.stanford.edu/projects/nmt/data/{folder}"
    names = [f"{split}.{side}" for split in splits.split() for side in sides.split()]
    return tuple(Text(name, (Part(f"{home}/{name}", lines=unescaped),)) for name in names)


def _iwslt14(side: str) -> Iterator[Text]:
    """The splits of fairseq's `prepare-iwslt14.sh`."""
    archive = partial(Part, "http://dl.fbaipublicfiles.com/fairseq/data/iwslt14/de-en.tgz")
    for split in ("train", "dev"):
        yield Text(f"{split}.{side}", (archive(f"de-en/train.tags.de-en.{side}", partial(ted, split=split)),))
    sets = ("TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012")
    yield Text(f"test.{side}", tuple(archive(f"de-en/IWSLT14.{name}.de-en.{side}.xml", xml_segments) for name in sets))


_WMT14 = {
    "wmt13/training-parallel-europarl-v7.tgz": "training/europarl-v7.{pair}.{side}",
    "wmt13/training-parallel-commoncrawl.tgz": "commoncrawl.{pair}.{side}",
    "wmt14/training-parallel-nc-v9.tgz": "training/news-commentary-v9.{pair}.{side}",
}
_WMT14_FRENCH = {
    "wmt13/training-parallel-un.tgz": "un/undoc.2000.{pair}.{side}",
    "wmt10/training-giga-fren.tar": "giga-fren.release2.fixed.{side}.gz",
}


def _wmt14(language: str, train: dict[str, str], dev: tuple[int, ...]) -> Iterator[Text]:
    """Training text of the organizers, newstest of the years `dev`, and the whole newstest2014."""
    home = "https://www.statmt.org"
    for side in ("en", language):
        members = {url: member.format(pair=f"{language}-en", side=side) for url, member in train.items()}
        yield Text(f"train.{side}", tuple(Part(f"{home}/{url}", member) for url, member in members.items()))
        members = {f"wmt{year % 100}/test.tgz": f"test/newstest{year}-src.{side}.sgm" for year in dev}
        yield Text(f"dev.{side}", tuple(Part(f"{home}/{url}", m, sgml_segments) for url, m in members.items()))
        member = f"test-full/newstest2014-{language}en-{'src' if side == 'en' else 'ref'}.{side}.sgm"
        yield Text(f"test.{side}", (Part(f"{home}/wmt14/test-full.tgz", member, sgml_segments),))


def _tatoeba(sums: dict[str, str]) -> Iterator[Text]:
    for name, sha256 in sums.items():
        split, side = name.split(".")
        lines = partial(tatoeba, split=split, column=("en", "de").index(side))
        yield Text(name, (Part("http://www.manythings.org/anki/deu-eng.zip", "deu.txt", lines),), sha256)


def _read_sums() -> dict[str, dict[str, str]]:
    """The SHA-256 of texts, by corpus and name. In a folder of a mirror, `sha256sum --check` takes the same file."""
    sums = defaultdict[str, dict[str, str]](dict)
    for line in files("seq2attn.data").joinpath("corpora.sha256").read_text(encoding="utf-8").splitlines():
        sha256, path = line.split()
        corpus, name = path.split("/")
        sums[corpus][name] = sha256
    return sums


_SUMS = _read_sums()
CORPORA = {
    "multi30k": PublicCorpus("image captions, 29,000 pairs", _multi30k("raw", "{}.{}.gz", _SUMS["multi30k"])),
    "multi30k-lc-tok": PublicCorpus(
        "the same, lower-cased and tokenized", _multi30k("tok", "{}.lc.norm.tok.{}", _SUMS["multi30k-lc-tok"])
    ),
    "tatoeba-de-en": PublicCorpus(
        "short sentences, 164,000 pairs in 2018", tuple(_tatoeba(_SUMS["tatoeba-de-en"])), is_living=True
    ),
    "iwslt14-de-en": PublicCorpus("TED talks, 167,000 pairs", (*_iwslt14("de"), *_iwslt14("en"))),
    "iwslt15-en-vi": PublicCorpus(
        "TED talks, tokenized, 133,000 pairs", _stanford("iwslt15.en-vi", "train tst2012 tst2013", "en vi")
    ),
    "wmt14-en-de": PublicCorpus("news and others, 4.5 million pairs", tuple(_wmt14("de", _WMT14, (2013,)))),
    "wmt14-en-de-tok": PublicCorpus(
        "the same, tokenized, of Luong et al. 2015",
        _stanford("wmt14.en-de", "train newstest2013 newstest2014 newstest2015", "en de"),
    ),
    "wmt14-en-fr": PublicCorpus(
        "news and others, 41 million pairs", tuple(_wmt14("fr", _WMT14 | _WMT14_FRENCH, (2012, 2013)))
    ),
}
