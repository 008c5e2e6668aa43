"""Models of Hugging Face as runs."""
