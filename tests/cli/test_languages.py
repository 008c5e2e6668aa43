"""Languages without spaces, from training to scores with the right tokenizer of BLEU."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Mapping
from itertools import product
from pathlib import Path

import pytest
import sacrebleu

from seq2attn.run_directory import RunDirectory
from tests.cli.conftest import ROOT, Done, Invoke

TOKENIZERS = {"japanese": "char", "thai": "char", "chinese": "zh"}
SMALL = """\
run_dir: runs/mine
data:
  train: {kind: plain, source: train.en, target: train.target}
  dev: {kind: plain, source: dev.en, target: dev.target}
tokenizer: {source: {kind: words}, target: {kind: characters}}
model:
  embeddings: {dim: 24}
  encoder: {kind: gru, dim: 24}
  decoder: {kind: luong, dim: 24}
training:
  max_duration: [40 updates]
  batch: {tokens: 400}
  optimizer: {kind: adam, lr: 0.02}
  lr_schedule: {kind: constant}
  validation: {every: 10 updates}
  checkpoints: {keep_last: 4}
"""
ONE_LAYER = "layers: 1, heads: 2, ffn_dim: 128"
SIZES = (
    "training.max_duration=[12 epochs]",
    "model.embeddings.dim=64",
    f"model.encoder={{kind: transformer, {ONE_LAYER}}}",
    f"model.decoder={{kind: transformer, {ONE_LAYER}, attention: {{score: {{kind: multi-head, heads: 2}}}}}}",
)


ENGLISH = {
    "who": ["the teacher", "my mother", "the doctor", "our friend", "the child", "a student", "the cat"],
    "what": ["bread", "two books", "water", "a letter", "three apples", "the newspaper", "Wi-Fi"],
    "did": ["bought", "found", "lost", "saw", "brought", "forgot"],
    "when": ["yesterday", "today", "on 3 May", "on Monday", "at 10:30", "last year"],
}
ORDERS = {
    "japanese": "{when}{who}は{what}を{did}。",
    "thai": "{who}{did}{what}{when}",
    "chinese": "{when}，{who}{did}{what}。",
}
WORDS = {
    "japanese": {
        "who": ["先生", "わたしの母", "お医者さん", "ともだち", "子ども", "がくせい", "ネコ"],
        "what": ["パン", "本を2さつ", "水", "手紙", "リンゴを3つ", "しんぶん", "Wi-Fi"],
        "did": ["買いました", "見つけました", "なくしました", "見ました", "もってきました", "わすれました"],
        "when": ["きのう、", "きょう、", "5月3日に", "月曜日に", "10:30に", "去年、"],
    },
    "thai": {
        "who": ["ครู", "แม่ของฉัน", "หมอ", "เพื่อนของเรา", "เด็ก", "นักเรียน", "แมว"],
        "what": ["ขนมปัง", "หนังสือสองเล่ม", "น้ำ", "จดหมาย", "แอปเปิ้ลสามลูก", "หนังสือพิมพ์", "Wi-Fi"],
        "did": ["ซื้อ", "พบ", "ทำหาย", "เห็น", "นำ", "ลืม"],
        "when": ["เมื่อวานนี้", "วันนี้", " วันที่ 3 พฤษภาคม", "วันจันทร์", " 10:30 น.", "ปีที่แล้ว"],
    },
    "chinese": {
        "who": ["老师", "我的母亲", "医生", "我们的朋友", "孩子", "学生", "猫"],
        "what": ["面包", "两本书", "水", "一封信", "三个苹果", "报纸", "Wi-Fi"],
        "did": ["买了", "找到了", "弄丢了", "看见了", "带来了", "忘记了"],
        "when": ["昨天", "今天", "5月3日", "星期一", "10:30", "去年"],
    },
}


def write_corpus(language: str, folder: Path, sizes: Mapping[str, int], num_words: int = 6) -> None:
    """Disjoint sets of sentences, each written as `NAME.en` and `NAME.target`."""
    pairs: list[tuple[str, str]] = []
    for indices in product(range(num_words), repeat=len(ENGLISH)):
        words = {part: (ENGLISH[part][i], WORDS[language][part][i]) for part, i in zip(ENGLISH, indices, strict=True)}
        english, target = ({part: pair[side] for part, pair in words.items()} for side in (0, 1))
        pairs.append(("{who} {did} {what} {when}.".format(**english), ORDERS[language].format(**target)))
    random.Random(1).shuffle(pairs)
    for name, size in sizes.items():
        for side, suffix in enumerate(("en", "target")):
            text = "".join(pair[side] + "\n" for pair in pairs[:size])
            (folder / f"{name}.{suffix}").write_text(text, encoding="utf-8")
        pairs = pairs[size:]


def check(language: str, invoke: Invoke, trained: Done, *, min_bleu: float) -> None:
    """Check the run in the working directory."""
    tokenize, run = TOKENIZERS[language], RunDirectory(Path("runs/mine"))
    assert f"(tok:{tokenize}), as the references are in " in trained.err
    records = [json.loads(line) for line in run.metrics_path.read_text(encoding="utf-8").split("\n")[:-1]]
    validations = {one["update"]: one for one in records if one["kind"] == "validation"}
    assert all(f"|tok:{tokenize}|" in one["signature"] for one in validations.values())
    best = max(validations, key=lambda update: (validations[update]["bleu"], -validations[update]["loss"]))
    assert [int(name) for name in run.weights_origin()["checkpoints"]] == [best]
    assert validations[best]["bleu"] >= min_bleu

    # Translations of the dev set have the BLEU of the validation, which is that of sacreBLEU.
    evaluate = "evaluate", run.folder, "--source", "dev.en", "--reference", "dev.target", "--json"
    dev = json.loads(invoke(*evaluate, "--greedy").out)["sets"]["dev.en"]
    assert dev["scores"][0]["value"] == pytest.approx(validations[best]["bleu"])
    assert dev["by_length"][0]["unit"] == "words"  # of the source, English
    translations = (run.folder / "evaluation/dev.en.txt").read_text(encoding="utf-8").split("\n")[:-1]
    references = Path("dev.target").read_text(encoding="utf-8").split("\n")[:-1]
    expected = sacrebleu.corpus_bleu(translations, [references], tokenize=tokenize).score
    assert dev["scores"][0]["value"] == pytest.approx(expected)
    assert (dev["scores"][2]["name"], dev["scores"][2]["value"] < 100 - min_bleu) == ("token error rate", True)

    invoke("average", run.folder, "--last", 2)
    assert len(run.weights_origin()["checkpoints"]) == 2
    averaged = json.loads(invoke(*evaluate).out)["sets"]["dev.en"]["scores"][0]
    assert averaged["value"] >= min_bleu / 2


@pytest.mark.parametrize("language", ["chinese", pytest.param("thai", marks=pytest.mark.slow)])
def test_a_small_model_learns_a_toy_language(language: str, invoke: Invoke, tmp_path: Path) -> None:
    write_corpus(language, tmp_path, {"train": 65, "dev": 16}, num_words=3)
    (tmp_path / "small.yaml").write_text(SMALL, encoding="utf-8")
    check(language, invoke, invoke("train", "small.yaml"), min_bleu=40)


@pytest.mark.slow
@pytest.mark.parametrize("text", ["{kind: characters}", "{kind: unigram, vocab_size: 400}"])
@pytest.mark.parametrize("language", TOKENIZERS)
def test_the_config_of_the_readme_learns_a_toy_language(
    language: str, text: str, invoke: Invoke, tmp_path: Path
) -> None:
    write_corpus(language, tmp_path, {"train": 1000, "dev": 40})
    (config,) = re.findall(
        r"^```yaml\n(run_dir: runs/mine\n.*?)^```", (ROOT / "README.md").read_text("utf-8"), re.M | re.S
    )
    for name in ("train", "dev"):
        config = config.replace(f"{name}.en", f"{name}.target").replace(f"{name}.de", f"{name}.en")
    (tmp_path / "mine.yaml").write_text(config, encoding="utf-8")
    options = [part for size in (f"tokenizer.joint={text}", *SIZES) for part in ("--set", size)]
    check(language, invoke, invoke("train", "mine.yaml", *options), min_bleu=60)
