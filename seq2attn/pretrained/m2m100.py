"""M2M100 (Fan et al. 2020) and NLLB (NLLB team 2022): one architecture, with and without `vocab.json`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from seq2attn.pretrained.bart import BART_NAMES, BartArchitecture
from seq2attn.pretrained.family import ImportOptions
from seq2attn.pretrained.multilingual import MODEL_FILE, Multilingual


class M2M100Architecture(BartArchitecture):
    """Fields of `config.json` that define a model of this kind, with their names there."""

    scale_embedding: bool = True


class M2M100(Multilingual):
    """Pre-norm layers; tensor2tensor's sinusoids, of which the first token has the one after that of padding."""

    model_type = "m2m_100"
    architecture_class = M2M100Architecture
    names = replace(
        BART_NAMES, bias="", sinusoids=tuple(f"model.{side}coder.embed_positions.weights" for side in ("en", "de"))
    )

    def layers(self, options: ImportOptions) -> dict[str, Any]:
        """Settings that encoder and decoder share: the order of norms and the positions."""
        return {"norm_order": "pre", "position_offset": self.architecture.pad_token_id + 1}

    def original_tokenizer(self, options: ImportOptions) -> Any:
        """The original tokenizer with the language of the sources."""
        from transformers import M2M100Tokenizer, NllbTokenizer

        if not self.vocabulary.is_file():
            return self.load_tokenizer(NllbTokenizer, src_lang=options.source_language)
        files = [str(path) for path in (self.vocabulary, self.folder / MODEL_FILE)]
        codes = self.tokenizer_settings.get("language_codes", "m2m100")
        return M2M100Tokenizer(*files, src_lang=options.source_language, language_codes=codes)
