"""A small grammar of German and English that writes sentence pairs, one meaning at a time."""
