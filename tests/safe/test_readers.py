"""Files of a sweep, an import and a log are read as those of a run are."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from seq2attn.config import plugin
from seq2attn.config.plugin import allow_code
from seq2attn.config.yaml_reader import parse_yaml, read_ids
from seq2attn.data.inspection import DataReport, inspect_pairs
from seq2attn.errors import ConfigError, RunError, UserError
from seq2attn.evaluation.evaluate import Digests, SetResult
from seq2attn.experiment.run_directory import RunDirectory
from seq2attn.sweep.plan import TrialRun, load_plan
from seq2attn.sweep.record import (
    TRIAL_FILE,
    RunRecord,
    TrainingSummary,
    changed_options,
    options,
    read_record,
    read_trial,
    write_record,
    write_trial,
)
from seq2attn.training.checkpoints.averaging import average
from seq2attn.training.metrics_logger import METRICS_FILE
from tests.support.commands import Invoke
from tests.support.trainings import train_run
from tests.support.untrained_runs import CONFIG, PLUGIN, SWEEP, untrained_run

MODULE = 'from pathlib import Path\nPath("it ran").touch()\n'


@pytest.fixture
def trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TrialRun:
    """The first trial of a sweep, begun by somebody else, and a module in the working directory."""
    monkeypatch.setattr(plugin, "_allowed", set())
    monkeypatch.chdir(tmp_path)
    untrained_run(tmp_path)
    (tmp_path / "sweep.yaml").write_text(SWEEP.format("own.yaml"), encoding="utf-8")
    (tmp_path / "theirs_of_a_trial.py").write_text(MODULE, encoding="utf-8")
    run = load_plan(tmp_path / "sweep.yaml").runs[0]
    write_trial(run, options(run.experiment))
    return run


def forge(run: TrialRun, kind: str = "theirs_of_a_trial:Theirs") -> None:
    path = run.folder / TRIAL_FILE
    content = json.loads(path.read_text(encoding="utf-8"))
    content["config"]["model"]["encoder"] = {"kind": kind}
    path.write_text(json.dumps(content), encoding="utf-8")


def test_a_trial_imports_no_code(trial: TrialRun, invoke: Invoke) -> None:
    """Only what the sweep's own config names is imported."""
    assert changed_options(trial) == []
    forge(trial)
    write_record(trial.folder, RunRecord(TrainingSummary(1, 1, 1, 1, 1, 1, "theirs", "2", "today"), {}))
    assert "1 of another config" in invoke("sweep", "sweep.yaml", "--dry-run").out
    for arguments in (("--leaderboard",), ()):
        assert "--redo" in invoke("sweep", "sweep.yaml", *arguments, code=2).err
    assert not Path("it ran").exists()
    with pytest.raises(ConfigError, match="would run code of the module `theirs_of_a_trial`"):
        read_trial(trial.folder)


def test_a_trial_may_have_the_code_of_its_sweep(trial: TrialRun) -> None:
    forge(trial)
    allow_code(["theirs_of_a_trial"])
    with pytest.raises(ConfigError, match="has no class `Theirs`"):
        read_trial(trial.folder)
    assert Path("it ran").exists()


DEEP = f'{{"config": {{"model": {"[" * 900}{"]" * 900}}}}}'


@pytest.mark.parametrize("content", ["{}", '{"config": 3}', '{"config": {"model": []}, "fingerprint": []}', DEEP])
def test_a_trial_without_a_config_is_of_another_one(trial: TrialRun, content: str) -> None:
    (trial.folder / TRIAL_FILE).write_text(content, encoding="utf-8")
    assert changed_options(trial) == ["config"]
    with pytest.raises(UserError, match=TRIAL_FILE):
        read_trial(trial.folder)


def test_large_files_of_own_text_are_read(tmp_path: Path) -> None:
    """Translations of large test sets, and the characters of large Chinese and Japanese texts."""
    lines = tuple(f"translation {number}: " + "word " * 100 for number in range(5000))
    digests = Digests("source", ("reference",))
    result = SetResult("test", digests, len(lines), (), (), 1.0, 1, lines, None, ())
    record = RunRecord(TrainingSummary(1, 1, 1, 1, 1, 1, "machine", "2", "today"), {"test": result})
    write_record(tmp_path, record)
    assert read_record(tmp_path) == record
    counts = {chr(code): 123_456 for code in range(0x10000, 0x20000)}
    empty = inspect_pairs([], *untrained_run(tmp_path).load_tokenizers())
    corpus = replace(empty, source=replace(empty.source, characters=counts))
    report = DataReport(corpus, corpus, {})
    report.save(tmp_path)
    assert DataReport.load(tmp_path) == report


@pytest.mark.slow
def test_the_processes_of_a_sweep_have_its_code(tmp_path: Path, invoke: Invoke) -> None:
    (tmp_path / "code_of_a_sweep.py").write_text(PLUGIN, encoding="utf-8")
    config = CONFIG.replace("encoder: {kind: gru, dim: 8}", "encoder: {kind: 'code_of_a_sweep:Theirs', dim: 8}")
    training = "training: {max_duration: [2 updates], validation: {every: 2 updates}}\n"
    (tmp_path / "own.yaml").write_text(config + training, encoding="utf-8")
    (tmp_path / "lines.txt").write_text("a few words\n" * 9, encoding="utf-8")
    (tmp_path / "sweep.yaml").write_text(SWEEP.format("own.yaml"), encoding="utf-8")
    invoke("sweep", "sweep.yaml")
    assert len([*(tmp_path / "swept").rglob("result.json")]) == 2


TORN: dict[str, Callable[[bytes], bytes]] = {
    "cut": lambda data: data[:-20],
    "no line break": lambda data: data[:-1],
    "zeros": lambda data: data[:-20] + b"\0" * 4096,
    "empty": lambda data: b"",
    "one byte": lambda data: data[:1],
}
INVALID: dict[str, Callable[[bytes], bytes]] = {
    "no JSON": lambda data: data + b"{\n",
    "zeros and a line": lambda data: data + b"\0\n",
    "a list": lambda data: data + b"[]\n",
    "not UTF-8": lambda data: data + b'"\xff"\n',
    "a long line": lambda data: data + b"a" * 2**20,
}
OTHER = b'{"a": 1}\n{"kind": "validation"}\n{"kind": [], "update": []}\n{"kind": "validation", "update": []}\n'


@pytest.fixture(scope="module")
def run_of_three_checkpoints(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    """A run with three checkpoints."""
    from tests.support.trainings import write_corpus

    folder = write_corpus(tmp_path_factory.mktemp("averaged"))
    return train_run(folder, "run", max_duration=["6 updates"], validation={"every": "2 updates", "metric": "loss"})


@pytest.mark.parametrize("name", [*TORN, *INVALID, "other objects", "missing"])
def test_averages_after_a_torn_log(run_of_three_checkpoints: RunDirectory, name: str) -> None:
    path = run_of_three_checkpoints.folder / METRICS_FILE
    data = path.read_bytes()
    try:
        if name in TORN:
            path.write_bytes(TORN[name](data))
        elif name == "missing":
            path.unlink()
        elif name == "other objects":
            path.write_bytes(data + OTHER)
        if name in INVALID:
            path.write_bytes(INVALID[name](data))
            with pytest.raises(RunError, match=rf"{METRICS_FILE}:\d+: .*; remove the file"):
                average(run_of_three_checkpoints.folder, last=2, best=None)
        else:
            averaged = average(run_of_three_checkpoints.folder, last=2)
            assert "is now the mean of checkpoints 00000004, 00000006" in str(averaged)
    finally:
        path.write_bytes(data)


MERGES = "a0: &a0 {x: y}\n" + "".join(f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}]}}\n" for n in range(1, 40))


@pytest.mark.parametrize("name", ["decoder.yml", "model.npz"])
def test_an_import_of_doubled_merge_keys_ends(tmp_path: Path, name: str) -> None:
    """2^39 pairs, in a file of a thousand bytes."""
    with pytest.raises(ConfigError, match=f"{name}: cannot be read .*too large for a config"):
        parse_yaml(MERGES.encode(), tmp_path / name)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("- a", "expected `key: value` lines"),
        ("", "the file is empty"),
        ("a: [", "this is not YAML"),
        ("a: &a [*a]", "contains itself"),
        ("a: 1\na: 2", "appears twice"),
        ("a: !!python/name:os.system x", "unknown tag"),
        ("# " + "x" * 2**18, "more than 262,144 bytes"),
    ],
)
def test_yaml_of_other_programs_is_read_as_a_config(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as error:
        parse_yaml(content.encode(), tmp_path / "it.yml")
    assert "\n" not in str(error.value)


def test_ids_in_yaml() -> None:
    text = '</s>: 0\n"<unk>": 1\nno: 2\n"\\"": 3\n0x10: 4\nnull: 5\n'
    assert read_ids(text.encode(), Path("v.yml"), "") == {"</s>": 0, "<unk>": 1, "no": 2, '"': 3, "0x10": 4, "null": 5}
    for other in (
        "a: b",
        "- a",
        "a: {b: 1}",
        "a: &a 1\nb: *a",
        "a: 1\n---\nb: 2",
        "[a, 1]",
        "a",
        "",
        "a: [",
        "? [a]\n: 1",
    ):
        with pytest.raises(RunError, match="is not a vocabulary of Marian"):
            read_ids(other.encode(), Path("v.yml"), "")
