"""Models of other families than Marian become runs, with their languages; bad folders leave nothing behind."""

import json
import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from seq2attn.inference.translator import Translator
from seq2attn.search.config import GreedyConfig
from tests.cli.conftest import Invoke
from tests.cli.test_import import TABLE, change, weights
from tests.cli.test_pages import commands
from tests.small_marian import SOURCE, TARGET, make_marian, train_pieces
from tests.small_multilingual import make_bart, make_m2m100, make_mbart, make_pegasus

ADAPTED_DATA = "".join(f"  {name}: {{kind: plain, source: test.de, target: test.fr}}\n" for name in ("train", "dev"))
ADAPTED = """\
tokenizer: {run_dir: runs/nllb}
training:
  init_from: {run_dir: runs/nllb}
  max_duration: [1 update]
  optimizer: {kind: sgd, lr: 1.0e-9}
"""


def test_a_multilingual_model_translates_into_each_of_its_languages(invoke: Invoke, tmp_path: Path) -> None:
    """The commands of docs/pretrained.md, and others."""
    make_m2m100(tmp_path / "nllb-200-distilled-600M", nllb=True)
    for side, lines in (("de", SOURCE), ("fr", TARGET)):
        (tmp_path / f"test.{side}").write_text("\n".join(lines), encoding="utf-8")
    imported, translate, evaluate, score = [
        shlex.split(command)[1:] for command in commands("docs/pretrained.md") if "nllb" in command
    ]
    assert re.search(r"^greedy +20 +100.00% +100.0%", invoke(*imported).out, re.MULTILINE)
    french = invoke(*translate).out
    translator = Translator.load(tmp_path / "runs/nllb", "cpu")
    assert french == translator.translate("Das Haus ist alt.", to="fra_Latn").text + "\n"
    assert french != translator.translate("Das Haus ist alt.").text + "\n"
    assert "BLEU" in invoke(*evaluate).out
    texts = (tmp_path / "runs/nllb/evaluation/test.de.txt").read_text(encoding="utf-8").splitlines()
    assert texts == [one.text for one in translator.translate(list(SOURCE), to="fra_Latn")]
    tagged = invoke(*score, "--per-token").out.splitlines()
    assert all(line.split("\t")[1].startswith("fra_Latn ") for line in tagged)
    export = invoke("export", "runs/nllb", "--to", "ctranslate2", "--verify-with", "test.de").out
    assert re.search(r"^greedy +3 +100.00%", export, re.MULTILINE)
    assert invoke(*translate, "--greedy", "--engine", "ctranslate2").out == invoke(*translate, "--greedy").out
    assert "\nlayer 2" in invoke(*translate, "--attention", "-", "--prefix", "The").out
    for command in (translate, evaluate, score):
        error = invoke(*command, "--to", "xxx", code=2).err
        assert "not translate into `xxx`: its languages are deu_Latn, eng_Latn, fra_Latn" in error
        assert error.count("\n") == 1
    assert "its languages are" in invoke(*translate, "--to", "<mask>", code=2).err

    adapted = f"extends: runs/nllb/config.yaml\nrun_dir: runs/adapted\ndata:\n{ADAPTED_DATA}{ADAPTED}"
    (tmp_path / "adapted.yaml").write_text(adapted, encoding="utf-8")
    invoke("train", "adapted.yaml")
    samples = (tmp_path / "runs/adapted/samples.txt").read_text(encoding="utf-8")
    english = translator.translate(SOURCE[0], GreedyConfig(kind="greedy")).text[:20]  # of the run, with its tag
    assert len(english) == 20 and f"translation: {english}" in samples


def test_the_language_of_a_marian_model_can_be_another_one(invoke: Invoke, tmp_path: Path) -> None:
    make_marian(tmp_path / "hf", tags=[">>fra<<", ">>eng<<"])
    invoke("import", "hf", "run", "--to", "fra", "--no-punctuation")
    scored = ("translate", "run", "--n-best", "2")
    tagged = [invoke(*scored, f">>{language}<< {SOURCE[0]}").out for language in ("eng", "fra")]
    assert [invoke(*scored, SOURCE[0], "--to", language).out for language in ("eng", "fra")] == tagged
    assert tagged[0] != tagged[1]
    assert "its languages are fra, eng" in invoke("translate", "run", SOURCE[0], "--to", "deu", code=2).err
    assert "leave it out (--from LANG)" in invoke("import", "hf", "a", "--to", "fra", "--from", "x", code=2).err


MULTILINGUAL: dict[str, tuple[Callable[[Path], object], str]] = {
    "no language": (lambda hf: None, "{hf}: the model has the languages deu_Latn, eng_Latn, fra_Latn; give one ("),
    "other pieces": (
        lambda hf: train_pieces(SOURCE, hf / "sentencepiece.bpe.model"), "{hf}: the ids of its languages do not follow"
    ),
    "no pieces": (lambda hf: (hf / "sentencepiece.bpe.model").unlink(), "{hf}/sentencepiece.bpe.model"),
    "no tags": (lambda hf: (hf / "tokenizer.json").unlink(), "special_tokens_map.json lacks `additional_special_tok"),
    "size": (change("config.json", vocab_size=199), "{hf}/sentencepiece.bpe.model: has 95 entries, and the model 199"),
    "too small": (change("config.json", vocab_size=90), "{hf}/sentencepiece.bpe.model: has 95 entries, and the"),
    "padding": (change("config.json", pad_token_id=0), "`<pad>` has the id 1, expected `pad_token_id`, 0"),
    "activation": (change("config.json", activation_function="relu2"), "{hf}/config.json: `activation_function`: "),
    "tensor": (weights(model__encoder__layer_norm__weight=None), "{hf}: its weights lack `model.encoder.layer_norm"),
}  # fmt: skip


@pytest.mark.parametrize("name", MULTILINGUAL)
def test_a_bad_multilingual_folder_leaves_nothing_behind(name: str, invoke: Invoke, tmp_path: Path) -> None:
    spoil, message = MULTILINGUAL[name]
    folder = tmp_path / "hf"
    make_m2m100(folder, nllb=True)
    spoil(folder)
    languages = [] if name == "no language" else ["--from", "deu_Latn", "--to", "fra_Latn"]
    error = invoke("import", folder, "run", *languages, code=2).err
    assert message.format(hf=folder) in error and error.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["hf"]


def test_other_families_are_refused_with_their_place(invoke: Invoke, tmp_path: Path) -> None:
    mbart, pegasus = tmp_path / "mbart", tmp_path / "pegasus"
    make_mbart(mbart)
    make_pegasus(pegasus)
    (mbart / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "MBartTokenizer"}))
    error = invoke("import", mbart, "run", "--from", "de_DE", "--to", "en_XX", code=2).err
    assert f"{mbart}/tokenizer_config.json: `tokenizer_class` is that of the first mBART" in error
    assert "has no tags of languages; leave it out" in invoke("import", pegasus, "run", "--to", "x", code=2).err
    for spoil, message in [
        (weights(model__encoder__layernorm_embedding__weight=TABLE), "`model.encoder.layernorm_embedding.weight`"),
        (weights(model__encoder__embed_positions__weight=TABLE), "positions.weight` is 55 x 16, and 64 x 16 by config"),
        (lambda hf: (hf / "spiece.model").write_bytes(b"x"), "spiece.model: is not a SentencePiece model"),
        (lambda hf: (hf / "spiece.model").unlink(), "spiece.model"),
    ]:
        copy = Path(shutil.copytree(pegasus, tmp_path / "copy"))
        spoil(copy)
        error = invoke("import", copy, "run", code=2).err
        assert message in error and error.count("\n") == 1
        shutil.rmtree(copy)
    make_bart(tmp_path / "bart")
    no_tokenizer = "is not a tokenizer of Hugging Face"
    for content, message in (("{}", no_tokenizer), ("[]", no_tokenizer), (None, "tokenizer.json cannot be read")):
        file = tmp_path / "bart/tokenizer.json"
        file.unlink() if content is None else file.write_text(content)
        error = invoke("import", tmp_path / "bart", "run", code=2).err
        assert message in error and error.count("\n") == 1
    assert not (tmp_path / "run").exists()
