"""Statistics of corpora, and warnings about them."""
