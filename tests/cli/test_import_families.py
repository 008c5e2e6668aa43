"""Models of other families than Marian become runs, with their languages, or the text of their task."""

import json
import re
import shlex
from pathlib import Path

import pytest

import seq2attn
from seq2attn.experiment.run_directory import RunDirectory
from seq2attn.search.search_config import GreedyConfig
from tests.support.commands import Invoke
from tests.support.marian import SOURCE, TARGET, make_marian
from tests.support.multilingual import make_m2m100
from tests.support.pages import commands
from tests.support.t5 import PREFIX, TASKS, make_t5

ADAPTED_DATA = "".join(f"  {name}: {{kind: plain, source: test.de, target: test.fr}}\n" for name in ("train", "dev"))
ADAPTED = """\
tokenizer: {run_dir: runs/nllb}
training:
  init_from: {run_dir: runs/nllb}
  max_duration: [1 update]
  optimizer: {kind: sgd, lr: 1.0e-9}
"""


@pytest.mark.slow
def test_a_multilingual_model_translates_into_each_of_its_languages(invoke: Invoke, tmp_path: Path) -> None:
    """The commands of docs/pretrained.md, and others."""
    make_m2m100(tmp_path / "nllb-200-distilled-600M", nllb=True)
    for side, lines in (("de", SOURCE), ("fr", TARGET)):
        (tmp_path / f"test.{side}").write_text("\n".join(lines), encoding="utf-8")
    imported, translate, evaluate, score = [
        shlex.split(command)[1:] for command in commands("docs/pretrained.md") if "nllb" in command
    ]
    assert re.search(r"^greedy +20 +100.00% +100.0%", invoke(*imported).out, re.MULTILINE)
    french = invoke(*translate).out
    translator = seq2attn.load(tmp_path / "runs/nllb")
    assert french == translator.translate("Das Haus ist alt.", to="fra_Latn").text + "\n"
    assert french != translator.translate("Das Haus ist alt.").text + "\n"
    assert "BLEU" in invoke(*evaluate).out
    texts = (tmp_path / "runs/nllb/evaluation/test.de.txt").read_text(encoding="utf-8").splitlines()
    assert texts == [one.text for one in translator.translate(list(SOURCE), to="fra_Latn")]
    report = json.loads((tmp_path / "runs/nllb/evaluation/test.de.json").read_text(encoding="utf-8"))
    assert report["engine"].endswith(", to fra_Latn")
    tagged = invoke(*score, "--per-token").out.splitlines()
    assert all(line.split("\t")[1].startswith("fra_Latn ") for line in tagged)
    export = invoke("export", "runs/nllb", "--to", "ctranslate2", "--verify-with", "test.de").out
    assert re.search(r"^greedy +3 +100.00%", export, re.MULTILINE)
    assert invoke(*translate, "--greedy", "--engine", "ctranslate2").out == invoke(*translate, "--greedy").out
    assert "\nlayer 2" in invoke(*translate, "--attention", "-", "--prefix", "The").out
    for command in (translate, evaluate, score):
        error = invoke(*command, "--to", "xxx", code=2).err
        assert "not translate into `xxx`: its languages are deu_Latn, eng_Latn, fra_Latn" in error
        assert error.count("\n") == 1
    assert "its languages are" in invoke(*translate, "--to", "<mask>", code=2).err

    for run, one, other in (("back", "eng_Latn", "deu_Latn"), ("same", "deu_Latn", "eng_Latn")):
        languages = ("--from", one, "--to", other, "--verify-with", "test.de")
        invoke("import", "nllb-200-distilled-600M", f"runs/{run}", *languages)
    line = ("translate", "runs/nllb", "Das Haus")
    assert invoke(*line, "--rerank-backward", "runs/back").out.count("\n") == 1
    error = invoke(*line, "--rerank-backward", "runs/same", code=2).err
    assert "runs/same:1: was imported for `deu_Latn`, and the text is `eng_Latn`; import it again" in error

    adapted = f"extends: runs/nllb/config.yaml\nrun_dir: runs/adapted\ndata:\n{ADAPTED_DATA}{ADAPTED}"
    (tmp_path / "adapted.yaml").write_text(adapted, encoding="utf-8")
    invoke("train", "adapted.yaml")
    samples = (tmp_path / "runs/adapted/samples.txt").read_text(encoding="utf-8")
    english = translator.translate(SOURCE[0], GreedyConfig()).text[:20]  # of the run, with its tag
    assert len(english) == 20 and f"translation: {english}" in samples


@pytest.mark.slow
def test_the_language_of_a_marian_model_can_be_another_one(invoke: Invoke, tmp_path: Path) -> None:
    make_marian(tmp_path / "hf", tags=[">>fra<<", ">>eng<<"])
    (tmp_path / "tagged").write_text(f">>eng<< {SOURCE[0]}\n", encoding="utf-8")
    invoke("import", "hf", "run", "--to", "fra", "--no-punctuation", "--verify-with", "tagged")
    scored = ("translate", "run", "--n-best", "2")
    tagged = [invoke(*scored, f">>{language}<< {SOURCE[0]}").out for language in ("eng", "fra")]
    assert [invoke(*scored, SOURCE[0], "--to", language).out for language in ("eng", "fra")] == tagged
    assert tagged[1] != tagged[0] == invoke(*scored, SOURCE[0], "--to", "eng", "--ensemble", "run").out
    (tmp_path / "lines").write_text(SOURCE[0] + "\n", encoding="utf-8")
    log_probs = []
    for language, expected in zip(("eng", "fra"), tagged, strict=True):
        error = invoke("distill", "run", "--source", "lines", "-o", language, "--to", language, code=2).err
        assert "left out: 1 truncated" in error  # the weights are random
        pair = json.loads((tmp_path / language / "translations/0.jsonl").read_text(encoding="utf-8"))
        assert pair["target"] == expected.split("\n")[0].split("\t")[2]
        log_probs.append(pair["log_prob"])
    assert log_probs[0] != log_probs[1]
    invoke("back-translate", "run", "--target", "lines", "-o", "back", "--to", "eng", code=2)
    pair = json.loads((tmp_path / "back/translations/0.jsonl").read_text(encoding="utf-8"))
    assert pair["log_prob"] == log_probs[0]
    assert "another language;" in invoke("distill", "run", "--source", "lines", "-o", "eng", "--to", "fra", code=2).err
    assert "its languages are fra, eng" in invoke("translate", "run", SOURCE[0], "--to", "deu", code=2).err
    invoke("import", "hf", "english", "--to", "eng", "--no-punctuation", "--verify-with", "tagged")
    error = invoke("translate", "run", SOURCE[0], "--ensemble", "english", code=2).err
    assert "with run, which was imported for `>>fra<<`, not `>>eng<<`" in error
    both = invoke(*scored, SOURCE[0], "--to", "eng", "--ensemble", "english").out  # the same model
    assert both == tagged[0]
    error = invoke("translate", "run", SOURCE[0], "--rerank", "english", code=2).err
    assert "--rerank english:1: was imported for `>>eng<<`, and the text is `>>fra<<`; import it again" in error
    assert invoke("translate", "run", SOURCE[0], "--rerank", "run").out == invoke("translate", "run", SOURCE[0]).out
    assert "leave it out (--from LANG)" in invoke("import", "hf", "a", "--to", "fra", "--from", "x", code=2).err


@pytest.fixture(scope="module")
def t5(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hf") / "t5"
    make_t5(folder, task_specific_params=TASKS)
    return folder


def test_commands_work_on_an_imported_model(t5: Path, invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "lines").write_text("\n".join(SOURCE), encoding="utf-8")
    imported = invoke("import", t5, "run", "--to", "en", "--verify-with", "lines").out
    assert re.search(r"^greedy +3 +100.00% +100.0%", imported, re.MULTILINE)
    options = ("--source-prefix", PREFIX.strip(), "--from", "German", "--verify-with", "lines")
    prefixed = invoke("import", t5, "same", *options).out
    assert re.search(r"^greedy +3 +100.00% +100.0%", prefixed, re.MULTILINE)
    greedy = ["--greedy", "-i", "lines", "--device", "cpu"]
    translations = invoke("translate", "run", *greedy).out
    longer = invoke("translate", "same", *greedy).out.splitlines()  # without the maximum length of the task
    assert all(line.startswith(short) for line, short in zip(longer, translations.splitlines(), strict=True))
    assert "\nlayer 2" in invoke("translate", "run", SOURCE[0], "--attention", "-").out
    export = invoke("export", "run", "--to", "ctranslate2", "--verify-with", "lines").out
    assert re.search(r"^greedy +3 +100.00%", export, re.MULTILINE)
    assert invoke("translate", "run", *greedy, "--engine", "ctranslate2").out == translations
    assert invoke("doctor", "run", "-i", "lines", "--sentences", "2").out.count("pass") == 4


@pytest.mark.slow
def test_the_commands_of_the_page_about_t5_run(invoke: Invoke, tmp_path: Path) -> None:
    """With models that have the task of the page, or none."""
    task = {"translation_en_to_de": {"prefix": "translate English to German: "}}
    make_t5(tmp_path / "t5-small", task_specific_params=task)
    make_t5(tmp_path / "flan-t5-small", gated=True)
    listed = [shlex.split(command)[1:] for command in commands("docs/pretrained.md") if "t5" in command]
    assert len(listed) == 2
    for command in listed:
        assert re.search(r"^greedy +20 +100.00% +100.0%", invoke(*command).out, re.MULTILINE)
        tokenizer = RunDirectory(tmp_path / command[2]).load_config().tokenizer
        assert getattr(tokenizer.source, "prefix", "").strip() == "translate English to German:"


def test_another_text_with_the_search_of_the_task(t5: Path, invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "line").write_text(SOURCE[0], encoding="utf-8")
    options = ("--from", "de", "--to", "en", "--source-prefix", "Wo ist", "--verify-with", "line")
    invoke("import", t5, "run", *options)
    config = RunDirectory(tmp_path / "run").load_config()
    assert getattr(config.tokenizer.source, "prefix", None) == "Wo ist" and config.search.num_hypotheses == 3
