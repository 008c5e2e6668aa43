#!/usr/bin/env bash
# The whole test command: linter, formatter, types, tests. Arguments go to pytest (`-m slow` runs the long tests).
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/environment.sh

ruff check .
ruff format --check .
mypy
NO_MKDOCS_2_WARNING=1 python -m mkdocs build --strict --site-dir .site
# Temporary files in memory, where it has room: a disk waits at each of the many checkpoints.
if [ "$(df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 { print $4 }')" -gt 4000000 ] 2>/dev/null; then export TMPDIR=/dev/shm; fi
# Two processes share the tests, and who is done first takes from the other.
python -m pytest -n 2 --dist worksteal "$@"
