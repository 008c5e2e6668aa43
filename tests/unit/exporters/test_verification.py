"""Each figure of a verification counts: a defect in one of them is refused, and other beams have a note."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from seq2attn.config.base import FieldError
from seq2attn.errors import UserError
from seq2attn.experiment.experiment_config import ExperimentConfig
from seq2attn.experiment.run_directory import LoadedRun, RunDirectory
from seq2attn.exporters.ctranslate2_target import CTranslate2Target
from seq2attn.exporters.export_run import TARGETS, export_run
from seq2attn.exporters.export_target import ExportTarget
from seq2attn.inference.engines.base import Engine
from seq2attn.models.seq2seq import IdPairs
from seq2attn.options.runs import ExportOptions, ImportOptions
from seq2attn.pretrained import import_run as import_module
from seq2attn.pretrained.import_run import import_model
from seq2attn.pretrained.transformers_engine import TransformersEngine
from seq2attn.search.search_config import SearchConfig
from seq2attn.search.translate_ids import Hypothesis, Phrases, TokenIds
from tests.support.exported_runs import make_run
from tests.support.marian import SOURCE
from tests.support.multilingual import make_m2m100

DEFECTS = {
    "greedy search": r"\d\d.\d\d% of the tokens agree in greedy search, expected 99%, .* to \d.\de-0[4-7]",
    "log-probabilities of a beam": "100.00% of the tokens agree in greedy search, .* to 2.0e-02, expected 0.01",
    "forced decoding": "100.00% of the tokens agree in greedy search, .* to 2.0e-02, expected 0.01",
}
"""Parts of an engine, and what is said if they alone are wrong."""
LESS = 0.02
"""Difference of log-probabilities, just above what is accepted."""


@dataclass(frozen=True)
class Defective(Engine):
    """An engine with one defect."""

    engine: Engine
    defect: str

    @property
    def name(self) -> str:  # type: ignore[override]
        return self.engine.name

    @property
    def description(self) -> str:
        return self.engine.description

    @property
    def max_source_length(self) -> int | None:
        return self.engine.max_source_length

    def unsupported(self, search: SearchConfig) -> list[FieldError]:
        return self.engine.unsupported(search)

    def translate(
        self, sources: TokenIds, search: SearchConfig, *, budget: int, prefixes: TokenIds = (), phrases: Phrases = ()
    ) -> list[list[Hypothesis]]:
        if self.defect == "prefixes":
            prefixes = ()
        output = self.engine.translate(sources, search, budget=budget, prefixes=prefixes, phrases=phrases)
        if self.defect == "log-probabilities of a beam" and search.kind == "beam":
            return [[replace(one, log_prob=one.log_prob - LESS) for one in each] for each in output]
        if self.defect == f"{search.kind} search":  # which ends early, with the right log-probabilities
            pairs = [(source, one.tokens[:-1]) for source, (one, *_) in zip(sources, output, strict=True)]
            totals = map(sum, self.engine.token_log_probs(pairs, budget=budget))
            return [[Hypothesis(ids, total, total)] for (_, ids), total in zip(pairs, totals, strict=True)]
        return output

    def token_log_probs(self, pairs: IdPairs, *, budget: int) -> list[list[float]]:
        output = self.engine.token_log_probs(pairs, budget=budget)
        return [[each[0] - LESS, *each[1:]] for each in output] if self.defect == "forced decoding" else output


class DefectiveTarget(ExportTarget):
    """A format whose engine has a defect; it copies what was exported before."""

    def __init__(self, target: ExportTarget, folder: Path, defect: str) -> None:
        self.target, self.folder, self.defect = target, folder, defect
        self.name, self.hub_library, self.dtypes = target.name, target.hub_library, target.dtypes

    def unsupported(self, experiment: ExperimentConfig) -> list[FieldError]:
        return self.target.unsupported(experiment)

    def export(self, run: RunDirectory, folder: Path, dtype: str) -> None:
        shutil.copytree(self.folder, folder, dirs_exist_ok=True)

    def load(self, run: RunDirectory, folder: Path) -> Engine:
        return Defective(self.target.load(run, folder), self.defect)

    def write_program(self, engine: Engine, run: LoadedRun, folder: Path, lines: Sequence[str]) -> str:
        return self.target.write_program(engine, run, folder, lines)


@pytest.mark.parametrize(
    "name", [pytest.param(one, marks=[pytest.mark.slow] * (one != "ctranslate2")) for one in TARGETS]
)
def test_each_figure_of_an_export_counts(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    run = make_run(Path(), changes=["search.no_repeat_ngram_size=null"])
    target, exported = TARGETS[name], Path("exported")
    export_run(run, target, exported, ExportOptions(verify_with=Path("train.de")))
    assert "Note" not in (exported / "README.md").read_text(encoding="utf-8") and not capsys.readouterr().err
    for defect, message in DEFECTS.items():
        with pytest.raises(UserError, match=f"^{defect}: {name} does not translate as the run does, .*{message}"):
            export_run(
                run,
                DefectiveTarget(target, exported, defect),
                Path(defect),
                ExportOptions(verify_with=Path("train.de")),
            )
        assert not Path(defect).exists()
    report = export_run(
        run, DefectiveTarget(target, exported, "beam search"), Path("kept"), ExportOptions(verify_with=Path("train.de"))
    )
    shares = [f"{one.token_agreement:.2%}" for one in report.searches]
    assert shares[0] == "100.00%" and report.searches[1].token_agreement < 0.9
    note = f"the searches differ, and agree in {shares[1]} of the tokens in beam 5; probabilities are the same"
    assert capsys.readouterr().err == f"warning: {name}: {note}\n"
    assert f"\n\nNote: {note}.\n" in Path("kept/README.md").read_text(encoding="utf-8")


def test_the_prefix_of_a_language_is_verified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By engines that leave it out, after an import and after an export."""
    make_m2m100(tmp_path / "hf", nllb=True)
    (tmp_path / "lines").write_text("\n".join(SOURCE[:2]), encoding="utf-8")
    options = ImportOptions(source_language="deu_Latn", target_language="eng_Latn")
    import_model(tmp_path / "hf", tmp_path / "run", options, verify_with=tmp_path / "lines")
    run, target = RunDirectory(tmp_path / "run"), CTranslate2Target()
    export_run(run, target, tmp_path / "exported", ExportOptions(verify_with=tmp_path / "lines"))
    without = DefectiveTarget(target, tmp_path / "exported", "prefixes")
    with pytest.raises(UserError, match="does not translate as the run does"):
        export_run(run, without, tmp_path / "refused", ExportOptions(verify_with=tmp_path / "lines"))

    def without_prefix(*arguments: Any) -> Defective:
        return Defective(TransformersEngine(*arguments), "prefixes")

    monkeypatch.setattr(import_module, "TransformersEngine", without_prefix)
    with pytest.raises(UserError, match="does not translate as the original"):
        import_model(tmp_path / "hf", tmp_path / "refused", options, verify_with=tmp_path / "lines")
    assert not (tmp_path / "refused").exists()
