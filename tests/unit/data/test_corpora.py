"""Public corpora: fetched from archives or copied, and checked before they get their name."""

import gzip
import hashlib
import io
import random
import tarfile
import zipfile
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import download as script
import pytest

from seq2attn.data import corpus_formats
from seq2attn.data.corpora import CORPORA, Part, PublicCorpus, Text, fetch_corpus
from seq2attn.data.corpus_formats import plain, tatoeba, unescaped
from seq2attn.errors import DataError
from tests.support.file_server import Server, serve

GERMAN, ENGLISH = b"Ein Haus.\nEin Hund.\n", b"A house.\nA dog.\n"


def sha256(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()


def tgz(mode: str = "gz", **members: bytes) -> bytes:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode=f"w:{mode}") as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return archive.getvalue()


def zipped(**members: bytes) -> bytes:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        for name, content in members.items():
            file.writestr(name, content)
    return archive.getvalue()


def sgml(*lines: str) -> bytes:
    segments = "".join(f'<seg id="{i}"> {line} </seg>\n' for i, line in enumerate(lines, start=1))
    return f'<srcset setid="x">\n<doc docid="a">\n{segments}</doc>\n</srcset>\n'.encode()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """All corpora come from this server."""
    with serve({}) as server:
        for name, corpus in CORPORA.items():
            monkeypatch.setitem(CORPORA, name, server.corpus(corpus))
        yield server


@pytest.fixture
def small(server: Server, monkeypatch: pytest.MonkeyPatch) -> PublicCorpus:
    """A corpus of a compressed file and of an archive."""
    server.files |= {"/train.de.gz": gzip.compress(GERMAN), "/all.tgz": tgz(**{"./a/train.en": ENGLISH, "b": b"B\n"})}
    parts = (Part(f"{server.url}/all.tgz", "a/train.en"), Part(f"{server.url}/all.tgz", "b"))
    texts = (
        Text("train.de", (Part(f"{server.url}/train.de.gz"),), sha256(GERMAN)),
        Text("train.en", parts),
    )
    monkeypatch.setitem(CORPORA, "small", PublicCorpus("", texts))
    return CORPORA["small"]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_corpus_is_fetched_once(small: PublicCorpus, server: Server, tmp_path: Path) -> None:
    result = fetch_corpus("small", tmp_path / "new")
    assert (result.new, result.present, result.unchecked) == (("train.de", "train.en"), (), ("train.en",))
    assert (tmp_path / "new/train.de").read_bytes() == GERMAN
    assert (tmp_path / "new/train.en").read_bytes() == ENGLISH + b"B\n"
    assert names(tmp_path / "new") == ["train.de", "train.en"]
    server.ranges.clear()
    assert fetch_corpus("small", tmp_path / "new").present == ("train.de", "train.en")
    (tmp_path / "new/train.de").write_bytes(b"my own\n")
    with pytest.raises(DataError, match=r"new/train\.de: exists, and is not the text of small; move it away"):
        fetch_corpus("small", tmp_path / "new")
    assert (tmp_path / "new/train.de").read_bytes() == b"my own\n" and server.ranges == []
    (tmp_path / "new/train.de").unlink()
    assert fetch_corpus("small", tmp_path / "new").new == ("train.de",)
    assert (tmp_path / "new/train.de").read_bytes() == GERMAN and server.ranges == [None]


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("/train.de.gz", b"no gzip"),
        ("/train.de.gz", gzip.compress(GERMAN * 9)[:-20]),
        ("/train.de.gz", gzip.compress(ENGLISH)),
        ("/all.tgz", b"no archive"),
        ("/all.tgz", tgz(b=b"B\n")),
        ("/all.tgz", tgz(**{"a/train.en": b"", "b": b""})),
    ],
    ids=["no gzip", "truncated", "other text", "no archive", "no member", "empty"],  # archives have the time in them
)
def test_a_wrong_file_is_an_error_and_removed(
    small: PublicCorpus, server: Server, tmp_path: Path, path: str, content: bytes
) -> None:
    right, server.files[path] = server.files[path], content
    with pytest.raises(DataError, match=rf"{path}.*(run this again|``mirror=DIR``)") as error:
        fetch_corpus("small", tmp_path)
    assert "\n" not in str(error.value)
    assert set(names(tmp_path)) <= {"train.de"}
    server.files[path] = right
    fetch_corpus("small", tmp_path)
    assert names(tmp_path) == ["train.de", "train.en"]


def test_links_of_archives_are_not_followed(small: PublicCorpus, server: Server, tmp_path: Path) -> None:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz") as tar:
        link = tarfile.TarInfo("a/train.en")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
    server.files["/all.tgz"] = archive.getvalue()
    with pytest.raises(DataError, match=r"there is no file a/train\.en"):
        fetch_corpus("small", tmp_path)


def test_iwslt14_has_the_splits_of_fairseq(server: Server, tmp_path: Path) -> None:
    sets = ("TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012", "TED.dev2014")
    files = {}
    for side in ("de", "en"):
        talk = [f"{side} {i}" for i in range(1, 60)]
        tags = ["<url>http://x</url>", f"<title>{side} &amp; title</title>", "<talkid>1</talkid>", *talk]
        files[f"de-en/train.tags.de-en.{side}"] = "\n".join(tags).encode()
        files |= {f"de-en/IWSLT14.{name}.de-en.{side}.xml": sgml(f"{side} &apos;{name}") for name in sets}
    server.files["/fairseq/data/iwslt14/de-en.tgz"] = tgz(**files)
    assert fetch_corpus("iwslt14-de-en", tmp_path).unchecked == tuple(
        f"{split}.{side}" for side in ("de", "en") for split in ("train", "dev", "test")
    )
    assert server.ranges.count(None) == 1  # one download
    train, dev, test = ((tmp_path / f"{split}.de").read_text().splitlines() for split in ("train", "dev", "test"))
    assert dev == ["de 22", "de 45"] and train[0] == "de & title"  # lines 23 and 46 with the title
    assert train[1:] == [line for line in (f"de {i}" for i in range(1, 60)) if line not in dev]
    assert test == [f"de '{name}" for name in sets[:-1]]
    assert (tmp_path / "dev.en").read_text() == "en 22\nen 45\n"


def test_wmt14_joins_the_text_of_all_sources(server: Server, tmp_path: Path) -> None:
    def both(name: str, text: str) -> dict[str, bytes]:
        return {name.format(side): f"{text}\u2028 {side}".encode() for side in ("en", "fr")}

    def test(year: str) -> dict[str, bytes]:
        return {f"test/newstest{year}-src.{side}.sgm": sgml(f"{year}  {side} &amp;") for side in ("en", "fr")}

    crawled = {name: gzip.compress(text) for name, text in both("giga-fren.release2.fixed.{}.gz", "giga").items()}
    new = {f"test-full/newstest2014-fren-{kind}.{kind}.sgm": sgml(kind) for kind in ("src", "ref")}
    new = {name.replace("src.src", "src.en").replace("ref.ref", "ref.fr"): text for name, text in new.items()}
    server.files |= {
        "/wmt13/training-parallel-europarl-v7.tgz": tgz(**both("training/europarl-v7.fr-en.{}", "europarl")),
        "/wmt13/training-parallel-commoncrawl.tgz": tgz(**both("commoncrawl.fr-en.{}", "crawl")),
        "/wmt14/training-parallel-nc-v9.tgz": tgz(**both("training/news-commentary-v9.fr-en.{}", "news")),
        "/wmt13/training-parallel-un.tgz": tgz(**both("un/undoc.2000.fr-en.{}", "un")),
        "/wmt10/training-giga-fren.tar": tgz("", **crawled),
        "/wmt12/test.tgz": tgz(**test("2012")),
        "/wmt13/test.tgz": tgz(**test("2013")),
        "/wmt14/test-full.tgz": tgz(**new),
    }
    fetch_corpus("wmt14-en-fr", tmp_path)
    for side in ("en", "fr"):
        parts = ("europarl", "crawl", "news", "un", "giga")
        expected = "".join(f"{part}\u2028 {side}\n" for part in parts)
        assert (tmp_path / f"train.{side}").read_text(encoding="utf-8") == expected
        assert (tmp_path / f"dev.{side}").read_text() == f"2012 {side} &amp;\n2013 {side} &amp;\n"
    assert [(tmp_path / f"test.{side}").read_text() for side in ("en", "fr")] == ["src\n", "ref\n"]


def test_tatoeba_as_it_is_today_has_no_checksum(server: Server, tmp_path: Path) -> None:
    lines = "".join(f"E{i}\tD{i}\tCC-BY\n" for i in range(5000))
    server.files["/anki/deu-eng.zip"] = zipped(**{"deu.txt": lines.encode()})
    result = fetch_corpus("tatoeba-de-en", tmp_path)
    assert len(result.unchecked) == 6
    pairs = zip((tmp_path / "test.de").read_text().split(), (tmp_path / "test.en").read_text().split(), strict=True)
    assert all(de == en.replace("E", "D") for de, en in pairs)
    assert fetch_corpus("tatoeba-de-en", tmp_path).new == ()
    mirror = tmp_path / "mirror"
    (mirror / "tatoeba-de-en").mkdir(parents=True)
    for name in result.new:
        (mirror / "tatoeba-de-en" / name).write_bytes((tmp_path / name).read_bytes())
    with pytest.raises(DataError, match=r"train\.de: not the text expected"):
        fetch_corpus("tatoeba-de-en", tmp_path / "new", mirror=mirror)
    (tmp_path / "dev.de").unlink()
    with pytest.raises(DataError, match=r"lacks dev\.de, and all texts must be of one download"):
        fetch_corpus("tatoeba-de-en", tmp_path)


@pytest.mark.parametrize(
    ("corpus", "text", "url"),
    [
        ("multi30k", "val.de", "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw/val.de.gz"),
        (
            "multi30k-lc-tok",
            "test_2017_mscoco.en",
            "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/tok/test_2017_mscoco.lc.norm.tok.en",
        ),
        ("tatoeba-de-en", "dev.de", "http://www.manythings.org/anki/deu-eng.zip"),
        ("iwslt14-de-en", "test.de", "http://dl.fbaipublicfiles.com/fairseq/data/iwslt14/de-en.tgz"),
        ("iwslt15-en-vi", "tst2012.vi", "https://nlp.stanford.edu/projects/nmt/data/iwslt15.en-vi/tst2012.vi"),
        ("wmt14-en-de-tok", "train.en", "https://nlp.stanford.edu/projects/nmt/data/wmt14.en-de/train.en"),
        ("wmt14-en-de", "dev.de", "https://www.statmt.org/wmt13/test.tgz"),
    ],
)
def test_homes(corpus: str, text: str, url: str) -> None:
    (found,) = (one for one in CORPORA[corpus].texts if one.name == text)
    assert {part.url for part in found.parts} == {url}


def test_a_mirror_is_copied_and_checked(
    small: PublicCorpus, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mirror, output = tmp_path / "small", tmp_path / "output"
    command = ["small", "--output", str(output), "--mirror", str(tmp_path)]
    assert script.main(command) == 2 and not output.exists()
    assert capsys.readouterr().err == f"download: {mirror}: no such folder; a mirror has a folder for each corpus\n"
    mirror.mkdir()
    (mirror / "train.de").write_bytes(GERMAN)
    assert script.main(command) == 2
    assert f"{mirror / 'train.en'}: cannot be copied: No such file" in capsys.readouterr().err
    (mirror / "train.en").write_bytes(ENGLISH)
    for counts in ("1 files new, 1 already right", "0 files new, 2 already right"):
        assert script.main(command) == 0
        assert capsys.readouterr().out == f"{output}: {counts}\nnot checked: no checksum is known: train.en\n"
    (mirror / "train.de").write_bytes(b"corrupt\n")
    (output / "train.de").unlink()
    assert script.main(command) == 2
    assert "not the text expected" in capsys.readouterr().err and names(output) == ["train.en"]


def test_an_unknown_corpus_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert script.main(["multi3k", "--output", str(tmp_path / "new")]) == 2
    assert capsys.readouterr().err.startswith("download: multi3k: unknown corpus; known are multi30k, ")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("seed", range(4))
def test_splits_of_tatoeba_share_no_sentence(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus_formats, "HELD_OUT_PAIRS", 20)
    rng = random.Random(seed)
    pairs = [(f"e{rng.randrange(150)}", f"d{rng.randrange(150)}") for _ in range(90)]
    pairs += [("hub", f"h{i}") for i in range(40)]  # too large a group to be held out
    lines = ["\t".join(pair).encode() + b"\tCC-BY\n" for pair in pairs] + [b"alone\n", b"empty\t\n"]

    def sides(split: str) -> list[list[bytes]]:
        return [[*tatoeba(lines, split=split, column=column)] for column in (0, 1)]

    splits = [sides(split) for split in ("train", "dev", "test")]
    assert [len(side) for split in splits[1:] for side in split] == [20] * 4
    for first, second in combinations(splits, 2):
        assert not {*first[0]} & {*second[0]} and not {*first[1]} & {*second[1]}
    found = [pair for english, german in splits for pair in zip(english, german, strict=True)]
    assert sorted(found) == sorted({(f"{e}\n".encode(), f"{d}\n".encode()) for e, d in pairs})
    rng.shuffle(lines)
    assert [sides(split) for split in ("train", "dev", "test")] == splits


def test_lines_end_at_newlines_only() -> None:
    assert [*plain([b"a\xe2\x80\xa8b\r\n", b"c"])] == [b"a\xe2\x80\xa8b\n", b"c\n"]
    assert [*unescaped([b"I &apos;d &amp; \xff\n"])] == [b"I 'd & \xff\n"]
