"""Reproduction of published numbers: recipes, their trainings, and a report."""
