"""Languages without spaces, from training to scores with the right tokenizer of BLEU."""

import json
import random
from itertools import product
from pathlib import Path

import pytest
import sacrebleu

from seq2attn.run_directory import RunDirectory
from tests.cli.conftest import Invoke, write_toy

ENGLISH = "{who} {did} {what} {when}."
PARTS = {
    "who": ["the teacher", "my mother", "the doctor"],
    "what": ["bread", "two books", "Wi-Fi"],
    "did": ["bought", "found", "lost"],
    "when": ["yesterday", "on 3 May", "at 10:30"],
}
LANGUAGES = {
    "japanese": (
        "{when}{who}は{what}を{did}。",
        {
            "who": ["先生", "わたしの母", "お医者さん"],
            "what": ["パン", "本を2さつ", "Wi-Fi"],
            "did": ["買いました", "見つけました", "なくしました"],
            "when": ["きのう、", "5月3日に", "10:30に"],
        },
    ),
    "chinese": (
        "{when}，{who}{did}{what}。",
        {
            "who": ["老师", "我的母亲", "医生"],
            "what": ["面包", "两本书", "Wi-Fi"],
            "did": ["买了", "找到了", "弄丢了"],
            "when": ["昨天", "5月3日", "10:30"],
        },
    ),
}


def sentence(order: str, parts: dict[str, list[str]], indices: tuple[int, ...]) -> str:
    return order.format(**{name: words[index] for (name, words), index in zip(parts.items(), indices, strict=True)})


@pytest.mark.parametrize(
    ("language", "tokenizer", "tokenize"),
    [
        ("chinese", "{kind: characters}", "zh"),
        pytest.param("japanese", "{kind: unigram, vocab_size: 400}", "char", marks=pytest.mark.slow),
    ],
)
def test_a_small_model_learns_a_toy_language(
    language: str, tokenizer: str, tokenize: str, invoke: Invoke, tmp_path: Path
) -> None:
    points = list(product(range(3), repeat=len(PARTS)))
    pairs = [(sentence(ENGLISH, PARTS, point), sentence(*LANGUAGES[language], point)) for point in points]
    random.Random(1).shuffle(pairs)
    write_toy(tmp_path, pairs={"train": pairs[:65], **dict.fromkeys(("dev", "short", "mixed"), pairs[65:])})
    changes = [
        f"tokenizer={{joint: null, source: {{kind: words}}, target: {tokenizer}}}",
        "training={max_duration: [60 updates], validation: {every: 10 updates}, optimizer: {lr: 0.02}}",
    ]
    trained = invoke("train", "toy.yaml", *(f"--set={change}" for change in changes))
    run = RunDirectory(Path("runs/toy"))
    assert f"(tok:{tokenize}), as the references are in " in trained.err
    records = [json.loads(line) for line in run.metrics_path.read_text(encoding="utf-8").split("\n")[:-1]]
    validations = {one["update"]: one for one in records if one["kind"] == "validation"}
    assert all(f"|tok:{tokenize}|" in one["signature"] for one in validations.values())
    best = max(validations, key=lambda update: (validations[update]["bleu"], -validations[update]["loss"]))
    assert [int(name) for name in run.weights_origin()["checkpoints"]] == [best]
    assert validations[best]["bleu"] >= 40

    # Translations of the dev set have the BLEU of the validation, which is that of sacreBLEU.
    files = "--source", "text/dev.de", "--reference", "text/dev.en"
    dev = json.loads(invoke("evaluate", run.folder, *files, "--json", "--greedy").out)["sets"]["dev.de"]
    assert dev["scores"][0]["value"] == pytest.approx(validations[best]["bleu"])
    assert dev["by_length"][0]["unit"] == "words"  # of the source, English
    translations = (run.folder / "evaluation/dev.de.txt").read_text(encoding="utf-8").split("\n")[:-1]
    expected = sacrebleu.corpus_bleu(translations, [[target for _, target in pairs[65:]]], tokenize=tokenize).score
    assert dev["scores"][0]["value"] == pytest.approx(expected)
    assert (dev["scores"][2]["name"], dev["scores"][2]["value"] < 60) == ("token error rate", True)
