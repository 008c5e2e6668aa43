"""The config of an experiment, and its run directory."""
