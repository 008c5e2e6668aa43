"""ONNX as an export target: export, quantization, and loading."""

from pathlib import Path

from tqdm import tqdm

from seq2attn.config.base import FieldError
from seq2attn.experiment.experiment_config import ExperimentConfig
from seq2attn.experiment.run_directory import RunDirectory
from seq2attn.exporters.export_target import ExportTarget
from seq2attn.inference.engines.onnx_engine import DTYPE_KEY, ENCODE_FILE, ENGINE_NAME, STEP_FILE, import_package, quiet

QUANTIZED_OPERATORS = "MatMul", "Gather", "LSTM"
"""Linear layers, embeddings and LSTM encoders; ONNX Runtime has no fast int8 operator for others."""


class OnnxTarget(ExportTarget):
    """Export of any model by PyTorch's ONNX exporter."""

    name = hub_library = ENGINE_NAME
    dtypes = ("float32", "int8")

    def unsupported(self, experiment: ExperimentConfig) -> list[FieldError]:
        """No option; a custom component that cannot be exported is found by `export`."""
        for package in ("onnx", "onnxscript", "onnxruntime"):
            import_package(package)
        return []

    def export(self, run: RunDirectory, folder: Path, dtype: str) -> None:
        """Write both graphs. Raises ConfigError for a component that cannot be exported."""
        from seq2attn.exporters.onnx_graphs import build_graphs

        paths = {"encoder": folder / ENCODE_FILE, "decoder": folder / STEP_FILE}
        parts = list(zip(paths.items(), build_graphs(run.load().model), strict=True))
        for (part, path), graph in (progress := tqdm(parts, unit=" graphs", disable=None)):
            progress.set_description(f"{part}: exporting")
            try:
                graph.save(path)
            except OSError:  # such as a full disk
                raise
            except Exception as error:  # of any class, as the exporter runs the component
                reason = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
                message = f"this {part} cannot be exported to {ENGINE_NAME}: {reason}"
                raise run.config_error([FieldError(f"model.{part}.kind", message)]) from error
            if dtype == "int8":
                progress.set_description(f"{part}: quantizing")
                quantize(path)


def quantize(path: Path) -> None:
    """Quantize the weights of a graph to int8; its activations are quantized when they are computed.

    Weights have 7 bits: with 8, sums of products saturate on CPUs without VNNI instructions.
    """
    from onnxruntime.quantization import quantize_dynamic

    model = import_package("onnx").load(path)
    model.metadata_props.add(key=DTYPE_KEY, value="int8")
    with quiet():
        quantize_dynamic(model, path, list(QUANTIZED_OPERATORS), per_channel=True, reduce_range=True)
