"""A T5 model of Hugging Face becomes a run, with the text of its task before each source line."""

import json
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest

from seq2attn.run_directory import RunDirectory
from tests.cli.conftest import Invoke
from tests.cli.test_pages import commands
from tests.small_marian import SOURCE
from tests.small_t5 import PREFIX, TASKS, make_t5


@pytest.fixture(scope="module")
def t5(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hf") / "t5"
    make_t5(folder, task_specific_params=TASKS)
    return folder


def test_commands_work_on_an_imported_model(t5: Path, invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "lines").write_text("\n".join(SOURCE), encoding="utf-8")
    imported = invoke("import", t5, "run", "--to", "en", "--verify-with", "lines").out
    assert re.search(r"^greedy +3 +100.00% +100.0%", imported, re.MULTILINE)
    prefixed = invoke("import", t5, "same", "--source-prefix", PREFIX.strip()).out
    assert re.search(r"^greedy +20 +100.00% +100.0%", prefixed, re.MULTILINE)
    greedy = ["--greedy", "-i", "lines", "--device", "cpu"]
    translations = invoke("translate", "run", *greedy).out
    longer = invoke("translate", "same", *greedy).out.splitlines()  # without the maximum length of the task
    assert all(line.startswith(short) for line, short in zip(longer, translations.splitlines(), strict=True))
    assert "\nlayer 2" in invoke("translate", "run", SOURCE[0], "--attention", "-").out
    export = invoke("export", "run", "--to", "ctranslate2", "--verify-with", "lines").out
    assert re.search(r"^greedy +3 +100.00%", export, re.MULTILINE)
    assert invoke("translate", "run", *greedy, "--engine", "ctranslate2").out == translations
    assert invoke("doctor", "run", "-i", "lines", "--sentences", "2").out.count("pass") == 4


def test_the_commands_of_the_page_run(invoke: Invoke, tmp_path: Path) -> None:
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
    invoke("import", t5, "run", "--from", "de", "--to", "en", "--source-prefix", "Wo ist")
    config = RunDirectory(tmp_path / "run").load_config()
    assert getattr(config.tokenizer.source, "prefix", None) == "Wo ist" and config.search.num_hypotheses == 3


CONFIGS: dict[str, tuple[dict[str, Any], list[str], str]] = {
    "task": ({}, [], "{hf}: the model has the languages en; give one (--to LANG)"),
    "language": ({}, ["--to", "fr"], "{hf}: the model has the languages en; give one (--to LANG)"),
    "source": ({}, ["--from", "fr", "--to", "en"], "{hf}: the model has the languages de; give one (--from LANG)"),
    "no tasks": ({"task_specific_params": None}, ["--to", "fr"], "{hf}: the model has no tags of languages"),
    "prefix": ({}, ["--source-prefix", "Ω"], "the model does not know all tokens of the `prefix` 'Ω'"),
    "rows": ({"vocab_size": 60}, ["--to", "en"], "{hf}/spiece.model: has 69 entries, and"),
    "activation": ({"feed_forward_proj": "gelu"}, [], "{hf}/config.json: `feed_forward_proj`: Input should be 'relu'"),
    "epsilon": ({"layer_norm_epsilon": 1e-5}, [], "{hf}/config.json: `layer_norm_epsilon`: Input should be less than"),
    "buckets": (
        {"relative_attention_max_distance": 4}, ["--to", "en"], "max_distance: 4, but 4 of the 8 buckets have"
    ),
    "heads": ({"d_kv": 7}, ["--to", "en"], "SelfAttention.k.weight` is 12 x 16, and 14 x 16 by config.json"),
    "gate": ({"feed_forward_proj": "gated-gelu"}, ["--to", "en"], "{hf}: its weights lack `encoder.block.0.layer.1.De"),
    "kind": ({"model_type": "marian"}, ["--to", "en"], "{hf}/config.json: "),
}  # fmt: skip


@pytest.mark.parametrize("name", CONFIGS)
def test_a_model_that_does_not_fit_leaves_nothing_behind(name: str, t5: Path, invoke: Invoke, tmp_path: Path) -> None:
    fields, options, message = CONFIGS[name]
    folder = Path(shutil.copytree(t5, tmp_path / "hf"))
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | fields))
    error = invoke("import", folder, "run", *options, code=2).err
    assert message.format(hf=folder) in error and error.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["hf"]
