"""What a file claims is refused before memory is allocated for it: a small multiple of the file's size at most."""

import json
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

import seq2attn
from seq2attn.data.prepare import prepare
from seq2attn.data.prepared_data import load_prepared
from seq2attn.errors import RunError
from seq2attn.experiment.run_directory import RunDirectory
from seq2attn.io.files import FORMAT_VERSION, parse_json
from seq2attn.io.hf_folder import read_hf_specs
from seq2attn.io.weights import METADATA_KEY, load_tensors, read_metadata, read_tensor_specs
from seq2attn.pretrained.marian_weights import read_marian_weights
from seq2attn.tokenizers.sentencepiece_model import read_pieces
from tests.support.memory import refusal
from tests.support.untrained_runs import CONFIG, TRANSFORMER_CONFIG, untrained_run

REPEATED = 10**7
"""Bytes of the repeated part of most files."""


def repeat(part: str, size: int = REPEATED) -> str:
    return part * (size // len(part))


def write_header(path: Path, header: str) -> None:
    path.write_bytes(struct.pack("<Q", len(header)) + header.encode())


def with_metadata(text: str) -> str:
    return json.dumps({"__metadata__": {METADATA_KEY: text}})


HEADERS = {
    "tensors": lambda: "{" + ",".join(
        f'"{number}":{{"dtype":"F32","shape":[0],"data_offsets":[0,0]}}' for number in range(100_000)
    ) + "}",
    "lists": lambda: with_metadata(f'{{"source": [{repeat("[],")}[]]}}'),
    "objects": lambda: with_metadata(f'{{"source": [{repeat("{},")}1]}}'),
    "keys": lambda: with_metadata(f'{{"source": [{repeat(chr(123) + chr(34) * 2 + ":0},")}1]}}'),
}  # fmt: skip


@pytest.mark.parametrize("name", HEADERS)
def test_headers_of_weights(tmp_path: Path, name: str) -> None:
    run = untrained_run(tmp_path)
    write_header(run.weights_path, HEADERS[name]())
    size = run.weights_path.stat().st_size
    readers: list[Callable[[], object]] = [lambda: seq2attn.load(run.folder), lambda: read_metadata(run.weights_path)]
    if name == "tensors":
        for read in (read_tensor_specs, load_tensors, lambda path: read_hf_specs(path.parent)):
            readers.append(lambda read=read: read(run.weights_path))
    for one in readers:
        assert str(run.weights_path) in refusal(one, size)


JSON = {
    "lists": lambda: f"[{repeat('[],')}[]]",
    "objects": lambda: f"[{repeat('{},')}1]",
    "keys": lambda: f"[{repeat(chr(123) + chr(34) * 2 + ':0},')}1]",
}


@pytest.mark.parametrize("name", JSON)
@pytest.mark.parametrize("file", ["run.json", "source/vocabulary.json", "source/tokenizer.json"])
def test_json_of_a_run(tmp_path: Path, name: str, file: str) -> None:
    run = untrained_run(tmp_path)
    path = run.folder / file
    path.write_text(f'{{"format": {FORMAT_VERSION}, "tokens": {JSON[name]()}}}', encoding="utf-8")
    assert str(path) in refusal(lambda: seq2attn.load(run.folder), path.stat().st_size)


def test_ids_in_yaml(tmp_path: Path) -> None:
    path = tmp_path / "vocab.yml"
    path.write_text("".join(f"{number}: 1\n" for number in range(200_000)), encoding="utf-8")
    assert "expected 0" in refusal(lambda: read_pieces(path), path.stat().st_size)


def marian_bin(path: Path, headers: list[tuple[int, int, int]], data: bytes, claimed: int | None = None) -> None:
    """A file of arrays: kind, number of columns, and bytes that the header says."""
    names = [f"encoder_l{number}_W\0".encode() for number in range(len(headers))]
    parts = [struct.pack("<2Q", 1, len(headers) if claimed is None else claimed)]
    parts += [
        struct.pack("<4Q", len(name), kind, 2, size) for name, (kind, _, size) in zip(names, headers, strict=True)
    ]
    parts += [*names, *(struct.pack("<2i", 1, columns) for _, columns, _ in headers), struct.pack("<Q", 0), data]
    path.write_bytes(b"".join(parts))


@pytest.mark.parametrize("kind", [0x101, 0x402, 0x404, 0x4101])
@pytest.mark.parametrize("size", [0, 1000])
def test_arrays_over_the_same_bytes(tmp_path: Path, kind: int, size: int) -> None:
    marian_bin(tmp_path / "model.bin", [(kind, 10**6, size)] * 40, bytes(4 * 10**6 + 4))
    message = refusal(lambda: read_marian_weights(tmp_path / "model.bin"), 4 * 10**6)
    assert "is not a complete model of Marian (`encoder_l0_W` has the shape (1, 1000000)" in message


@pytest.mark.parametrize("claimed", [2**15 + 1, 2**40])
def test_the_number_of_arrays(tmp_path: Path, claimed: int) -> None:
    marian_bin(tmp_path / "model.bin", [(0x404, 1, 4)] * min(claimed, 2**15 + 1), bytes(8), claimed)
    assert "arrays" in refusal(lambda: read_marian_weights(tmp_path / "model.bin"), 2**21)


def test_values_that_a_header_escapes(tmp_path: Path) -> None:
    text = f"[{repeat('[],', 2**22)}1]"
    for one in (text, text.encode()):
        with pytest.raises(RunError, match="it: has more than the 2,097,152 values"):
            parse_json(one, "it", "mend it")


def change(run: RunDirectory, key: str, value: int) -> None:
    config = yaml.safe_load(run.config_path.read_text(encoding="utf-8"))
    *above, last = key.split(".")
    section = config
    for name in above:
        section = section[name]
    section[last] = value
    run.config_path.write_text(yaml.safe_dump(config), encoding="utf-8")


@pytest.mark.parametrize("value", [10**5, 10**10])
@pytest.mark.parametrize("config", [CONFIG, TRANSFORMER_CONFIG])
@pytest.mark.parametrize("side", ["encoder", "decoder"])
def test_the_number_of_layers(tmp_path: Path, value: int, config: str, side: str) -> None:
    """Each layer of a claimed million would be built, without memory for weights, but with some for itself."""
    run = untrained_run(tmp_path, config)
    change(run, f"model.{side}.layers", value)
    assert "less than or equal to 1000" in refusal(lambda: seq2attn.load(run.folder), 2**15)


PREPARED = {
    "references": ({"references": 10**12}, "dev-1.jsonl: is missing"),
    "no number": ({"references": "two"}, "prepared.json: has no counts"),
    "pairs": ({"corpora": [{"report": {"num_read": 9, "num_kept": n}} for n in (10**10, 3 - 10**10)]}, "has no counts"),
    "repeat": ({"corpora": [{"report": {"num_read": 3, "num_kept": 3}, "repeat": 1e12}]}, "has no counts"),
}


@pytest.mark.parametrize("name", PREPARED)
def test_counts_of_prepared_text(tmp_path: Path, name: str) -> None:
    changes, message = PREPARED[name]
    run = untrained_run(tmp_path)
    config = run.load_config()
    prepare(config.data, config.tokenizer, run.folder, lambda _: None)
    path = run.folder / "data/prepared.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(content | changes), encoding="utf-8")
    assert message in refusal(lambda: load_prepared(run.folder), 2**15)
    path.write_text(json.dumps(content), encoding="utf-8")
    assert load_prepared(run.folder)
