"""Translators are pickled as their run and options."""

import copy
import multiprocessing
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import seq2attn
from seq2attn.errors import RunError
from seq2attn.inference.translator import Translator
from seq2attn.options import TranslationOptions
from seq2attn.search.search_config import BeamConfig, LengthsConfig
from seq2attn.tokenizers.subwords import BPETokenizerConfig, UnigramTokenizerConfig
from tests.support.corpora import PHRASES
from tests.support.marks import slow_but
from tests.support.untrained_runs import CONFIG, TRANSFORMER_CONFIG, change_weights, untrained_run

LINES = ["a few words", "not many words unknown", "", "many of a few"]
SEARCH = BeamConfig(beam_size=4, lengths=LengthsConfig(max_length=7))
Copy = Callable[[Translator], Translator]
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*the translation has the maximum length", "ignore:the model does not know"
)


def pickle_copy(translator: Translator) -> Translator:
    return pickle.loads(pickle.dumps(translator))


COPIES: dict[str, Copy] = {"pickle": pickle_copy, "deepcopy": copy.deepcopy, "copy": copy.copy}


def translations(translator: Translator) -> list[tuple[str, float]]:
    return [(one.text, one.score) for one in translator.translate(LINES)]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("pickled")
    for seed, (name, config) in enumerate({"gru": CONFIG, "transformer": TRANSFORMER_CONFIG, "other": CONFIG}.items()):
        run = untrained_run(home / name, config.replace("dim: 8", "dim: 32"))

        def shuffle(model: torch.nn.Module, seed: int = seed) -> None:
            for parameter in model.parameters():
                parameter.copy_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(seed)))

        change_weights(run, shuffle)
    (home / "terms").write_text("few\tthere\n", "utf-8")
    return home


@pytest.mark.parametrize("name", slow_but(["gru"], ["gru", "transformer"]))
@pytest.mark.parametrize("way", COPIES)
def test_a_copy_gives_the_same(home: Path, name: str, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(home)
    plain = TranslationOptions(replace_unk=name == "gru")
    length = ["search.lengths.max_length=7"]
    options = replace(plain, overrides=length, beam=4, batch_tokens=9, glossary=Path("terms"), rerank=["other/run:0.5"])
    translator = seq2attn.load(Path(name) / "run", options)
    expected = translations(translator)
    assert expected != translations(seq2attn.load(Path(name) / "run", plain))
    (home / "terms").rename(home / "elsewhere")  # a pickled translator has its glossary
    monkeypatch.chdir("/")  # paths are absolute
    duplicate = COPIES[way](translator)
    (home / "elsewhere").rename(home / "terms")
    assert translations(duplicate) == expected
    assert (duplicate.model is translator.model) == (way == "copy")
    assert duplicate.search == translator.search and duplicate.max_batch_tokens == 9
    assert duplicate.replace_unk == (name == "gru") and len(duplicate.rerankers) == 1
    again = COPIES[way](replace(duplicate, search=BeamConfig(beam_size=1), replace_unk=False))
    assert again.search == BeamConfig(beam_size=1) and not again.replace_unk and translations(duplicate) == expected


def test_paths_may_be_text(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(home)
    paths = [TranslationOptions(ensemble=[Path("other/run")], glossary=Path("terms"))]
    texts = [TranslationOptions(ensemble=["other/run"], glossary="terms")]  # type: ignore[list-item, arg-type]
    expected, found = (translations(seq2attn.load("gru/run", options)) for options in (*paths, *texts))
    assert found == expected


@pytest.mark.parametrize("way", COPIES)
def test_ensembles_and_precisions(home: Path, way: str) -> None:
    ensemble = seq2attn.load(home / "gru/run", TranslationOptions(ensemble=[home / "other/run"], replace_unk=True))
    assert translations(COPIES[way](ensemble)) == translations(ensemble)
    assert translations(ensemble) != translations(seq2attn.load(home / "gru/run", TranslationOptions(replace_unk=True)))
    faster = seq2attn.load(home / "gru/run", TranslationOptions(precision="bfloat16"))
    assert len(pickle.dumps(faster)) < (home / "gru/run/model.safetensors").stat().st_size
    assert COPIES[way](faster).engine.description == "native bfloat16"


@pytest.mark.parametrize("changed", ["run", "member", "reranker"])
def test_other_weights_are_refused(tmp_path: Path, changed: str) -> None:
    runs = {name: untrained_run(tmp_path / name) for name in ("run", "member", "reranker")}
    options = TranslationOptions(ensemble=[runs["member"].folder], rerank=[str(runs["reranker"].folder)])
    content = pickle.dumps(seq2attn.load(runs["run"].folder, options))
    assert pickle.loads(content).translate("")
    change_weights(runs[changed], lambda model: model.output_projection.weight.mul_(2))
    with pytest.raises(
        RunError, match=rf"{changed}/run/model\.safetensors: is not what the translator was loaded from"
    ):
        pickle.loads(content)


@pytest.mark.parametrize("config", [BPETokenizerConfig(vocab_size=400, dropout=0.1), UnigramTokenizerConfig(alpha=0.1)])
def test_tokenizers_are_pickled(config: BPETokenizerConfig | UnigramTokenizerConfig) -> None:
    """With the tokenizers of glossaries and rerankers."""
    lines = [source for source, _ in PHRASES[:200]]
    tokenizer = config.train(lines)
    for one in (tokenizer, tokenizer.with_tags(("x",)), tokenizer.with_direction(right_to_left=True)):
        for duplicate in (pickle.loads(pickle.dumps(one)), copy.deepcopy(one)):
            assert [*map(duplicate.encode, lines)] == [*map(one.encode, lines)]
            assert duplicate.sample(lines, 3) == one.sample(lines, 3)


def translate_here(translator: Translator) -> list[tuple[str, float]]:
    return translations(translator)


@pytest.mark.slow
def test_processes_translate(home: Path) -> None:
    seq2attn_run = home / "transformer/run"
    translators = [
        seq2attn.load(seq2attn_run),
        seq2attn.load(home / "gru/run", TranslationOptions(ensemble=[home / "other/run"])),
    ]
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        assert pool.map(translate_here, translators) == [*map(translations, translators)]


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["onnx", "ctranslate2"])
def test_exported_models(home: Path, engine: str) -> None:
    from tests.support.commands import invoke_in

    invoke_in(home, "export", "transformer/run", engine, "--to", engine, "--quantization", "int8")
    translator = seq2attn.load(home / "transformer/run", TranslationOptions(engine=engine, export_dir=home / engine))
    for way in COPIES.values():
        duplicate = way(translator)
        assert duplicate.engine.description == translator.engine.description
        assert translations(duplicate) == translations(translator)
