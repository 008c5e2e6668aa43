"""A YAML file to typed, frozen configs, and every mistake in it to its place."""
