"""What may be exported, what the comparison of both sides finds, and when an export may be used."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest
import torch

from seq2attn.config.load import load
from seq2attn.engines.agreement import SearchAgreement, compare_engines
from seq2attn.engines.ctranslate2 import CTranslate2Target
from seq2attn.engines.export_run import export_run
from seq2attn.engines.native import NativeEngine
from seq2attn.engines.targets import TARGETS, get_target, load_exported_engine
from seq2attn.errors import ConfigError, DataError, RunError, UserError
from seq2attn.experiment import ExperimentConfig
from seq2attn.io.weights import unique_state_dict
from seq2attn.models import build_model
from seq2attn.run_directory import RunDirectory
from seq2attn.search.config import BeamConfig, GreedyConfig, LengthsConfig
from seq2attn.search.translate_ids import Hypothesis
from seq2attn.tokenizers.vocabulary import BOS, EOS, PAD
from seq2attn.tokenizers.words import WordTokenizerConfig

WORDS = ["a", "few", "words", "of", "which", "there", "are", "not", "many"]
CONFIG = """\
run_dir: run
data:
  train: {kind: plain, source: lines.txt, target: lines.txt}
  dev: {kind: plain, source: lines.txt, target: lines.txt}
tokenizer: {source: {kind: words}, target: {kind: words}}
model:
  embeddings: {dim: 16}
  encoder: {kind: transformer, layers: 1, heads: 2, ffn_dim: 32}
  decoder:
    kind: transformer
    layers: 1
    heads: 2
    ffn_dim: 32
    attention: {score: {kind: multi-head, heads: 2}}
search: {kind: beam, beam_size: 3, lengths: {max_length: 9}}
"""
CPU = torch.device("cpu")


def weights(run: RunDirectory, seed: int) -> None:
    """Give a run other first weights, by which one word is always likelier than the others, and no sentence ends
    before it must.

    A beam over weights that know nothing finds ends by chance, and CTranslate2 does not score those that must come.
    """
    _, target = run.load_tokenizers()
    torch.manual_seed(seed)
    model = build_model(run.load_config().model, len(target.vocabulary), len(target.vocabulary))
    with torch.no_grad():
        model.output_projection.weight.mul_(0.5)
        model.output_projection.bias.copy_(4.0 * torch.randperm(len(target.vocabulary)))
        model.output_projection.bias[[PAD, BOS, EOS]] -= 1000
    run.save_model(unique_state_dict(model), (target.vocabulary, target.vocabulary), {"seed": seed})


def made(folder: Path, config: str = CONFIG) -> RunDirectory:
    """A run that was not trained: a config, tokenisers, weights."""
    lines = [" ".join(WORDS[first:last]) for first in range(8) for last in range(first + 1, 10)]
    (folder / "lines.txt").write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    (folder / "made.yaml").write_text(config, encoding="utf-8")
    run = RunDirectory(folder / "run")
    run.save_config(load(folder / "made.yaml", ExperimentConfig))
    words = WordTokenizerConfig().train(WORDS)
    for side in ("source", "target"):
        words.save(run.folder / side)
    weights(run, 1)
    return run


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return made(tmp_path)


class Spoilt(CTranslate2Target):
    """A conversion with a mistake: it leaves the output's bias out."""

    def export(self, run: RunDirectory, folder: Path, dtype: str) -> None:
        """Write weights that differ from the run's in one vector."""
        other = RunDirectory(folder.parent / "other")
        shutil.copytree(run.folder, other.folder, dirs_exist_ok=True)
        model, source, target = other.load_model()
        with torch.no_grad():
            model.output_projection.bias.zero_()
        other.save_model(unique_state_dict(model), (source.vocabulary, target.vocabulary), {})
        super().export(other, folder, dtype)


def test_an_export_translates_and_says_of_which_weights_it_is(run: RunDirectory, tmp_path: Path) -> None:
    where = tmp_path / "exported"
    found = export_run(run, CTranslate2Target(), where)
    header = json.loads((where / "manifest.json").read_text(encoding="utf-8"))
    assert (header["engine"], header["dtype"], len(header["weights"])) == ("ctranslate2", "float32", 64)
    assert header["agreement"]["searches"][0]["token_agreement"] == found.searches[0].token_agreement == 1.0
    engine = load_exported_engine(run, "ctranslate2", where, CPU)
    model, source, _ = run.load_model()
    sources = [source.encode("a few words"), [], source.encode("many")]
    search = GreedyConfig(kind="greedy", lengths=LengthsConfig(max_length=9))
    ours = NativeEngine(model).translate(sources, search, budget=100)
    assert [one[0].tokens for one in engine.translate(sources, search, budget=100)] == [one[0].tokens for one in ours]


def test_a_mistake_in_the_conversion_leaves_nothing_behind(run: RunDirectory, tmp_path: Path) -> None:
    where = tmp_path / "exported"
    with pytest.raises(UserError, match=r"(?s)does not translate as the run does.*greedy") as failed:
        export_run(run, Spoilt(), where)
    assert "expected 99%" in str(failed.value)
    assert [path.name for path in tmp_path.iterdir() if "exported" in path.name] == []
    export_run(run, Spoilt(), where, quantization="int8")  # which need not be exact, and says how exact it is
    assert load_exported_engine(run, "ctranslate2", where, CPU)


def test_an_export_of_other_weights_is_not_used(run: RunDirectory) -> None:
    where = run.folder / "ctranslate2"
    with pytest.raises(RunError, match=r"no exported model; make it: seq2attn export .*run --to ctranslate2"):
        load_exported_engine(run, "ctranslate2", None, CPU)
    export_run(run, CTranslate2Target(), where)
    load_exported_engine(run, "ctranslate2", None, CPU)
    weights(run, 2)
    with pytest.raises(RunError, match=r"was made of other weights than .* make it again: seq2attn export"):
        load_exported_engine(run, "ctranslate2", None, CPU)
    export_run(run, CTranslate2Target(), where)  # in the place of the other
    load_exported_engine(run, "ctranslate2", None, CPU)
    header = json.loads((where / "manifest.json").read_text(encoding="utf-8"))
    (where / "manifest.json").write_text(json.dumps(header | {"engine": "other"}), encoding="utf-8")
    with pytest.raises(RunError, match="was exported for the engine other"):
        load_exported_engine(run, "ctranslate2", where, CPU)


def test_nothing_else_is_overwritten(run: RunDirectory, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").touch()
    with pytest.raises(UserError, match="is no exported model"):
        export_run(run, CTranslate2Target(), tmp_path / "mine")
    assert (tmp_path / "mine" / "thesis.tex").exists()
    with pytest.raises(UserError, match="is no exported model"):
        export_run(run, CTranslate2Target(), tmp_path / "lines.txt")


def test_the_lines_to_try(run: RunDirectory, tmp_path: Path) -> None:
    (tmp_path / "lines.de").write_text("a few\n\nmany words\n", encoding="utf-8")
    found = export_run(run, CTranslate2Target(), tmp_path / "exported", verify_with=tmp_path / "lines.de")
    assert [one.sentences for one in found.searches] == [3, 3]
    (tmp_path / "lines.de").write_text("\n \n", encoding="utf-8")
    with pytest.raises(DataError, match=r"lines\.de: has no line to try"):
        export_run(run, CTranslate2Target(), tmp_path / "exported", verify_with=tmp_path / "lines.de")


REFUSED = {
    "model.encoder.kind": ("{kind: transformer, layers: 1, heads: 2, ffn_dim: 32}", "{kind: gru, dim: 16}"),
    "model.decoder.attention.score.kind": ("{kind: multi-head, heads: 2}", "{kind: dot, scaled: true}"),
    "model.decoder.attention.score.heads": ("{kind: multi-head, heads: 2}", "{kind: multi-head, heads: 4}"),
    "model.decoder.attention.align.kind": ("heads: 2}}", "heads: 2}, align: {kind: sparsemax}}"),
    "model.decoder.norm_type": ("kind: transformer\n", "kind: transformer\n    norm_type: rmsnorm\n"),
}  # fmt: skip


@pytest.mark.parametrize("key", REFUSED)
def test_what_cannot_be_exported_says_why_and_where(tmp_path: Path, key: str) -> None:
    before, after = REFUSED[key]
    run = made(tmp_path, CONFIG.replace(before, after))
    with pytest.raises(ConfigError, match=rf"config\.yaml:\d+:\d+: `{key}`: ctranslate2 has no "):
        export_run(run, CTranslate2Target(), tmp_path / "exported")
    assert not (tmp_path / "exported").exists()


def test_a_decoder_without_attention_is_one_mistake(tmp_path: Path) -> None:
    config = CONFIG[: CONFIG.index("  decoder:")] + "  decoder: {kind: luong, dim: 16}\n"
    run = made(tmp_path, config)
    with pytest.raises(ConfigError, match="has no decoder `luong`, only `transformer`"):
        export_run(run, CTranslate2Target(), tmp_path / "exported")


def test_other_wishes_that_cannot_be(run: RunDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="--quantization int4: ctranslate2 has float32, float16, int8"):
        export_run(run, CTranslate2Target(), tmp_path / "exported", quantization="int4")
    with pytest.raises(UserError, match=r"there is no engine `onnx`; known: native, .*ctranslate2"):
        get_target("onnx")
    monkeypatch.setitem(sys.modules, "ctranslate2", None)  # as if it was not installed
    with pytest.raises(UserError, match=r"pip install 'seq2attn\[ctranslate2\]'"):
        export_run(run, CTranslate2Target(), tmp_path / "exported")


def test_targets_are_called_by_their_names() -> None:
    assert {name: target.name for name, target in TARGETS.items()} == {name: name for name in TARGETS}


def test_agreement_counts_positions_and_sentences() -> None:
    def said(*words: int, score: float = -1.0) -> list[Hypothesis]:
        return [Hypothesis(words, score, score * (len(words) + 1))]

    same = SearchAgreement.from_hypotheses("it", [said(4, 5)], [said(4, 5, score=-1.5)])
    assert (
        same.token_agreement,
        same.sentence_agreement,
        same.max_score_difference,
        same.mean_score_difference,
    ) == (1, 1, 0.5, 0.5)
    # 4 5 6 end, 4 7 end: one of four positions; and an empty one: one of one
    other = SearchAgreement.from_hypotheses("it", [said(4, 5, 6), said()], [said(4, 7), said()])
    assert (other.token_agreement, other.sentence_agreement, other.max_score_difference) == (2 / 5, 1 / 2, 0)


def test_the_comparison_decodes_what_was_found(run: RunDirectory) -> None:
    model, source, _ = run.load_model()
    sources = [source.encode(line) for line in ("a few words", "", "many")]
    searches = [("greedy", GreedyConfig(kind="greedy")), ("beam", BeamConfig(kind="beam", beam_size=2))]
    found = compare_engines(NativeEngine(model), NativeEngine(model), sources, searches)
    assert found.min_token_agreement == 1.0 and found.forced is not None and found.forced.largest == 0.0
    assert [line.split()[0] for line in str(found).split("\n")] == ["search", "greedy", "beam", "forced"]
