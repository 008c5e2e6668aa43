"""An exported run, loaded by `transformers`, has the tokens and probabilities of the run, and so has its import."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

import seq2attn
from seq2attn.config.load import load
from seq2attn.data.collate import collate_source
from seq2attn.errors import ConfigError, UserError
from seq2attn.experiment.experiment_config import ExperimentConfig
from seq2attn.experiment.run_directory import RunDirectory
from seq2attn.exporters.export_run import export, export_run
from seq2attn.exporters.huggingface_target import HuggingFaceTarget
from seq2attn.inference.engines.exported import load_exported_engine
from seq2attn.inference.engines.source_limit import max_source_length
from seq2attn.options.runs import ExportOptions, ImportOptions
from seq2attn.pretrained.import_run import import_model
from seq2attn.search.search_config import GreedyConfig
from seq2attn.tokenizers.vocabulary import BOS, PAD
from tests.support.exported_runs import EACH, JOINT, LINES, make_run
from tests.support.marian import SOURCE, TARGET
from tests.support.marks import slow_but

POST = ["model.encoder.norm_order=post", "model.decoder.norm_order=post"]
POSITIONS = [f"model.{side}.position_encoding=learned" for side in ("encoder", "decoder")]
PAPER = [f"model.{side}.wavelengths=paper" for side in ("encoder", "decoder")]
GELU = [f"model.{side}.activation=gelu" for side in ("encoder", "decoder")]
SILU = [f"model.{side}.activation=silu" for side in ("encoder", "decoder")]
MODELS: dict[str, tuple[str, list[str]]] = {
    "Pegasus": (JOINT, []),
    "Pegasus, learned positions": (
        JOINT.replace("bpe", "unigram, lowercase: true"),
        [*POSITIONS, "model.encoder.max_positions=250", *GELU, "model.embeddings.scaled=false"],
    ),
    "Marian": (JOINT.replace("bpe", "bpe, normalization: nfkc"), [*POST, PAPER[1]]),
    "Marian, learned positions": (JOINT.replace("bpe", "bpe, normalization: none"), [*POST, *POSITIONS]),
    "Marian, two vocabularies": (EACH, [*POST, *PAPER, *SILU, "model.embeddings.tie=output"]),
    "Marian, three tables": (EACH, [*POST, "model.embeddings.tie=none", "model.embeddings.scaled=false"]),
}
QUICK = ("Marian, two vocabularies",)
BOTH = ("model.decoder.norm_type", "search.lengths.length_penalty")


def read(file: Path) -> dict[str, Any]:
    return json.loads(file.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", slow_but(QUICK, MODELS))
def test_transformers_computes_what_the_run_does(name: str, tmp_path: Path) -> None:
    tokenizer, changes = MODELS[name]
    run, folder = make_run(tmp_path, tokenizer, changes), tmp_path / "hf"
    report = export_run(run, HuggingFaceTarget(), folder, ExportOptions(verify_with=tmp_path / "lines"))
    assert [one.token_agreement for one in report.searches] == [1, 1] and report.max_forced_difference < 1e-4

    loaded = run.load()
    model, (source, target) = loaded.model, loaded.tokenizers
    theirs: Any = AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    assert type(theirs).__name__ == {"P": "PegasusForConditionalGeneration", "M": "MarianMTModel"}[name[0]]
    encode: Any = AutoTokenizer.from_pretrained(folder)
    assert encode.model_max_length == max_source_length(run.load_config()) + 1  # with EOS
    lines = [line for line in LINES if line]
    batch = encode(lines, return_tensors="pt", padding=True)
    ids, sequences = collate_source([source.encode(line) for line in lines])
    assert batch.input_ids.equal(ids) and batch.attention_mask.bool().equal(sequences.mask)
    target_ids = torch.tensor([[BOS, *target.encode(TARGET[0])]]).expand(len(lines), -1)
    expected = model.output_projection(model(ids, sequences, target_ids).hidden)
    torch.testing.assert_close(theirs(**batch, decoder_input_ids=target_ids).logits, expected, rtol=1e-4, atol=1e-4)

    greedy = GreedyConfig(no_repeat_ngram_size=1, lengths=run.load_config().search.lengths)
    ours = seq2attn.load(run.folder).translate(lines, greedy)
    output = theirs.generate(**batch, num_beams=1)
    texts = [" ".join(text.split()) for text in encode.batch_decode(output, skip_special_tokens=True)]
    assert texts == [one.text for one in ours]


@pytest.mark.parametrize(
    "name",
    [
        "Marian",
        pytest.param("Marian, two vocabularies", marks=pytest.mark.slow),
        pytest.param("Pegasus", marks=pytest.mark.slow),
        pytest.param("Pegasus, learned positions", marks=pytest.mark.slow),
    ],
)
def test_an_export_can_be_imported(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tokenizer, changes = MODELS[name]
    dropouts = {"dropout": 0.2, "attention_dropout": 0.3, "activation_dropout": 0.0, "layer_dropout": 0.4}
    run = make_run(tmp_path, tokenizer, [*changes, *(f"model.encoder.{key}={p}" for key, p in dropouts.items())])
    export_run(run, HuggingFaceTarget(), tmp_path / "hf", ExportOptions(verify_with=tmp_path / "lines"))
    (tmp_path / "probe").write_text("\n".join(SOURCE), encoding="utf-8")
    import_model(tmp_path / "hf", tmp_path / "again", ImportOptions(), verify_with=tmp_path / "probe")
    models = [RunDirectory(tmp_path / name).load_config().model for name in ("run", "again")]
    assert models[1].encoder.model_dump(include={*dropouts}) == dropouts
    before, after = (seq2attn.load(tmp_path / name) for name in ("run", "again"))
    assert before.source.vocabulary == after.source.vocabulary
    assert after.search.lengths.max_length == before.search.lengths.max_length
    assert after.search.lengths.source_language == "de"
    lines = [*SOURCE, "„Wo“ — ‘Boot’…"]  # which Moses' normalization changes
    for one, other in zip(*(one.translate(lines, before.search) for one in (before, after)), strict=True):
        assert (one.tokens, one.text) == (other.tokens, other.text)
    assert capsys.readouterr().err.endswith(
        "because the files of the model have no value: `training.label_smoothing`\n"
    )


def test_the_search_is_that_of_the_run(tmp_path: Path) -> None:
    run, folder = make_run(tmp_path), tmp_path / "hf"
    folder.mkdir()

    def search(*changes: str) -> dict[str, Any]:
        run.save_config(load(tmp_path / "own.yaml", ExperimentConfig, [*changes]))
        HuggingFaceTarget().export(run, folder, "float32")
        return read(folder / "generation_config.json")

    beam = {"num_beams": 3, "length_penalty": 1.0, "early_stopping": False, "max_length": 11, "no_repeat_ngram_size": 1}
    assert search().items() >= beam.items()
    lengths = "search.lengths={length_penalty: average, alpha: 0.6, max_length: 7}"
    settings = search(lengths, "search.patience=null", "search.beam_size=4", "search.no_repeat_ngram_size=2")
    beam = {"num_beams": 4, "length_penalty": 0.6, "early_stopping": "never", "max_length": 9}
    assert settings.items() >= {**beam, "no_repeat_ngram_size": 2}.items()
    beam = {"length_penalty": 0.0, "early_stopping": True, "suppress_tokens": [PAD, BOS]}
    assert search("search.lengths.length_penalty=none", "search.patience=1").items() >= beam.items()
    assert "num_beams" not in search("search={kind: greedy}")


REFUSED = {
    "model.decoder.attention.score.heads": "2",
    "model.decoder.attention.score.kv_heads": "2",
    "model.decoder.attention.align": "{kind: sparsemax}",
    "model.decoder.norm_type": "rmsnorm",
    "model.encoder.position_encoding": "rotary",
    "model.decoder.activation": "swiglu",
    "model.encoder.embedding_norm": "true",
    "model.encoder.kv_heads": "1",
    "model.encoder.head_dim": "5",
    "model.decoder.bias": "false",
    "model.decoder.norm_order": "post",
    "model.embeddings.tie": "output",
    "tokenizer.joint": "{kind: characters}",
    "data.train.tag": "news",
    "search": "{kind: sample}",
    "search.lengths.length_penalty": "gnmt",
    "search.lengths.min_length_ratio": "0.5",
    "search.coverage_penalty": "0.2",
}


def test_all_options_that_do_not_fit_are_refused_with_their_keys(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    target = HuggingFaceTarget()
    assert target.unsupported(run.load_config()) == []
    for key, value in REFUSED.items():
        experiment = load(tmp_path / "own.yaml", ExperimentConfig, [f"{key}={value}"])
        fields = [mistake.field for mistake in target.unsupported(experiment)]
        expected = {"data.train.tag": "data.train"}.get(key, key)
        assert fields and fields[0].startswith(expected), key
    run.save_config(load(tmp_path / "own.yaml", ExperimentConfig, [f"{key}={REFUSED[key]}" for key in BOTH]))
    with pytest.raises(ConfigError, match=r"config\.yaml:\d+:\d+: `model\.decoder\.norm_type`: huggingface ") as error:
        export_run(run, target, tmp_path / "hf")
    assert "`search.lengths.length_penalty`" in str(error.value) and not (tmp_path / "hf").exists()


def test_a_tokenizer_that_gives_other_ids_is_refused(tmp_path: Path) -> None:
    """SentencePiece replaces letters one by one; Greek lower case depends on the end of the word."""
    run = make_run(tmp_path, JOINT.replace("bpe", "bpe, lowercase: true"))
    (tmp_path / "lines").write_text("Boot\nΟΔΟΣ\n", encoding="utf-8")
    with pytest.raises(UserError, match="the exported tokenizer does not agree on 'ΟΔΟΣ'"):
        export_run(run, HuggingFaceTarget(), tmp_path / "hf", ExportOptions(verify_with=tmp_path / "lines"))
    assert not (tmp_path / "hf").exists()


def test_it_is_no_engine(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there is no engine `huggingface`"):
        load_exported_engine(RunDirectory(tmp_path), "huggingface", None, torch.device("cpu"))
    with pytest.raises(UserError, match="``to=torch``: there is no such format; known: ctranslate2, onnx, huggingf"):
        export(tmp_path, "torch")
