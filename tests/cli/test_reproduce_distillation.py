"""`seq2attn reproduce` with a teacher whose translations other trials train on."""

import json
import re
import shutil
from pathlib import Path

import pytest

from seq2attn.data.fingerprint import file_digest
from seq2attn.data.prepared_data import load_prepared
from seq2attn.experiment.run_directory import RunDirectory
from seq2attn.sweep.recipe import load_recipe
from seq2attn.sweep.record import RunRecord, TrainingSummary, write_record, write_trial
from tests.support.commands import Done, Invoke, invoke_in
from tests.support.recipes import RECIPE, home
from tests.support.sweeps import results

DISTILLED = RECIPE.replace(
    "seeds: [1, 2]",
    """\
  text:
    at: data.train
    choices:
      distilled:
        - {kind: plain, source: ../../text/train.de, target: ../../text/train.en}
        - {kind: plain, source: ../../runs/sweep/distilled/source.txt, target: ../../runs/sweep/distilled/target.txt}
trials: [{model: luong}, {model: luong, text: distilled}]
teacher: {model: luong}
seeds: [1, 2]""",
).replace("figures: [bleu-by-length, alignments]", "figures: []")


@pytest.fixture(scope="module")
def reproduction(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Done]:
    folder = home(tmp_path_factory.mktemp("distilled"), DISTILLED)
    return folder, invoke_in(folder, "reproduce", "toy", "--jobs", "2")


@pytest.mark.slow
def test_the_models_of_all_seeds_translate_the_training_text_together(
    reproduction: tuple[Path, Done], invoke: Invoke, tmp_path: Path
) -> None:
    folder, teachers = reproduction[0] / "runs/sweep/distilled", reproduction[0] / "runs/sweep/trials/luong"
    models = [file_digest(RunDirectory(teachers / f"seed-{seed}").weights_path) for seed in (1, 2)]
    assert json.loads((folder / "settings.json").read_text("utf-8"))["model"] == models
    runs, text = (teachers / "seed-1", "--ensemble", teachers / "seed-2"), reproduction[0] / "text/train.de"
    invoke("distill", *runs, "--source", text, "-o", tmp_path / "again")
    for name in ("settings.json", "report.json", "source.txt", "target.txt"):
        assert (folder / name).read_bytes() == (tmp_path / "again" / name).read_bytes()


@pytest.mark.slow
def test_students_are_trained_on_the_text_and_the_translations(reproduction: tuple[Path, Done]) -> None:
    folder, done = reproduction
    assert set(results(folder)) == {f"{trial}/seed-{n}" for trial in ("luong", "luong+distilled") for n in (1, 2)}
    trained = load_prepared(folder / "runs/sweep/trials/luong+distilled/seed-1")
    corpus = trained.train.corpus
    pairs = [
        (trained.source.decode([*source]), trained.target.decode([*target]))
        for source, target in (corpus[number] for number in range(len(corpus)))
    ]
    texts = "text/train.de", "text/train.en", "runs/sweep/distilled/source.txt", "runs/sweep/distilled/target.txt"
    first, second, third, fourth = ((folder / name).read_text("utf-8").splitlines() for name in texts)
    assert pairs == [*zip(first, second, strict=True), *zip(third, fourth, strict=True)]
    assert f"translations of {folder / 'text/train.de'} by luong seed 1, luong seed 2\n" in done.err


@pytest.mark.slow
def test_another_ensemble_is_another_text(reproduction: tuple[Path, Done], invoke: Invoke, tmp_path: Path) -> None:
    shutil.copytree(reproduction[0], tmp_path, dirs_exist_ok=True)
    before = results(tmp_path)
    translations = tmp_path / "runs/sweep/distilled/translations/0.jsonl"
    made = translations.stat().st_mtime_ns
    invoke("reproduce", "toy")
    assert results(tmp_path) == before and translations.stat().st_mtime_ns == made
    assert invoke("reproduce", "toy", "--seeds", "3", code=2).err == (
        "error: runs/sweep/distilled: holds translations of other models; repeat them by --redo, or give another"
        " `folder`\n"
    )
    assert results(tmp_path) == before
    (tmp_path / "runs/sweep/trials/luong/seed-1/result.json").unlink()  # a teacher that is not finished
    done = invoke("reproduce", "toy", "--seeds", "1", "--redo")
    changed = {name for name, time in results(tmp_path).items() if before[name] != time}
    assert changed == {"luong/seed-1", "luong+distilled/seed-1"}
    assert "by luong seed 1\n" in done.err


def test_without_a_teacher_there_are_no_students(invoke: Invoke, tmp_path: Path, failing_trainings: None) -> None:
    home(tmp_path, DISTILLED)
    done = invoke("reproduce", "toy", code=1)
    assert "\nluong+distilled: not trained, as a training of the teacher failed\n" in done.err
    assert "Not finished: luong seed 1, luong+distilled seed 1, luong seed 2, luong+distilled seed 2." in done.out
    assert not (tmp_path / "runs/sweep/distilled").exists()


def test_results_of_students_of_another_teacher_do_not_count(
    invoke: Invoke, tmp_path: Path, failing_trainings: None
) -> None:
    home(tmp_path, DISTILLED)
    recipe = load_recipe("toy")
    for run in (run for run in recipe.plan.runs if run.trial in recipe.students):
        run.folder.mkdir(parents=True)
        write_trial(run, {})
        write_record(run.folder, RunRecord(TrainingSummary(1, 1.0, 1, 1.0, 1, 1, "here", "2", "today"), {}))
    done = invoke("reproduce", "toy", "--redo", code=1)
    assert "Not finished: luong seed 1, luong+distilled seed 1, luong seed 2, luong+distilled seed 2." in done.out
    failed = r"^2 trainings failed:\n  luong seed 1: exit code 2: error: no space .*\n  luong seed 2: "
    assert re.search(failed, done.err, re.MULTILINE)


@pytest.mark.slow
def test_the_failure_of_another_trial_leaves_the_students(
    reproduction: tuple[Path, Done], invoke: Invoke, tmp_path: Path, failing_trainings: None
) -> None:
    shutil.copytree(reproduction[0], tmp_path, dirs_exist_ok=True)
    translations = tmp_path / "runs/sweep/distilled/target.txt"
    before = translations.read_bytes()
    shutil.rmtree(translations.parent)
    trials = "trials=[{model: [luong, fixed]}, {model: luong, text: distilled}]"
    done = invoke("reproduce", "toy", "--seeds", "2", "--set", trials, code=1)
    assert translations.read_bytes() == before
    assert "Not finished: fixed seed 1, fixed seed 2." in done.out


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("teacher: {model: luong}", "teacher: {model: fixed}", "`teacher`: is none of the trials"),
        ("teacher: {model: luong}", "teacher: {model: lung}", "is none of the trials; did you mean `luong`?"),
        ("folder: runs/sweep", "folder: runs/other", "`teacher`: no trial has its translations, runs/other/distilled/"),
        ("teacher: {model: luong}", "teacher: {model: luong, text: distilled}", "has its own translations in"),
    ],
)
def test_a_teacher_without_students_is_refused(
    invoke: Invoke, tmp_path: Path, old: str, new: str, message: str
) -> None:
    assert old in DISTILLED
    home(tmp_path, DISTILLED.replace(old, new))
    assert message in invoke("reproduce", "toy", code=2).err
    assert not (tmp_path / "runs").exists()


def test_a_teacher_translates_one_text(invoke: Invoke, tmp_path: Path) -> None:
    home(tmp_path, DISTILLED)
    changes = "changes.data.train=[{kind: tsv, path: a.tsv}]"
    error = invoke("reproduce", "toy", "--set", changes, code=2).err
    assert "`teacher`: luong should have one `data.train` of kind `plain`, which it translates" in error
