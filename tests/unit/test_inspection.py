"""Reports on data: every count equals a plain recount, whatever was planted."""

from __future__ import annotations

import random
import re
import unicodedata
from collections import Counter
from dataclasses import asdict

import pytest

from seq2attn.data import inspector as inspecting
from seq2attn.data.inspector import FIRST, inspect_pairs
from seq2attn.data.report import Found, PairsReport
from seq2attn.data.seen import Seen, line_numbers
from seq2attn.text.characters import CharactersConfig
from seq2attn.text.words import WordsConfig
from tests.unit.phrases import JAPANESE, PHRASES, RUSSIAN, Pairs

ODD = [
    "Ã¼ber die StraÃŸe",
    "it was â€œgoodâ€",
    "a\x00b",
    "\x1b[31mred",
    "no \ufffd thing",
    "\u200b\u00a0",
    "½ ¾ 12",
]
SPACED = ["  two   spaces ", "a\tb", "a\u2028b", "e\u0301tat cafe\u0301", "état café", "a b", "etat"]
ESCAPED = [
    "do n't &quot; go &quot; , he said .",
    "bet@@ ter sub@@ words",
    "▁The ▁cat",
    "a ￭, b",
    "don't stop",
    "3.14 a.b ,c .d e.",
    "x,y。z",
]


def planted(seed: int, pairs: int) -> Pairs:
    """Pairs of which many have something to find."""
    draw = random.Random(seed)
    made: Pairs = []
    for _ in range(pairs):
        source, target = draw.choice(PHRASES)
        match draw.randrange(12):
            case 0:
                source, target = draw.choice([(source, ""), (" \t", target), ("", "")])
            case 1 if made:
                source, target = draw.choice(made)
            case 2:
                target = source
            case 3:
                source, target = draw.choice(RUSSIAN), draw.choice([target, *JAPANESE])
            case 4:
                source, target = target, draw.choice(RUSSIAN)
            case 5:
                source = draw.choice(ODD)
            case 6:
                source, target = draw.choice(SPACED), draw.choice(SPACED)
            case 7:
                target = draw.choice(ESCAPED)
        made.append((source, target))
    return made


def plain(line: str) -> str:
    return " ".join(unicodedata.normalize("NFC", line).split())


def script_of(character: str) -> str | None:
    if not character.isalpha() or unicodedata.category(character)[0] != "L":
        return None
    name = unicodedata.name(character).split()[0].title()
    return "Han and kana" if name in ("Cjk", "Hiragana", "Katakana") else name


def scripts_of(line: str) -> Counter[str]:
    return Counter(name for name in map(script_of, line) if name)


def main_scripts(lines: list[str]) -> tuple[str, list[str | None]]:
    """That of all letters, and that of each line; a line with as many of each counts as the one met first."""
    total = sum(map(scripts_of, lines), Counter())
    order: list[str] = list(dict.fromkeys(name for line in lines for name in map(script_of, line) if name))
    counts = [scripts_of(line) for line in lines]
    return max(total, key=total.__getitem__), [
        max(sorted(count, key=order.index), key=count.__getitem__, default=None) for count in counts
    ]


def found(flags: list[bool]) -> Found:
    lines = [number for number, flag in enumerate(flags, 1) if flag]
    return Found(len(lines), tuple(lines[:FIRST]))


def percentile(numbers: list[float], share: float) -> float:
    ordered = sorted(numbers)
    place = share * (len(ordered) - 1)
    low = int(place)
    return ordered[low] + (place - low) * (ordered[min(low + 1, len(ordered) - 1)] - ordered[low])


def check_spread(spread: object, numbers: list[float | None]) -> None:
    known = [number for number in numbers if number is not None]
    expected = {
        "mean": sum(known) / len(known),
        **{name: percentile(known, share) for name, share in
           (("p1", 0.01), ("median", 0.5), ("p95", 0.95), ("p99", 0.99))},
        "most": max(known),
        "line": 1 + numbers.index(max(known)),
    }  # fmt: skip
    assert asdict(spread) == pytest.approx(expected)  # type: ignore[call-overload]


def check_side(report: PairsReport, side: int, lines: list[str], words: WordsConfig) -> None:
    tokenizer = words.train([source for source, _ in PHRASES[:50]])
    ids = [tokenizer.encode(line) for line in lines]
    one = report.sides[side][1]
    check_spread(one.tokens, [len(line) for line in ids])
    check_spread(one.characters, [len(line) for line in lines])
    tokens = [token for line in ids for token in tokenizer.tokens(line)]
    assert (one.all_tokens, one.unknown) == (len(tokens), tokens.count("<unk>"))
    assert one.empty == sum(not line.strip() for line in lines)
    script, each = main_scripts(lines)
    assert one.script == script
    assert one.other_script == found([name not in (None, script) for name in each])
    control = [any(unicodedata.category(c) == "Cc" and not c.isspace() for c in line) for line in lines]
    garbled = [bool(re.search("[\u00c2\u00c3][\u0080-\u00bf]|â[€\x80]", line)) for line in lines]
    assert (one.control, one.replaced, one.garbled) == (
        found(control), found(["\ufffd" in line for line in lines]), found(garbled)
    )  # fmt: skip
    manner, text = one.manner, "\n".join(lines)
    assert manner.words == len(text.split())
    assert manner.alone == sum(
        len(re.findall(r"(?<!\S)[.,。，、．؟،](?!\S)", line)) + line.count(" n't") for line in lines
    )
    attached = r"(?<=\S)[.,](?!\S)|(?<=\S)[。，、．؟،]"
    assert manner.attached == sum(
        len(re.findall(attached, line)) + line.count("n't") - line.count(" n't") for line in lines
    )
    assert (manner.continued, manner.pieces, manner.joined) == tuple(map(text.count, ("@@", "▁", "￭")))
    assert manner.escapes == len(re.findall(r"&(?:apos|quot|amp|lt|gt|#124|#91|#93);|@-@", text))
    categories = Counter(map(unicodedata.category, text))
    assert (manner.upper, manner.lower) == (categories["Lu"] + categories["Lt"], categories["Ll"])
    assert manner.scripts == scripts_of(text)
    assert one.letters == dict(
        sorted(((c, n) for c, n in Counter(text).items() if script_of(c)), key=lambda x: (-x[1], x[0]))
    )


@pytest.mark.parametrize(("seed", "pairs", "chunk"), [(1, 700, 1000), (2, 700, 13), (3, 1, 1), (4, 300, 100)])
def test_counts_are_those_of_a_plain_recount(
    monkeypatch: pytest.MonkeyPatch, seed: int, pairs: int, chunk: int
) -> None:
    monkeypatch.setattr(inspecting, "CHUNK", chunk)
    made = planted(seed, pairs)
    learnt = made[: pairs // 3]
    words = WordsConfig()
    tokenizer = words.train([source for source, _ in PHRASES[:50]])
    numbers = [line_numbers([pair[side] for pair in learnt]) for side in (0, 1)]
    report = inspect_pairs(made, tokenizer, tokenizer, Seen.of(*numbers))
    sources, targets = [source for source, _ in made], [target for _, target in made]
    assert report.pairs == pairs
    check_side(report, 0, sources, words)
    check_side(report, 1, targets, words)
    seen = [(plain(source), plain(target)) for source, target in made]
    assert report.duplicates == pairs - len(set(seen))
    assert report.one_sided == found([bool(source) != bool(target) for source, target in seen])
    assert report.identical == found([a == b and bool(scripts_of(a)) for a, b in seen])
    assert report.learnt_pairs == sum(pair in set(seen[: pairs // 3]) for pair in seen)
    assert report.learnt_sources == sum(
        source in {one for one, _ in seen[: pairs // 3]} for source, _ in seen
    )
    (ours, of_source), (theirs, of_target) = main_scripts(sources), main_scripts(targets)
    swapped = [pair == (theirs, ours) and ours != theirs for pair in zip(of_source, of_target, strict=True)]
    assert report.swapped == found(swapped)
    lengths = [(len(tokenizer.encode(a)), len(tokenizer.encode(b))) for a, b in made]
    if any(a and b for a, b in lengths):
        check_spread(report.ratio, [b / a if a and b else None for a, b in lengths])


def test_swapped_pairs_are_told_by_their_scripts() -> None:
    pairs = [("кошка спит", "the cat sleeps")] * 20 + [("the house", "дом")] * 3 + [("12", "12")]
    tokenizer = CharactersConfig().train(["a"])
    report = inspect_pairs(pairs, tokenizer, tokenizer, None)
    assert report.swapped == Found(3, (21, 22, 23))
    assert (report.source.script, report.target.script) == ("Cyrillic", "Latin")
    assert (report.learnt_pairs, report.identical) == (None, Found())
