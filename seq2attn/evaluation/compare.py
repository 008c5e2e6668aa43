"""Comparison of the translations of several runs: the work of `seq2attn compare`.

The translations are those that `seq2attn evaluate` wrote. Shapes of texts: a line for each sentence of a test set.
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any, cast

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from seq2attn.data.corpus import read_text_pairs
from seq2attn.data.prepared_data import TRAIN, text_path
from seq2attn.errors import UserError
from seq2attn.evaluation.compare_report import FrequencyBucket, RunComparison, SentenceDifference, SetComparison
from seq2attn.evaluation.evaluate import EvaluationSet, read_sets, read_translations, test_sets
from seq2attn.experiment.run_directory import RunDirectory
from seq2attn.metrics.significance import paired_scores
from seq2attn.metrics.translation_metric import present_references
from seq2attn.options.runs import CompareOptions
from seq2attn.tokenizers.normalize import segment_words
from seq2attn.tokenizers.vocabulary import mark_unknown

DEFAULT_OPTIONS = CompareOptions()
FREQUENCIES = (0, 1, 4, 9, 99, 999)
"""Largest counts of the buckets of words by frequency."""


def compare(*runs: Path | str, options: CompareOptions = DEFAULT_OPTIONS) -> RunComparison:
    """Comparison of evaluated runs with the first of them, by its metrics.

    Raises RunError for a run that has not translated one of the test sets, or has translated another text, and
    UserError for less than two runs, or one that does not know the tag.
    """
    if len(runs) < 2 or len({Path(run).resolve() for run in runs}) < len(runs):
        raise UserError("give two or more different run directories")
    source, tag = options.source and Path(options.source), options.tag
    references = [*map(Path, options.references)]
    directories = {str(run): RunDirectory(Path(run)) for run in runs}
    for directory in directories.values() if tag is not None else ():
        directory.load_tokenizers().source.check_tag(tag)
    experiments = [directory.load_config() for directory in directories.values()]
    configs = dict(zip(directories, (experiment.model_dump(mode="json") for experiment in experiments), strict=True))
    given = ("--source", source), *(("--reference", reference) for reference in references), ("--tag", tag)
    words = [word for option, value in given if value is not None for word in (option, str(value))]
    arguments = [*directories, *words]  # a test set may be one of some of the runs only
    training_text = text_path(Path(runs[0]) / TRAIN)
    compared = []
    for texts in read_sets(test_sets(experiments, source, references, tag), experiments[0].evaluation):
        outputs = {run: read_translations(directory, texts, arguments) for run, directory in directories.items()}
        compared.append(_compare(texts, outputs, training_text, options))
        for run, (_, settings) in outputs.items():
            configs[run][f"settings of {texts.name}"] = settings
    return RunComparison(tuple(directories), options.test, _seed_groups(configs), tuple(compared))


def _compare(
    test_set: EvaluationSet,
    outputs: Mapping[str, tuple[Sequence[str], dict[str, Any]]],
    training_text: Path,
    options: CompareOptions,
) -> SetComparison:
    """Comparison of the outputs of all runs: translations and settings."""
    metrics = test_set.metrics
    translations = {run: lines for run, (lines, _) in outputs.items()}
    return SetComparison(
        name=test_set.name,
        sentences=len(test_set.pairs),
        note=metrics.note,
        settings=_differences({run: settings for run, (_, settings) in outputs.items()}),
        scores=paired_scores(metrics, translations, test_set.references, metrics.names, options.test),
        by_length={run: test_set.bleu_by_length(lines) for run, lines in translations.items()},
        by_frequency=_by_frequency(test_set, translations, training_text),
        examples=_examples(test_set, translations, options.examples),
    )


def _differences(settings: Mapping[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The settings that are not equal in all runs, and their value in each."""
    keys = dict.fromkeys(key for values in settings.values() for key in values)
    by_key = {key: {run: values.get(key) for run, values in settings.items()} for key in keys}
    different = {key: values for key, values in by_key.items() if len({*map(repr, values.values())}) > 1}
    if "search.kind" in different:  # whose other options are not those of the other kind
        shared = set[str].intersection(*({*values} for values in settings.values()))
        different = {key: values for key, values in different.items() if key in shared or not key.startswith("search.")}
    return different


def _words(bleu: BLEU, text: str) -> list[str]:
    """The words that BLEU counts."""
    return cast("str", bleu.tokenizer(text.lower() if bleu.lowercase else text)).split()


def _by_frequency(
    test_set: EvaluationSet, translations: Mapping[str, Sequence[str]], training_text: Path
) -> list[FrequencyBucket]:
    """F1 of words by their frequency in training (Neubig et al. 2019, section 3); of the first references.

    Empty without the training text, whose target side is counted.
    """
    bleu = cast("BLEU", test_set.metrics.by_name["bleu"])
    pairs = read_text_pairs(training_text) if training_text.is_file() else ()
    counts = Counter(word for _, target in pairs for word in _words(bleu, target))
    if not counts:
        return []

    def totals(sentences: Sequence[Counter[str]]) -> Counter[int]:
        return Counter(bisect_left(FREQUENCIES, counts[word]) for words in sentences for word in words.elements())

    references = [Counter(_words(bleu, reference)) for reference in _first_references(test_set)]
    in_references = totals(references)
    shares = dict[str, dict[int, float]]()
    for run, lines in translations.items():
        outputs = [Counter(_words(bleu, mark_unknown(line))) for line in lines]
        in_outputs = totals(outputs)
        in_both = totals([output & reference for output, reference in zip(outputs, references, strict=True)])
        shares[run] = {
            bucket: 200 * in_both[bucket] / max(number + in_outputs[bucket], 1)
            for bucket, number in in_references.items()
        }
    return [
        FrequencyBucket(
            lowest=FREQUENCIES[bucket - 1] + 1 if bucket else 0,
            highest=FREQUENCIES[bucket] if bucket < len(FREQUENCIES) else None,
            count=in_references[bucket],
            f1={run: share[bucket] for run, share in shares.items()},
        )
        for bucket in sorted(in_references)
    ]


def _examples(
    test_set: EvaluationSet, translations: Mapping[str, Sequence[str]], count: int
) -> list[SentenceDifference]:
    """The sentences whose translations differ most in chrF, the largest difference first."""
    chrf = cast("CHRF", test_set.metrics.by_name["chrf"])
    scored = []
    for line, (source, reference) in enumerate(zip(test_set.sources, _first_references(test_set), strict=True)):
        lines = {run: texts[line] for run, texts in translations.items()}
        if len({*lines.values()}) > 1:
            references = [stream[line] for stream in test_set.references]
            scores = {run: chrf.sentence_score(text, references).score for run, text in lines.items()}
            words = {run: _marked_words(text, reference) for run, text in lines.items()}
            scored.append(SentenceDifference(line + 1, source, reference, scores, words))
    return sorted(scored, key=lambda example: min(example.chrf.values()) - max(example.chrf.values()))[:count]


def _first_references(test_set: EvaluationSet) -> list[str]:
    """The first reference of each sentence that is not missing."""
    lines = map(present_references, zip(*test_set.references, strict=True))
    return [next(text for text in line if text is not None) for line in lines]


def _marked_words(text: str, reference: str) -> list[tuple[str, bool]]:
    """The words of a translation, with True for those of the longest matching parts of the reference.

    Each has the space after it; in scripts without spaces, each letter is a word.
    """
    words = segment_words(text)
    output = [mark_unknown(word.rstrip()) for word in words]
    expected = [word.rstrip() for word in segment_words(reference)]
    blocks = SequenceMatcher(None, expected, output, autojunk=False).get_matching_blocks()
    matching = {block.b + offset for block in blocks for offset in range(block.size)}
    return [(word, place in matching) for place, word in enumerate(words)]


def _seed_groups(configs: Mapping[str, dict[str, Any]]) -> tuple[tuple[str, ...], ...]:
    """Groups of runs with equal configs and settings but for `run_dir` and `training.seed`."""
    groups = defaultdict[str, dict[int, str]](dict)
    for run, config in configs.items():
        others = {**config, "run_dir": None, "training": {**config["training"], "seed": None}}
        groups[repr(others)].setdefault(config["training"]["seed"], run)
    return tuple(tuple(group.values()) for group in groups.values() if len(group) > 1)
