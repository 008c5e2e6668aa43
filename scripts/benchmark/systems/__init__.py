"""All systems that can be measured."""

from benchmark.systems.base import System
from benchmark.systems.libraries import CTranslate2, HuggingFace, Plain
from benchmark.systems.opennmt import Eole, OpenNMT
from benchmark.systems.others import Fairseq, JoeyNMT
from benchmark.systems.ours import Ours, OursCTranslate2, OursOnnx, OursOnnxInt8

PEERS: dict[str, type[System]] = {
    cls.name: cls for cls in (HuggingFace, Plain, OpenNMT, Eole, JoeyNMT, Fairseq, CTranslate2)
}

ENGINES: dict[str, type[System]] = {"ctranslate2": OursCTranslate2, "onnx": OursOnnx, "onnx-int8": OursOnnxInt8}
"""Our other engines by name, measured beside the peer of that name."""

__all__ = ["ENGINES", "PEERS", "Ours", "System"]
