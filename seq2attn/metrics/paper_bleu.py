"""BLEU of tokenized text, as in papers before sacreBLEU, under a name of its own."""

import re
from collections.abc import Callable
from functools import lru_cache, partial
from importlib.metadata import version

from sacrebleu.metrics.bleu import BLEUScore

from seq2attn.errors import UserError
from seq2attn.metrics.translation_metric import TranslationBLEU

NAME = "paper_bleu"
COMPOUND = re.compile(r"(\S)-(\S)")


class PaperBLEU(TranslationBLEU):
    """BLEU on the tokens of a paper, for standing beside its number only.

    Equals `multi-bleu.perl` of Moses where some n-grams of each order match, else smoothed as sacreBLEU's.

    moses:            language of Moses' tokenizer; None for text that is tokenized already
    lowercase:        after tokenization, as `multi-bleu.perl -lc`, but not only ASCII letters
    split_compounds:  at hyphens, as tensor2tensor's `get_ende_bleu.sh` (Vaswani et al. 2017)

    Raises UserError without sacremoses, and for a language that it does not know.
    """

    def __init__(self, moses: str | None, *, lowercase: bool, split_compounds: bool) -> None:
        super().__init__(lowercase=lowercase, tokenize="none", force=True)
        self._tokenize: Callable[[str], str] = lru_cache(2**16)(_load_moses(moses)) if moses else str.strip
        self._split_compounds = split_compounds
        tokenizer = f"sacremoses-{version('sacremoses')}-{moses}" if moses else "none"
        self.tokenizer_signature = tokenizer + "+compounds" * split_compounds

    def _preprocess_segment(self, sent: str) -> str:
        line = self._tokenize(sent)
        line = COMPOUND.sub(r"\1 ##AT##-##AT## \2", line) if self._split_compounds else line
        return line.lower() if self.lowercase else line

    def _compute_score_from_stats(self, stats: list[int]) -> BLEUScore:
        score = super()._compute_score_from_stats(stats)
        score.name = NAME
        return score


def _load_moses(language: str) -> Callable[[str], str]:
    try:
        from sacremoses import MosesTokenizer
        from sacremoses.corpus import NonbreakingPrefixes
    except ImportError:
        raise UserError("Moses' tokenizer needs sacremoses: pip install 'seq2attn[pretrained]'") from None
    languages = sorted({*NonbreakingPrefixes().available_langs.values()})
    if language not in languages:
        raise UserError(
            f"`evaluation.paper_bleu.moses`: Moses has no language `{language}`; known: {', '.join(languages)}"
        )
    return partial(MosesTokenizer(language).tokenize, return_str=True, escape=False)
