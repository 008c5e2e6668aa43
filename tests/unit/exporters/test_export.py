"""Export: supported models, comparison with the native engine, and checks before an export is used."""

import json
import re
import shlex
import shutil
import sys
from pathlib import Path

import pytest
import torch

from seq2attn.errors import ConfigError, DataError, RunError, UserError
from seq2attn.experiment.run_directory import RunDirectory
from seq2attn.exporters.ctranslate2_target import CTranslate2Target
from seq2attn.exporters.export_run import export_run
from seq2attn.inference.engines.agreement import SearchAgreement
from seq2attn.inference.engines.exported import check_manifest, load_exported_engine
from seq2attn.inference.load import load_experiment
from seq2attn.models import Seq2Seq
from seq2attn.options import TranslationOptions
from seq2attn.options.runs import ExportOptions
from seq2attn.search.translate_ids import Hypothesis
from seq2attn.tokenizers.vocabulary import BOS, EOS, PAD
from tests.support.untrained_runs import TRANSFORMER, TRANSFORMER_CONFIG, change_weights, untrained_run

TARGET = CTranslate2Target()
CPU = torch.device("cpu")


def save_weights(run: RunDirectory, seed: int) -> None:
    """Weights for which one token is always the most likely, and no sentence ends before its limit.

    A beam over random weights ends by chance, and CTranslate2 does not score the EOS of truncated hypotheses.
    """

    def change(model: Seq2Seq) -> None:
        torch.manual_seed(seed)
        bias = model.output_projection.bias
        model.output_projection.weight.mul_(0.5)
        bias.copy_(4.0 * torch.randperm(len(bias)))
        bias[[PAD, BOS, EOS]] -= 1000

    change_weights(run, change, {"seed": seed})


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    run = untrained_run(tmp_path, TRANSFORMER_CONFIG)
    save_weights(run, 1)
    return run


class WrongTarget(CTranslate2Target):
    """A conversion with a defect: the bias of the output layer is left out."""

    def export(self, run: RunDirectory, folder: Path, dtype: str) -> None:
        other = RunDirectory(folder.parent / "other")
        shutil.copytree(run.folder, other.folder, dirs_exist_ok=True)
        change_weights(other, lambda model: model.output_projection.bias.zero_())
        super().export(other, folder, dtype)


def test_a_wrong_conversion_is_deleted(run: RunDirectory, tmp_path: Path) -> None:
    where = tmp_path / "exported"
    with pytest.raises(UserError, match=r"(?s)does not translate as the run does.*expected 99%.*greedy"):
        export_run(run, WrongTarget(), where)
    assert [path.name for path in tmp_path.iterdir() if "exported" in path.name] == []
    export_run(run, WrongTarget(), where, ExportOptions(quantization="int8"))  # only reports the agreement
    assert load_exported_engine(run, "ctranslate2", where, CPU)


def test_an_export_that_does_not_match_the_run_is_refused(run: RunDirectory) -> None:
    where = run.folder / "ctranslate2"

    def refused(message: str) -> None:
        with pytest.raises(RunError, match=message):
            load_exported_engine(run, "ctranslate2", None, CPU)

    refused(r"no exported model; make it: seq2attn export .*run --to ctranslate2")
    export_run(run, TARGET, where)
    for name in ("model.bin", "config.json", "*_vocabulary.json"):
        file = next(where.glob(name))
        content = file.read_bytes()
        middle = len(content) // 2
        file.write_bytes(content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :])
        refused("does not hold what was exported to it")
        file.unlink()
        refused("does not hold what was exported to it")
        file.write_bytes(content)
    load_exported_engine(run, "ctranslate2", None, CPU)
    save_weights(run, 2)
    refused(r"was made from other weights than .* make it again: seq2attn export")
    (run.folder / "long").write_text("many " * 3000, encoding="utf-8")  # more than the engine takes
    export_run(run, TARGET, where, ExportOptions(verify_with=run.folder / "long"))  # replaces the other
    load_exported_engine(run, "ctranslate2", None, CPU)
    header = json.loads((where / "manifest.json").read_text(encoding="utf-8"))
    (where / "manifest.json").write_text(json.dumps(header | {"engine": "other"}), encoding="utf-8")
    refused("was exported for the engine other")


@pytest.mark.parametrize(
    ("search", "lacking"),
    [
        ("beam, beam_size: 3, lengths: {max_length: 9}", []),
        ("beam, beam_size: 3, lengths: {max_length: 9, min_length: 1}", ["lengths.min_length"]),
        ("beam, beam_size: 3, lengths: {max_length: 9, min_length_ratio: 0.5}", ["lengths.min_length_ratio"]),
        ("beam, beam_size: 3, lengths: {max_length: 4000}", ["lengths.max_length"]),
        ("greedy, no_repeat_ngram_size: 2, lengths: {max_length: 9}", ["no_repeat_ngram_size"]),
        ("sample, lengths: {max_length: 9, min_length: 1}", ["kind", "lengths.min_length"]),
    ],
)
def test_options_that_an_engine_lacks_have_their_default_in_verification_and_command(
    tmp_path: Path, search: str, lacking: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    run = untrained_run(tmp_path, TRANSFORMER_CONFIG.replace("beam, beam_size: 3, lengths: {max_length: 9}", search))
    save_weights(run, 1)
    where = tmp_path / "exported"
    assert [one.token_agreement for one in export_run(run, TARGET, where).searches] == [1, 1]
    warning = capsys.readouterr().err
    assert re.findall("`search.([a-z_.]+)`: ", warning) == lacking
    assert warning.endswith("; verified with the default values of these options\n") == bool(lacking)
    command = re.search("^seq2attn translate .*", (where / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert command is not None
    words = shlex.split(command[0])
    overrides = [words[number + 1] for number, word in enumerate(words) if word == "--set"]
    options = TranslationOptions(overrides=overrides, greedy="--greedy" in words)
    asked = load_experiment(run, options).search
    TARGET.load(run, where).translate([], asked, budget=1)


def test_other_files_are_not_overwritten(run: RunDirectory, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").touch()
    (tmp_path / "extension").mkdir()
    (tmp_path / "extension" / "manifest.json").write_text('{"manifest_version": 3}')
    for path in (tmp_path / "mine", tmp_path / "lines.txt", tmp_path / "extension"):
        with pytest.raises(UserError, match="is no exported model"):
            export_run(run, TARGET, path)
    assert (tmp_path / "mine" / "thesis.tex").exists() and (tmp_path / "extension" / "manifest.json").exists()
    export_run(run, TARGET, tmp_path / "exported")
    (tmp_path / "exported" / "README.md").write_text("Our card")
    (tmp_path / "exported" / ".git").mkdir()
    (tmp_path / "exported" / ".git" / "HEAD").touch()
    with pytest.raises(UserError, match=r"has \.git/HEAD, which was not exported; give another folder"):
        export_run(run, TARGET, tmp_path / "exported")
    with pytest.raises(RunError, match=r"has \.git/HEAD, which was not exported; move it away"):
        check_manifest(run, TARGET.name, tmp_path / "exported")
    shutil.rmtree(tmp_path / "exported" / ".git")
    check_manifest(run, TARGET.name, tmp_path / "exported")
    (tmp_path / "exported" / "config.json").unlink()
    export_run(run, TARGET, tmp_path / "exported")


REFUSED = {
    "model.encoder.kind": ("{kind: transformer, layers: 1, heads: 2, ffn_dim: 8}", "{kind: gru, dim: 16}"),
    "model.decoder.kind": (TRANSFORMER[TRANSFORMER.index("  decoder:") :], "  decoder: {kind: ssru, ffn_dim: 8}\n"),
    "model.decoder.attention.score.kind": ("{kind: multi-head, heads: 2}", "{kind: dot, scaled: true}"),
    "model.decoder.attention.score.heads": ("{kind: multi-head, heads: 2}", "{kind: multi-head, heads: 4}"),
    "model.decoder.attention.align.kind": ("heads: 2}}", "heads: 2}, align: {kind: sparsemax}}"),
    "model.decoder.norm_type": ("ffn_dim: 8, att", "ffn_dim: 8, norm_type: rmsnorm, att"),
}  # fmt: skip


@pytest.mark.parametrize("key", REFUSED)
def test_unsupported_models_are_refused_with_their_key(tmp_path: Path, key: str) -> None:
    run = untrained_run(tmp_path, TRANSFORMER_CONFIG.replace(*REFUSED[key]))
    with pytest.raises(ConfigError, match=rf"config\.yaml:\d+:\d+: `{key}`: ctranslate2 has no "):
        export_run(run, TARGET, tmp_path / "exported")
    assert not (tmp_path / "exported").exists()


@pytest.mark.parametrize("side", ["encoder", "decoder"])
def test_sides_with_a_table_of_positions_have_a_maximum_length(tmp_path: Path, side: str) -> None:
    rotary = f"  {side}: {{kind: transformer, position_encoding: rotary,"
    run = untrained_run(tmp_path, TRANSFORMER_CONFIG.replace(f"  {side}: {{kind: transformer,", rotary))
    engine = TARGET.load(run, tmp_path)
    limits = (engine.max_source_length, engine.max_target_length)
    assert limits == ((None, 2047) if side == "encoder" else (2047, None))


def test_missing_text_and_a_missing_package_are_named(
    run: RunDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = tmp_path / "exported"
    (tmp_path / "lines.txt").unlink()
    with pytest.raises(DataError, match=r"lines\.txt: there is no such file; give ``verify_with=FILE``"):
        export_run(run, TARGET, where)
    monkeypatch.setitem(sys.modules, "ctranslate2", None)  # as if it were not installed
    with pytest.raises(UserError, match=r"pip install 'seq2attn\[ctranslate2\]'"):
        export_run(run, TARGET, where)


def test_agreement_counts_positions_and_sentences() -> None:
    def best(*tokens: int, score: float = -1.0) -> list[Hypothesis]:
        return [Hypothesis(tokens, score, score * (len(tokens) + 1))]

    same = SearchAgreement.from_hypotheses("it", [best(4, 5)], [best(4, 5, score=-1.5)])
    assert (same.token_agreement, same.sentence_agreement) == (1, 1)
    assert (same.max_score_difference, same.mean_score_difference) == (0.5, 0.5)
    # 4 5 6 EOS and 4 7 EOS: one of four positions; two empty ones: one of one
    other = SearchAgreement.from_hypotheses("it", [best(4, 5, 6), best()], [best(4, 7), best()])
    assert (other.token_agreement, other.sentence_agreement, other.max_score_difference) == (2 / 5, 1 / 2, 0)
