"""Lines of text to ids and back: vocabularies and the tokenizers."""
