"""Decoding methods of `seq2attn translate` and `evaluate`, as a user gives them."""

import json
from pathlib import Path

import pytest

from seq2attn.errors import UserError
from seq2attn.experiment.run_directory import RunDirectory
from seq2attn.inference.engines.ctranslate2_engine import unsupported_search
from seq2attn.inference.engines.onnx_engine import OnnxEngine
from seq2attn.io.weights import unique_state_dict
from seq2attn.models import build_model
from seq2attn.search.search_config import BeamConfig
from seq2attn.tokenizers.vocabulary import UNK
from seq2attn.tokenizers.words import CharacterTokenizerConfig
from tests.support.commands import Invoke
from tests.support.untrained_runs import TRANSFORMER_CONFIG, WORDS, change_weights, untrained_run

GIVEN = b"a few words\n\nnot many\n"


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return untrained_run(tmp_path, TRANSFORMER_CONFIG)


def test_minimum_bayes_risk(invoke: Invoke, run: RunDirectory) -> None:
    same = "--set", "search={kind: sample, num_samples: 9, mbr: true, lengths: {max_length: 9}}"
    command = "translate", run.folder, "--json", "--n-best", "9"
    outs = [invoke(*command, *options, given=GIVEN).out for options in (["--mbr", "9"], same)]
    assert outs[0] == outs[1]
    best, empty, _ = map(json.loads, outs[0].splitlines())
    scores = [one["score"] for one in (best, *best["alternatives"])]
    assert scores == sorted(scores, reverse=True) and 0 < scores[0] < 100
    assert empty["text"] == ""
    invoke("evaluate", run.folder, "--mbr", "9", "--ensemble", run.folder)
    report = json.loads((run.folder / "evaluation/ensemble/ours.json").read_text(encoding="utf-8"))
    assert (report["search"]["kind"], report["search"]["num_samples"], report["search"]["mbr"]) == ("sample", 9, True)


def test_options_of_a_beam(invoke: Invoke, run: RunDirectory) -> None:
    command = "translate", run.folder, "--set", "search.beam_size=6"
    groups = "--set", "search.num_beam_groups=3", "--set", "search.diversity_penalty=9"
    plain = invoke(*command, "--n-best", "6", given=GIVEN).out
    diverse = invoke(*command, *groups, "--n-best", "6", given=GIVEN).out
    assert plain != diverse and len(diverse.splitlines()) <= 13
    blocked = invoke(*command[:2], "--set", "search.no_repeat_ngram_size=1", "--greedy", given=GIVEN).out
    assert all(len({*line.split()}) == len(line.split()) for line in blocked.splitlines())
    covered = invoke(*command, "--set", "search.coverage_penalty=5", "--json", given=GIVEN).out
    assert json.loads(covered.splitlines()[0])["score"] < -1
    for options in (["--greedy"], ["--mbr", "3"], ["--beam", "3"]):  # the lengths are those of any search
        short = invoke(*command[:2], *options, "--set", "search.lengths.max_length=2", given=GIVEN).out
        assert max(len(line.split()) for line in short.splitlines()) == 2


@pytest.mark.parametrize("options", [("--set", "search.kind=sample"), ("--mbr", "2")])
def test_the_advice_for_more_samples_is_followed(invoke: Invoke, run: RunDirectory, options: tuple[str, ...]) -> None:
    command = "translate", run.folder, *options, "--n-best", "3"
    advice = invoke(*command, given=GIVEN, code=2).err.rpartition("give ")[2].split()
    assert advice[0] == options[0] and invoke(*command, *advice, given=GIVEN).out


def test_the_name_of_a_file_is_translated_with_a_warning(invoke: Invoke, run: RunDirectory, tmp_path: Path) -> None:
    (tmp_path / "input.de").write_bytes(GIVEN)
    done = invoke("translate", run.folder, "input.de", "input", "ab " * 99)
    assert done.out.count("\n") == 3 and done.err.count("the file name") == 1
    assert "warning: the file name `input.de` is translated, not the file: give -i input.de\n" in done.err


def test_a_dash_is_standard_input_or_output(invoke: Invoke, run: RunDirectory, tmp_path: Path) -> None:
    expected = invoke("translate", run.folder, given=GIVEN).out
    assert expected.count("\n") == GIVEN.count(b"\n")
    assert invoke("translate", run.folder, "-i", "-", "-o", "-", given=GIVEN).out == expected
    assert not (tmp_path / "-").exists()
    done = invoke("translate", run.folder, "-", given=GIVEN)
    assert done.out.count("\n") == 1 and "warning: `-` is translated, not standard input: leave it out\n" in done.err


def test_attention_is_drawn_beside_empty_lines(
    invoke: Invoke, run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = "translate", run.folder, "--attention"
    invoke(*command, "all.html", given=b"\n" + GIVEN)
    monkeypatch.setenv("COLUMNS", "30")
    done = invoke(*command, "-", "--n-best", "2", "-o", "out", given=b"few\n\xff a\nnot\n")  # the first line alone
    assert 0 < max(map(len, done.out.splitlines())) <= 30
    numbers = [line.split("\t")[0] for line in (run.folder.parent / "out").read_text(encoding="utf-8").splitlines()]
    assert numbers == ["1", "1", "2", "2", "3", "3"] and "warning: line 2: not UTF-8" in done.err


def test_the_doctor_finds_nothing(invoke: Invoke, tmp_path: Path) -> None:
    options = "beam_size: 4, num_beam_groups: 2, coverage_penalty: 0.3, no_repeat_ngram_size: 2"
    run = untrained_run(tmp_path, TRANSFORMER_CONFIG.replace("beam_size: 3", options))
    assert "FAIL" not in invoke("doctor", run.folder, "--input", tmp_path / "lines.txt").out


def test_searches_that_an_engine_does_not_have() -> None:
    search = BeamConfig(beam_size=4, num_beam_groups=2, no_repeat_ngram_size=3, coverage_penalty=0.2)
    mistakes = [mistake.field for mistake in unsupported_search(search)]
    assert mistakes == ["search.no_repeat_ngram_size", "search.coverage_penalty", "search.num_beam_groups"]
    with pytest.raises(UserError, match=r"`search.coverage_penalty`: the graphs give no attention weights"):
        OnnxEngine(None).translate([], search, budget=1)  # type: ignore[arg-type]  # before the graphs are used


def test_unknown_words(invoke: Invoke, run: RunDirectory, tmp_path: Path) -> None:
    change_weights(run, lambda model: model.output_projection.bias[UNK].fill_(9))
    command = "translate", run.folder, "Zoe", "--n-best", "2", "--ensemble", run.folder
    plain, replaced = (invoke(*command, *options).out.split() for options in ([], ["--replace-unk"]))
    assert "<unk>" in plain and replaced == ["Zoe" if word == "<unk>" else word for word in plain]
    invoke("evaluate", run.folder, "--replace-unk")
    assert "unknown words replaced" in (run.folder / "evaluation/ours.json").read_text(encoding="utf-8")
    assert "<unk>" not in (run.folder / "evaluation/ours.txt").read_text(encoding="utf-8")


def test_a_tokenizer_whose_unknown_words_stay(invoke: Invoke, tmp_path: Path) -> None:
    characters = untrained_run(tmp_path / "characters")
    CharacterTokenizerConfig().train(WORDS).save(characters.folder / "target")
    model = build_model(characters.load_config().model, 13, len(characters.load_tokenizers().target.vocabulary))
    vocabularies = [tokenizer.vocabulary for tokenizer in characters.load_tokenizers()]
    characters.save_model(unique_state_dict(model), (vocabularies[0], vocabularies[1]), {"checkpoints": []})
    error = invoke("translate", characters.folder, "a", "--replace-unk", code=2).err
    assert "that of the target is `characters`" in error
