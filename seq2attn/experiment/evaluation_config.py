"""Config of the metrics of validation, `evaluate` and sweeps."""

import unicodedata
from collections.abc import Iterator, Sequence
from typing import Literal

from pydantic import PositiveInt

from seq2attn.config.base import Config, FieldError
from seq2attn.errors import UserError
from seq2attn.metrics.error_rate import ExactMatch, TokenErrorRate
from seq2attn.metrics.paper_bleu import PaperBLEU
from seq2attn.metrics.sacrebleu_metrics import MetricName, Metrics
from seq2attn.metrics.translation_metric import (
    References,
    TranslationBLEU,
    TranslationCHRF,
    TranslationMetric,
    TranslationTER,
    present_references,
)
from seq2attn.tokenizers.normalize import CHINESE, unspaced_script

Tokenize = Literal["auto", "13a", "intl", "char", "zh", "ja-mecab", "ko-mecab", "flores200"]


class ChrfConfig(Config):
    """Parameters of chrF and chrF++."""

    char_order: PositiveInt = 6
    """Maximum length of character n-grams."""
    word_order: PositiveInt = 2
    """Maximum length of word n-grams, of chrF++ only."""
    beta: PositiveInt = 2
    """Weight of recall relative to precision."""
    whitespace: bool = False
    """Count white space as characters."""


class TerConfig(Config):
    """Parameters of TER."""

    normalized: bool = False
    """Separate punctuation from words, and read XML escapes."""
    no_punct: bool = False
    """Remove punctuation."""
    asian_support: bool = False
    """With `normalized`: split Han characters; with `no_punct`: remove Asian punctuation too."""

    def check_fields(self) -> Iterator[FieldError]:
        """The error of an option without effect."""
        if self.asian_support and not (self.normalized or self.no_punct):
            yield FieldError("asian_support", "needs `normalized: true` or `no_punct: true`, and has no effect without")


class PaperBleuConfig(Config):
    """BLEU as a paper computed it, on tokenized text: not comparable with sacreBLEU's."""

    moses: str | None = None
    """Language of Moses' tokenizer, such as `de`; needs sacremoses. Unless given, the text is tokenized already."""
    lowercase: bool = False
    """Ignore case."""
    split_compounds: bool = False
    """Split words at hyphens, as Vaswani et al. 2017 for German (`get_ende_bleu.sh` of tensor2tensor)."""


class EvaluationConfig(Config):
    """Scoring of translations in validation, `evaluate` and sweeps."""

    metrics: tuple[MetricName, ...] | None = None
    """Metrics of `evaluate`: bleu, chrf, chrf++, ter, exact, token-error-rate, paper_bleu. Default: bleu, chrf, ter,
    or token-error-rate for references without spaces between words; and paper_bleu if that section is set."""
    tokenize: Tokenize = "auto"
    """sacreBLEU's tokenizer for BLEU. auto: by the script of the references: Han without kana: zh; kana, Thai, Lao,
    Khmer, Burmese and Tibetan: char; else 13a. ja-mecab needs sacrebleu[ja], ko-mecab sacrebleu[ko]; flores200
    downloads a model at first use."""
    lowercase: bool = False
    """Ignore case in all metrics but paper_bleu."""
    chrf: ChrfConfig = ChrfConfig()
    ter: TerConfig = TerConfig()
    error_rate_tokens: Literal["auto", "words", "char"] = "auto"
    """Tokens of the token error rate. auto: char for references without spaces between words, else words."""
    paper_bleu: PaperBleuConfig | None = None
    """BLEU of tokenized text, to compare with the number of a paper."""

    def check_fields(self) -> Iterator[FieldError]:
        """The error of BLEU of a paper without its settings."""
        if "paper_bleu" in (self.metrics or ()) and self.paper_bleu is None:
            message = "`paper_bleu` needs the section `evaluation.paper_bleu`: the tokens of the paper"
            yield FieldError("metrics", message)

    def build(self, *streams: Sequence[str]) -> Metrics:
        """The metrics for streams of references; `auto` settings depend on their script.

        Raises UserError when a package of the tokenizer is not installed, or does not know the language.
        """
        references = [line for stream in streams for line in stream]
        script = unspaced_script(references)
        best = "zh" if script == CHINESE else "char" if script else "13a"
        tokenize = best if self.tokenize == "auto" else self.tokenize
        default: list[MetricName] = ["bleu", "chrf", "token-error-rate" if script else "ter"]
        default += ["paper_bleu"] * (self.paper_bleu is not None)
        by_script = "char" if script else "words"
        tokens = by_script if self.error_rate_tokens == "auto" else self.error_rate_tokens
        return Metrics(
            by_name=self._metrics(tokenize, tokens),
            names=self.metrics or tuple(default),
            note="; ".join(_notes(streams, references, script, best if self.tokenize == "auto" else "")) or None,
            cautions=self._cautions(script, tokenize, best) if script else {},
        )

    def _metrics(self, tokenize: str, tokens: str) -> dict[MetricName, TranslationMetric]:
        chrf = self.chrf.model_dump(exclude={"word_order"})
        is_tokenized = self.paper_bleu is not None and self.paper_bleu.moses is None
        metrics: dict[MetricName, TranslationMetric] = {
            "bleu": _bleu(tokenize, self.lowercase, is_tokenized),
            "chrf": TranslationCHRF(lowercase=self.lowercase, **chrf),
            "chrf++": TranslationCHRF(lowercase=self.lowercase, word_order=self.chrf.word_order, **chrf),
            # sacreBLEU's own default lower-cases here, and here only.
            "ter": TranslationTER(case_sensitive=not self.lowercase, **self.ter.model_dump()),
            "exact": ExactMatch(lowercase=self.lowercase),
            "token-error-rate": TokenErrorRate(tokens=tokens, lowercase=self.lowercase),
        }
        if self.paper_bleu is not None:
            metrics["paper_bleu"] = PaperBLEU(**self.paper_bleu.model_dump())
        return metrics

    def _cautions(self, script: str | None, tokenize: str, best: str) -> dict[MetricName, str]:
        words = f"counts words between spaces, of which {script} text has few: take"
        cautions: dict[MetricName, str] = {}
        if tokenize in ("13a", "intl") or (tokenize, best) == ("zh", "char"):
            cautions["bleu"] = f"BLEU with `tokenize: {tokenize}` {words} `{best}`"
        if not self.ter.asian_support:
            cautions["ter"] = f"TER {words} `token-error-rate`"
        return cautions


def _notes(streams: References, references: Sequence[str], script: str | None, chosen: str) -> Iterator[str]:
    """Notes on a tokenizer that was `chosen` by the script, and on references that are not normalized or missing."""
    if script and chosen:
        why = f"as the references are in {script}; `evaluation.tokenize` sets another tokenizer"
        yield f"BLEU counts characters (tok:{chosen}), {why}"
    if others := sum(not unicodedata.is_normalized("NFC", line) for line in references):
        share = f"{others:,} of {len(references):,} references"
        why = "as translations are by default: equal text counts as different; normalize them"
        yield f"{share} are not in Unicode NFC, {why}"
    lines = [present_references(line) for line in zip(*streams, strict=True)] if len(streams) > 1 else []
    if single := sum(len(line) - line.count(None) == 1 for line in lines):
        yield f"{single:,} of {len(lines):,} lines have one reference only: empty ones are missing"


def _bleu(tokenize: str, lowercase: bool, is_tokenized: bool) -> TranslationBLEU:
    try:
        # `force` leaves out a warning.
        return TranslationBLEU(tokenize=tokenize, lowercase=lowercase, force=is_tokenized)
    except (RuntimeError, OSError) as error:
        why = "needs a model that cannot be loaded: " + str(error)
        if tokenize.endswith("mecab"):
            why = f"needs MeCab: pip install 'sacrebleu[{tokenize[:2]}]'"
        raise UserError(f"`tokenize: {tokenize}` {why}") from None
