"""`paper_bleu` against the formula of multi-bleu.perl, sacreBLEU's command, Moses' rules and get_ende_bleu.sh."""

import math
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from sacremoses import MosesTokenizer

from seq2attn.config.base import FieldErrors
from seq2attn.errors import UserError
from seq2attn.experiment.evaluation_config import EvaluationConfig, PaperBleuConfig
from seq2attn.metrics.sacrebleu_metrics import Score
from seq2attn.metrics.significance import paired_scores

RNG = random.Random(3)
REFERENCES = [
    " ".join(
        RNG.choices(
            ["Ein", "ein", "Mann", "in", "well-known", "T-shirt-Laden", "a-b-c", ",", "."], k=RNG.randint(1, 14)
        )
    )
    for _ in range(60)
]
HYPOTHESES = [" ".join(word for word in line.split() if RNG.random() > 0.1) for line in REFERENCES]
TEXT = [
    "Dr. Weiß trägt z. B. ein rot-weißes T-Shirt. Er lacht.",
    'Er sagt: "Nein, 3.5 & 4 Personen" am 3. Mai 2016 ...',
] * 2
OTHER = ["Dr. Weiß trägt z. B. ein Rot-weißes Hemd. Er lacht.", 'Er sagt: "Nein, 3.5 & 4 Leute" am 3. Mai 2016 ...'] * 2


def score(hypotheses: list[str], references: list[str], **settings: object) -> Score:
    metrics = EvaluationConfig(paper_bleu=PaperBleuConfig(**settings)).build(references)
    assert metrics.names == ("bleu", "chrf", "ter", "paper_bleu")
    return metrics.scores(hypotheses, [references])[-1]


def multi_bleu(hypotheses: list[str], references: list[str]) -> float:
    """The formula of multi-bleu.perl, of tokens separated by spaces (Papineni et al. 2002, section 2.3)."""
    correct, total, length, reference_length = Counter[int](), Counter[int](), 0, 0
    for hypothesis, reference in zip(hypotheses, references, strict=True):
        words, expected = hypothesis.split(), reference.split()
        length, reference_length = length + len(words), reference_length + len(expected)
        for n in range(1, 5):
            ours, theirs = (
                Counter(tuple(side[i : i + n]) for i in range(len(side) - n + 1)) for side in (words, expected)
            )
            correct[n] += (ours & theirs).total()
            total[n] += ours.total()
    brevity = min(1.0, math.exp(1 - reference_length / length))
    return 100 * brevity * math.exp(sum(math.log(correct[n] / total[n]) for n in range(1, 5)) / 4)


def test_of_tokenized_text_is_that_of_multi_bleu_and_of_sacrebleus_command(tmp_path: Path) -> None:
    for name, lines in (("hypotheses", HYPOTHESES), ("references", REFERENCES)):
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    for lowercase in (False, True):
        ours = score(HYPOTHESES, REFERENCES, lowercase=lowercase)
        both = ([line.lower() if lowercase else line for line in lines] for lines in (HYPOTHESES, REFERENCES))
        assert ours.value == pytest.approx(multi_bleu(*both))
        files = [tmp_path / "references", "-i", tmp_path / "hypotheses", "-tok", "none", *["-lc"] * lowercase]
        command = [sys.executable, "-m", "sacrebleu", *files, "-b", "-w", "12"]
        done = subprocess.run(command, capture_output=True, check=True, text=True)
        assert ours.value == pytest.approx(float(done.stdout))
        assert ours.name == "paper_bleu"
        assert ours.signature.startswith(f"nrefs:1|case:{'lc' if lowercase else 'mixed'}|eff:no|tok:none|")


def test_moses_tokens_are_split_at_hyphens_and_then_lowercased() -> None:
    tokenizer = MosesTokenizer("de")
    tokens = [[tokenizer.tokenize(line, return_str=True) for line in lines] for lines in (OTHER, TEXT)]
    ours = score(OTHER, TEXT, moses="de")
    assert ours.value == pytest.approx(multi_bleu(*tokens))
    assert ours.value != pytest.approx(score(OTHER, TEXT).value)
    assert "|tok:sacremoses-" in ours.signature and "-de|" in ours.signature

    def split(line: str) -> str:
        """As `perl -ple 's{(\\S)-(\\S)}{$1 ##AT##-##AT## $2}g'`, which reads each letter once."""
        result, place = "", 0
        while place < len(line):
            part = line[place : place + 3]
            if len(part) == 3 and part[1] == "-" and not part[0].isspace() and not part[2].isspace():
                result, place = f"{result}{part[0]} ##AT##-##AT## {part[2]}", place + 3
            else:
                result, place = result + line[place], place + 1
        return result

    ours = score(OTHER, TEXT, moses="de", split_compounds=True, lowercase=True)
    assert ours.value == pytest.approx(multi_bleu(*([split(line).lower() for line in lines] for lines in tokens)))
    assert "|case:lc|" in ours.signature and "-de+compounds|" in ours.signature
    splits = [[split(line) for line in lines] for lines in (HYPOTHESES, REFERENCES)]
    assert score(HYPOTHESES, REFERENCES, split_compounds=True).value == pytest.approx(multi_bleu(*splits))


def test_it_stands_beside_bleu_under_its_own_name() -> None:
    metrics = EvaluationConfig(paper_bleu=PaperBleuConfig(lowercase=True)).build(REFERENCES)
    systems = {"a": REFERENCES, "b": HYPOTHESES}
    scores = paired_scores(metrics, systems, [REFERENCES], metrics.names)
    assert [*scores] == ["BLEU", "chrF2", "TER", "paper_bleu"]
    assert scores["paper_bleu"]["b"].value == pytest.approx(score(HYPOTHESES, REFERENCES, lowercase=True).value)
    assert scores["paper_bleu"]["b"].p_value is not None
    only = EvaluationConfig(metrics=("paper_bleu",), paper_bleu=PaperBleuConfig()).build(REFERENCES)
    assert only.names == ("paper_bleu",)


def test_invalid_options_and_other_languages_are_refused() -> None:
    with pytest.raises(ValueError, match="`paper_bleu` needs the section") as error:
        EvaluationConfig(metrics=("bleu", "paper_bleu"))
    assert isinstance(error.value.errors()[0]["ctx"]["error"], FieldErrors)
    with pytest.raises(UserError, match="Moses has no language `xx`; known: as, bn"):
        score(HYPOTHESES, REFERENCES, moses="xx")


@pytest.mark.parametrize(("paper_bleu", "warns"), [(None, True), ({"moses": "en"}, True), ({}, False)])
def test_sacrebleus_warning_of_tokenized_text_is_for_text_that_should_not_be(paper_bleu, warns, caplog):
    lines = ["it rains ."] * 100
    EvaluationConfig.model_validate({"metrics": ("bleu",), "paper_bleu": paper_bleu}).build(lines).scores(
        lines, [lines]
    )
    assert ("tokenized period" in caplog.text) is warns
