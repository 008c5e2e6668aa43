"""Translation by the API of CTranslate2.

ctranslate2 translate DATA MODEL --source FILE --output FILE --beam N --batch N --most N --type T
    --device D --workers W THREADS
"""

from __future__ import annotations

import argparse
from pathlib import Path

import ctranslate2

from benchmark.programs.writing import translate_all


def translate(options: argparse.Namespace) -> None:
    """Translate with its batching, or one sentence at a time for `--times`."""
    workers, threads = options.workers
    translator = ctranslate2.Translator(
        str(options.model),
        device=options.device,
        compute_type=options.type,
        inter_threads=workers,
        intra_threads=threads,
    )
    sources = [line.split() for line in options.source.read_text("utf-8").split("\n")[:-1]]

    def translate_batch(batch: list[list[str]]) -> list[str]:
        results = translator.translate_batch(
            batch,  # the exported model adds EOS
            beam_size=options.beam,
            max_decoding_length=options.most,
            max_batch_size=1 if options.times else options.sentences,
            batch_type="examples",
        )
        return [" ".join(result.hypotheses[0]) for result in results]

    options.sentences = options.batch
    if not options.times:
        options.batch = len(sources)
    translate_all(sources, translate_batch, options)


def argument_parser() -> argparse.ArgumentParser:
    """Options of a translation."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("verb", choices=["translate"])
    parser.add_argument("data", type=Path)
    parser.add_argument("model", type=Path)
    for name, kind in (("source", Path), ("output", Path), ("beam", int), ("batch", int), ("most", int)):
        parser.add_argument(f"--{name}", type=kind, required=True)
    parser.add_argument("--type", required=True)
    parser.add_argument("--device", choices=["cpu", "cuda"], required=True)
    parser.add_argument("--workers", type=int, nargs=2, required=True)
    parser.add_argument("--times", type=Path)
    return parser


def main() -> None:
    translate(argument_parser().parse_args())


if __name__ == "__main__":
    main()
