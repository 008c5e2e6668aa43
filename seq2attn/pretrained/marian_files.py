"""Marian models in Marian's own files, such as the originals of OPUS-MT and the small models of Bergamot.

decoder.yml             `models` and `vocabs`, which are searched in the same folder, and the search
model.npz, model.bin    weights, with the options of the training
vocab.spm               SentencePiece model whose ids are those of the tables, for each side or both, or
vocab.yml               ids of the pieces of source.spm and target.spm
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, PositiveInt

from seq2attn.config.base import Config, NumLayers
from seq2attn.config.yaml_reader import parse_yaml
from seq2attn.errors import DataError
from seq2attn.io.files import FILE_HINT, read_bytes
from seq2attn.io.hf_folder import validate_fields
from seq2attn.options.runs import ImportOptions
from seq2attn.pretrained.family import Encode, Generation, Size, VocabularyFile
from seq2attn.pretrained.hf_weights import Weights
from seq2attn.pretrained.marian import SOURCE_MODEL, TARGET_MODEL, Marian, MarianArchitecture
from seq2attn.pretrained.marian_weights import read_marian_weights, to_hf_tensors
from seq2attn.tokenizers.sentencepiece_model import load_processor, read_model_pieces, read_pieces

PATTERNS = ("decoder.yml", "*.decoder.yml", "config*.yml")
"""Names of the decoder's config, as Marian's training, OPUS-MT and Bergamot write it."""


class MarianOptions(Config):
    """Options of a training that define the model; dashes of their names are underscores."""

    type: Literal["transformer"]
    dim_emb: Size
    dim_vocabs: tuple[Size, Size]
    enc_depth: NumLayers
    dec_depth: NumLayers
    dec_cell: str = "gru"
    transformer_decoder_autoreg: Literal["self-attention", "rnn"] = "self-attention"
    transformer_heads: Size
    transformer_dim_ffn: Size
    transformer_ffn_activation: Literal["relu", "swish"]
    transformer_ffn_depth: Literal[2] = 2
    transformer_preprocess: Literal[""]
    transformer_postprocess: Literal["dan"]
    transformer_postprocess_emb: Literal["", "d"] = "d"
    transformer_postprocess_top: Literal[""] = ""
    transformer_attention_mask: Literal["default"] = "default"
    transformer_decoder_dim_ffn: Literal[0] = 0
    transformer_decoder_ffn_depth: Literal[0] = 0
    transformer_disable_position_embeddings: Literal[False] = False
    transformer_no_affine: Literal[False] = False
    transformer_no_projection: Literal[False] = False
    transformer_rnn_projection: Literal[False] = False
    transformer_tied_layers: tuple[()] = ()
    transformer_train_position_embeddings: Literal[False] = False
    lemma_dim_emb: Literal[0] = 0
    right_left: Literal[False] = False
    tied_embeddings: bool = False
    tied_embeddings_src: bool = False
    tied_embeddings_all: bool = False


class MarianDecoding(Config):
    """The files of a model and its search."""

    models: tuple[str] = Field(min_length=1, max_length=1)
    vocabs: tuple[str, str]
    beam_size: PositiveInt = 12
    normalize: float = Field(0.0, ge=0, le=10)
    max_length_factor: float = Field(3.0, gt=0, le=1000)
    word_penalty: Literal[0] = 0


class MarianFiles(Marian):
    """Marian's own files."""

    def __init__(self, file: Path, options: ImportOptions) -> None:
        """The model of a decoder's config. Raises UserError with the file and the key that cannot be used."""
        self.folder = file.parent
        self.options = options
        self.tokenizer_settings = {}
        content = parse_yaml(read_bytes(file, FILE_HINT), file)
        decoding = validate_fields(MarianDecoding, _with_underscores(content), file)
        self.vocabularies = tuple(self.folder / Path(name).name for name in decoding.vocabs)
        self.generation = Generation(
            num_beams=decoding.beam_size,
            length_penalty=decoding.normalize,
            early_stopping=True,
            max_length_ratio=decoding.max_length_factor,
        )
        self.file = self.folder / Path(decoding.models[0]).name
        marian_options, self.arrays = read_marian_weights(self.file)
        self.marian_options = fields = validate_fields(MarianOptions, _with_underscores(marian_options), self.file)
        if self.is_ssru and fields.dec_cell != "ssru":
            raise DataError(f"{self.file}: `dec_cell` is `{fields.dec_cell}`, expected `ssru`")
        self.has_original = not self.is_ssru
        self.pieces = [*map(_read_vocabulary, self.vocabularies, fields.dim_vocabs)]
        pad = max(fields.dim_vocabs)
        self.architecture = MarianArchitecture(
            vocab_size=pad + 1,
            pad_token_id=pad,  # a row of zeros, with which Marian starts
            decoder_start_token_id=pad,
            eos_token_id=0,
            d_model=fields.dim_emb,
            encoder_layers=fields.enc_depth,
            decoder_layers=fields.dec_depth,
            encoder_attention_heads=fields.transformer_heads,
            decoder_attention_heads=fields.transformer_heads,
            encoder_ffn_dim=fields.transformer_dim_ffn,
            decoder_ffn_dim=fields.transformer_dim_ffn,
            activation_function=fields.transformer_ffn_activation,
            scale_embedding=True,
            share_encoder_decoder_embeddings=fields.tied_embeddings_all or fields.tied_embeddings_src,
            tie_word_embeddings=fields.tied_embeddings_all or fields.tied_embeddings,
        )

    @property
    def is_ssru(self) -> bool:
        """True if the decoder has recurrent units in the place of its self-attention."""
        return self.marian_options.transformer_decoder_autoreg == "rnn"

    @property
    def own_options(self) -> tuple[str, ...]:
        """Those of Marian; punctuation is normalized for vocabularies in `.yml`, as those of OPUS-MT are."""
        return ("positions", *["punctuation"] * any(file.suffix != ".spm" for file in self.vocabularies))

    def weights(self, *, allow_pickle: bool) -> Weights:
        """The weights, with the names of Hugging Face."""
        return Weights.in_memory(to_hf_tensors(self.file, self.arrays, self.architecture.vocab_size))

    def model(self) -> dict[str, Any]:
        """The model section."""
        section = super().model()
        if self.is_ssru:
            unused = ("heads", "attention_dropout")
            decoder = {key: value for key, value in section["decoder"].items() if key not in unused}
            section["decoder"] = {**decoder, "kind": "ssru"}
        return section

    def tokenizers(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The tokenizer sections of both sides."""
        sections = []
        for vocabulary, model in zip(self.vocabularies, (SOURCE_MODEL, TARGET_MODEL), strict=True):
            section: dict[str, Any] = {"kind": "sentencepiece", "path": vocabulary.resolve()}
            if vocabulary.suffix != ".spm":
                section |= {"path": self.folder.resolve() / model, "vocabulary": vocabulary.resolve()}
                section |= {"punctuation": "und" if self.options.punctuation else None}
            sections.append(section)
        return sections[0] | {"tag": self.language_tag(self.pieces[0])}, sections[1]

    def token_ids(self) -> tuple[VocabularyFile, VocabularyFile]:
        """A vocabulary and its id of each token, for both sides, up to that of the row of zeros."""
        pad = self.architecture.pad_token_id
        source, target = (
            (file, {**ids, **{f"<row {id}>": id for id in range(len(ids), pad)}, "<pad>": pad})
            for file, ids in zip(self.vocabularies, self.pieces, strict=True)
        )
        return source, target

    def original_encoder(self) -> Encode:
        """SentencePiece by itself."""
        section, _ = self.tokenizers()
        processor = load_processor(read_bytes(section["path"], FILE_HINT), section["path"])
        ids = self.token_ids()[0][1]
        prefix = [] if section["tag"] is None else [section["tag"]]
        return lambda line: [
            ids.get(piece, ids["<unk>"]) for piece in (*prefix, *processor.encode(line, out_type=str), "</s>")
        ]


def find_marian_files(folder: Path) -> Path | None:
    """The config of the decoder in a folder; None without one. Raises DataError for several."""
    files = sorted({file for pattern in PATTERNS for file in folder.glob(pattern)})
    if len(files) > 1:
        names = ", ".join(file.name for file in files)
        raise DataError(f"{folder}: has several models of Marian, {names}; put one of them into another folder")
    return files[0] if files else None


def _read_vocabulary(file: Path, size: int) -> dict[str, int]:
    """The id of each piece. Raises UserError for a file that cannot be read, or does not have `size` pieces."""
    ids = read_model_pieces(file) if file.suffix == ".spm" else read_pieces(file)
    if len(ids) != size:
        raise DataError(f"{file}: has {len(ids)} entries, and the model {size} by its `dim-vocabs`")
    return ids


def _with_underscores(content: Mapping[Any, Any]) -> dict[str, Any]:
    return {str(key).replace("-", "_"): value for key, value in content.items()}
