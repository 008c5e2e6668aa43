"""SentencePiece training as a program of its own: lines on standard input, the model on standard output.

A process, as its training is one call into C++ during which Python does not react to Ctrl-C. It imports nothing of ours
and is run by `subwords.py`, with the options as JSON. Exit code 1: the reason is on standard error.
"""

from __future__ import annotations

import json
import sys

from sentencepiece import SentencePieceTrainer


def main() -> int:
    """Trains; the exit code."""
    lines = (line.decode()[:-1] for line in sys.stdin.buffer)
    try:
        SentencePieceTrainer.train(sentence_iterator=lines, model_writer=sys.stdout.buffer, **json.loads(sys.argv[1]))
    except RuntimeError as error:
        sys.stderr.write(str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
