"""Tags of languages, from configs to scores."""

import shutil
from itertools import product
from pathlib import Path

import pytest

from tests.support.commands import WORDS, Invoke, write_lines, write_toy

TAGGED = """\
extends: toy.yaml
run_dir: run
data:
  train: [{kind: tsv, path: en.tsv, tag: 2en}, {kind: tsv, path: fr.tsv, tag: 2fr, repeat: 2}]
  dev: {kind: tsv, path: fr.tsv, tag: 2fr}
  test: {english: {kind: tsv, path: en.tsv, tag: 2en}}
tokenizer: {joint: {kind: words}}
training: {max_duration: [60 updates]}
"""
PAIR = ["--source", "lines", "--target", "answers"]


@pytest.mark.slow
def test_tags_choose_the_translation(invoke: Invoke, tmp_path: Path) -> None:
    write_toy(tmp_path)
    for language, answer in (("en", "the answer"), ("fr", "la réponse")):
        write_lines(tmp_path / f"{language}.tsv", [f"{a} {b}\t{answer}" for a, b in product(WORDS, WORDS)])
    (tmp_path / "tags.yaml").write_text(TAGGED, encoding="utf-8")
    invoke("train", "tags.yaml")
    for options, lines, expected in (
        (["--tag", "2en"], "haus boot\n\nalt neu\n", "the answer\n\nthe answer\n"),
        (["--tag", "2fr"], "haus boot\n", "la réponse\n"),
        ([], "<2fr> haus boot\n<2en> haus boot\n", "la réponse\nthe answer\n"),
    ):
        done = invoke("translate", "run", "--greedy", *options, given=lines.encode())
        assert done.out == expected
        assert "no tag, although" not in done.err
    assert '"source": "haus"' in invoke("translate", "run", "--tag", "2en", "--json", "haus").out
    invoke("evaluate", "run", "--greedy")
    assert (tmp_path / "run/evaluation/english.txt").read_text(encoding="utf-8") == "the answer\n" * 49
    done = invoke("translate", "run", "haus boot")
    assert "line 1: no tag, although all training text had one; give --tag, or" in done.err
    write_lines(tmp_path / "lines", ["haus baum"])
    write_lines(tmp_path / "answers", ["la réponse"])
    warned = invoke("evaluate", "run", "--source", "lines", "--reference", "answers", "--json")
    assert "line 1: no tag, although all training text had one; give --tag, or" in warned.out and "``" not in warned.out
    scored = [invoke("score", "run", *PAIR, "--tag", tag) for tag in ("2fr", "2en")]
    assert float(scored[0].out) > float(scored[1].out) and "no tag" not in scored[0].err
    write_lines(tmp_path / "both", ["<2fr> haus baum", "", "haus baum"])
    write_lines(tmp_path / "three", ["la réponse", "", "la réponse"])
    for command in ("score", "align"):
        error = invoke(command, "run", "--source", "both", "--target", "three").err
        assert error.count("warning: line 3: no tag, although all training text had one") == 1 == error.count("no tag")
    own_set = ["--source", "lines", "--reference", "answers"]
    invoke("evaluate", "run", "--greedy", *own_set, "--tag", "2fr")
    assert (tmp_path / "run/evaluation/lines.txt").read_text(encoding="utf-8") == "la réponse\n"
    assert "data.test.NAME.tag" in invoke("evaluate", "run", "--tag", "2fr", code=2).err
    shutil.copytree(tmp_path / "run", tmp_path / "copy")
    compare = ["compare", "run", "copy", *own_set]
    assert invoke(*compare, "--tag", "2fr").out.startswith("lines, 1 sentences")
    assert "a translation of another text" in invoke(*compare, code=2).err
    commands = ["translate", "run", "haus"], ["evaluate", "run", *own_set], ["score", "run", *PAIR], compare
    for command in commands:
        done = invoke(*command, "--tag", "2 de", code=2)
        assert done.err == "error: the model does not know the tag `2 de`: its tags are `2en`, `2fr`\n" and not done.out
