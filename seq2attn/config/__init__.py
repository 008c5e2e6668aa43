"""Typed, frozen configs from YAML files. Errors have their place in the file."""
