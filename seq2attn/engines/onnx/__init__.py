"""ONNX Runtime as an engine: any model as two ONNX graphs, with float32 or int8 weights."""
