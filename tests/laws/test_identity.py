"""Who writes into a run directory: the process whose lock it has, and of several processes the first one."""

import shutil
import signal

import pytest
import torch
import torch.distributed as dist
import yaml

from seq2attn.errors import RunError, UserError
from seq2attn.experiment.experiment_config import ExperimentConfig
from seq2attn.experiment.run_directory import RunDirectory
from seq2attn.io.files import atomic_dir, atomic_path, remove_dir, write_bytes
from seq2attn.io.lock import lock_directory
from seq2attn.training.config_changes import check_processes
from seq2attn.training.distributed import DistributedContext
from seq2attn.training.metrics_logger import MetricsLogger
from tests.support.processes import Command, start_two
from tests.support.trainings import content, train_run, write_corpus

REPLACED = "was removed or replaced while this process used it"


def files(folder):
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def replace(folder):
    """Another folder, with the same files, in the place of one."""
    folder.rename(folder.with_name("before"))
    shutil.copytree(folder.with_name("before"), folder)


def write_slowly(context, path):
    """A write during which the folder is replaced."""
    with context(path) as partial:
        replace(path.parents[1])
        path.parent.mkdir(exist_ok=True)
        if context is atomic_path:
            partial.parent.mkdir(exist_ok=True)
            partial.write_bytes(b"old")


WRITERS = {
    "a file": lambda folder, log: write_bytes(folder / "a" / "file", b"old"),
    "a new folder": lambda folder, log: write_bytes(folder / "new" / "file", b"old"),
    "a path": lambda folder, log: atomic_path(folder / "a" / "file").__enter__(),
    "a folder": lambda folder, log: atomic_dir(folder / "a").__enter__(),
    "a removal": lambda folder, log: remove_dir(folder / "a"),
    "metrics": lambda folder, log: log.log_metrics("train", 1, {}),
    "samples": lambda folder, log: log.log_samples(1, "old"),
    "sizes of logs": lambda folder, log: log.log_sizes(),
}


def logger(folder):
    found = MetricsLogger(RunDirectory(folder), is_main_process=True, since=None, tensorboard=False)
    found.close()
    return found


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("is_there", [True, False])
def test_nothing_is_written_in_the_place_of_a_locked_folder(tmp_path, writer, is_there):
    folder, other = tmp_path / "run", tmp_path / "other"
    for one in (folder, other):
        write_bytes(one / "a" / "file", b"new")
    loggers = {one: logger(one) for one in (folder, other)}
    with lock_directory(folder), lock_directory(other):
        replace(folder)
        if not is_there:
            shutil.rmtree(folder)
        before = files(tmp_path)
        with pytest.raises(RunError, match=f"{folder}: {REPLACED}"):
            WRITERS[writer](folder, loggers[folder])
        assert files(tmp_path) == before and folder.exists() == is_there
        WRITERS[writer](other, loggers[other])
    write_bytes(folder / "a" / "file", b"later")


def test_a_lock_that_is_refused_changes_nothing(tmp_path):
    with lock_directory(tmp_path / "run"):
        with pytest.raises(RunError, match="is in use by process"), lock_directory(tmp_path / "run"):
            pass
        replace(tmp_path / "run")
        with pytest.raises(RunError, match=REPLACED):
            write_bytes(tmp_path / "run" / "file", b"new")


@pytest.mark.parametrize("context", [atomic_path, atomic_dir])
def test_nothing_is_replaced_by_a_write_that_began_before(tmp_path, context):
    path = tmp_path / "run" / "a" / "file"
    write_bytes(path, b"new") if context is atomic_path else write_bytes(path / "part", b"new")
    with lock_directory(tmp_path / "run"), pytest.raises(RunError, match=REPLACED):
        write_slowly(context, path)
    assert {content for name, content in files(tmp_path / "run" / "a").items()} == {b"new"}


@pytest.mark.parametrize(
    "every",
    [pytest.param({"report_every": 1}, marks=pytest.mark.slow), {"report_every": 10**6}],
    ids=["report", "checkpoint"],
)
@pytest.mark.slow
def test_a_training_ends_when_another_takes_its_place(corpus, every):
    options = {**every, "max_duration": ["100000 updates"], "validation": {"every": "5 updates", "metric": "loss"}}
    config = corpus / "run.yaml"
    config.write_text(yaml.safe_dump(content(corpus, "run", **options)))
    first = Command("train", config, log=corpus / "log.txt")
    run = corpus / "run"
    assert first.until(lambda: len([*(run / "checkpoints").glob("[0-9]*[0-9]")]) > 1)
    first.send(signal.SIGSTOP)
    shutil.rmtree(run)
    second = train_run(corpus, "run", seed=2, max_duration=["6 updates"])
    before = files(second.folder)
    first.send(signal.SIGCONT)
    code, output = first.finish()
    assert code == 2 and f"error: {run}: {REPLACED}" in output and "Traceback" not in output
    assert files(second.folder) == before


def test_processes_of_another_config_or_text_are_refused(corpus, tmp_path):
    config = content(corpus, "run", max_duration=["4 updates"])
    config["data"] = {
        name: {"kind": "plain", "source": f"{name}.src", "target": f"{name}.tgt"} for name in ("train", "dev")
    }
    (corpus / "run.yaml").write_text(yaml.safe_dump(config))
    (tmp_path / "elsewhere").mkdir()
    for path in corpus.glob("*.*"):
        shutil.copy(path, tmp_path / "elsewhere")
    with (tmp_path / "elsewhere" / "train.src").open("a") as text:
        text.write("ba\n")
    other = "--set", "training.optimizer.lr=0.5", "--set", f"run_dir={tmp_path / 'elsewhere' / 'run'}"
    folders = corpus, tmp_path / "elsewhere"
    processes = start_two("train", "run.yaml", folder=tmp_path, others=other, folders=folders)
    for code, output in (process.finish() for process in processes):
        assert code == 2 and "Traceback" not in output
        assert "`training.optimizer.lr` is 0.01 in process 0, and 0.5 in process 1" in output
        assert output.count("SHA-256 of file 1 of `data.train` is ") == output.count("SHA-256") == 1
        assert output.count(" in process 0, and ") == 2
    assert [path.name for path in (corpus / "run").iterdir()] == ["run.lock"]
    assert not (tmp_path / "elsewhere" / "run").exists()


@pytest.mark.slow
def test_a_process_of_another_run_directory_is_refused(corpus):
    options = {"max_duration": ["4 updates"]}
    run = train_run(write_corpus(corpus, train=20), "elsewhere", **options)
    before = files(run.folder)
    write_corpus(corpus)
    (corpus / "run.yaml").write_text(yaml.safe_dump(content(corpus, "run", **options)))
    processes = start_two("train", corpus / "run.yaml", folder=corpus, others=["--set", f"run_dir={run.folder}"])
    for code, output in (process.finish() for process in processes):
        assert code == 2 and "SHA-256 of data/prepared.json in `run_dir` is " in output
    assert files(run.folder) == before


def test_all_that_processes_must_share_is_named(corpus, monkeypatch):
    config = ExperimentConfig.model_validate(content(corpus, "run"))
    shared, others = {}, []

    def gather(values, value, group):
        shared.update(value)
        values[:] = [value, *(others or [value])]

    monkeypatch.setattr(dist, "all_gather_object", gather)
    world = DistributedContext(0, 2, torch.device("cpu"))
    check_processes(config, world)
    assert "`run_dir`" not in shared
    texts = {f"SHA-256 of file {number} of `data.{name}`" for name in ("train", "dev") for number in (1, 2)}
    versions, keys = {"version of torch", "version of seq2attn"}, {"`training.seed`", "`model.decoder.dim`"}
    assert texts | versions | keys <= shared.keys()
    for key in shared:
        others[:] = [{**shared, key: "x"}]
        with pytest.raises(UserError, match="give all processes the same") as error:
            check_processes(config, world)
        assert str(error.value).split("\n")[1:] == [f"  {key} is {shared[key]} in process 0, and x in process 1"]
