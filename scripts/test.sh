#!/usr/bin/env bash
# The whole test command: linter, formatter, types, tests. Arguments go to pytest (`-m slow` runs the long tests).
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/environment.sh

ruff check .
ruff format --check .
mypy
OMP_NUM_THREADS=${OMP_NUM_THREADS:-1} python -m pytest "$@"
