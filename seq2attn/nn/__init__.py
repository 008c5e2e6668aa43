"""Layers that know neither source nor target."""
