"""Lines of text to translations."""
