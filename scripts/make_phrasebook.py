"""Write the phrasebook corpus, or check that its files are the output of the grammar."""

import argparse
import sys
from pathlib import Path

from phrasebook.corpus import build

HOME = Path(__file__).resolve().parent.parent / "data" / "phrasebook"


def main(arguments: list[str] | None = None) -> int:
    """The command; returns 1 if a checked file differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=HOME, help="the folder of the corpus (%(default)s)")
    parser.add_argument("--check", action="store_true", help="compare the files without writing")
    options = parser.parse_args(arguments)
    files = build().files()
    if options.check:
        paths = {options.output / name: content for name, content in files.items()}
        different = [path for path, content in paths.items() if not path.is_file() or path.read_bytes() != content]
        for path in different:
            print(f"{path} differs from the output of the grammar; run {Path(__file__).name}", file=sys.stderr)
        return 1 if different else 0
    options.output.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (options.output / name).write_bytes(content)
    return 0


if __name__ == "__main__":
    sys.exit(main())
