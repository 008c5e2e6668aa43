"""One search for all decoders."""
