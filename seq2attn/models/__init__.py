"""The translation model and how it is built."""

from seq2attn.models.build import build_model
from seq2attn.models.model_config import EmbeddingsConfig, ModelConfig
from seq2attn.models.seq2seq import Seq2Seq

__all__ = ["EmbeddingsConfig", "ModelConfig", "Seq2Seq", "build_model"]
