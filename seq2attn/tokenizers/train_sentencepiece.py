"""SentencePiece training as a separate program: lines on standard input, the model on standard output.

`subwords.py` runs it in a process, because training is one call into C++ during which Python ignores Ctrl-C. The
argument is the options as JSON. It imports nothing from this package. Exit code 1: the reason is on standard error.
"""

import json
import sys

from sentencepiece import SentencePieceTrainer


def main() -> int:
    """Training; returns the exit code."""
    lines = (line.decode()[:-1] for line in sys.stdin.buffer)
    try:
        SentencePieceTrainer.train(sentence_iterator=lines, model_writer=sys.stdout.buffer, **json.loads(sys.argv[1]))
    except RuntimeError as error:
        sys.stderr.write(str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
