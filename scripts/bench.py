"""Benchmark of training and translation beside libraries: `python scripts/bench.py train --model t`."""

import sys

from benchmark.command import main

if __name__ == "__main__":
    sys.exit(main())
