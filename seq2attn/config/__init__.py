"""Typed, frozen configs from YAML files, with the place of every mistake."""
