"""Attention: any score function with any alignment function."""
