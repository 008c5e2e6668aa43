"""CTranslate2 as an engine: Transformers in C++, with float32, float16 or int8 weights."""
