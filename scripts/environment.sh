# Sourced by the other scripts: a virtual environment in .venv with seq2attn and all that the scripts need, made when it is
# not there.
# PYTHON chooses the interpreter (Python 3.11 or later).
if [ ! -x .venv/bin/pytest ] || [ setup.cfg -nt .venv/bin/seq2attn ] || [ constraints.txt -nt .venv/bin/seq2attn ]; then
    echo "making the environment in .venv" >&2
    "${PYTHON:-python3}" -m venv .venv
    # torch by itself and first: a later command finds it there, and takes no other build of it.
    .venv/bin/python -m pip install --quiet --constraint constraints.txt torch
    .venv/bin/python -m pip install --quiet --constraint constraints.txt --editable '.[dev,docs]'
    touch .venv/bin/seq2attn
fi
PATH="$PWD/.venv/bin:$PATH"
