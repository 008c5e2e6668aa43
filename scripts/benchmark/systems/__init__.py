"""All that can be measured."""

from benchmark.systems.base import System
from benchmark.systems.libraries import CTranslate2, HuggingFace, Plain
from benchmark.systems.opennmt import Eole, OpenNMT
from benchmark.systems.others import Fairseq, JoeyNMT
from benchmark.systems.ours import Ours, OursCTranslate2

PEERS: dict[str, type[System]] = {
    kind.name: kind for kind in (HuggingFace, Plain, OpenNMT, Eole, JoeyNMT, Fairseq, CTranslate2)
}

ENGINES: dict[str, type[System]] = {"ctranslate2": OursCTranslate2}
"""Other engines of ours, asked for by their names: CTranslate2's is measured beside CTranslate2 itself."""

__all__ = ["ENGINES", "PEERS", "Ours", "System"]
