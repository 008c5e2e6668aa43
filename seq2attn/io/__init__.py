"""Files, text and the terminal."""
