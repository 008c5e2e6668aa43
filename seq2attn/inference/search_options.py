"""The search of one call: that of a config with the options of the call."""

from pathlib import Path

from seq2attn.config.load import check_options
from seq2attn.config.yaml_reader import YAMLReader
from seq2attn.errors import UserError
from seq2attn.options import TranslationOptions
from seq2attn.search.search_config import SampleConfig, SearchConfig, beam_search, greedy_search, mbr_sampling

MAX_SEARCH_TOKENS = 2**16
"""Tokens that a search may keep for a sentence, over all hypotheses, unless the user set the search."""


def resolve_search(search: SearchConfig, options: TranslationOptions) -> SearchConfig:
    """The `search` of a config with the options of a call; settings of all kinds are kept, and others of its kind.

    Raises UserError when two kinds of search are given, for a beam that its groups do not divide, and for
    overrides of the same key or that the kind of search lacks.
    """
    given = {"greedy": options.greedy, "beam": options.beam is not None, "mbr": options.mbr is not None}
    if len(names := [f"``{name}``" for name, is_given in given.items() if is_given]) > 1:
        raise UserError(f"{' and '.join(names)} exclude each other")
    same = {"search.beam_size": ("beam", options.beam), "search.num_samples": ("mbr", options.mbr)}
    check_options(options.overrides, same | {"search.lengths.long_inputs": ("long_inputs", options.long_inputs)})
    if options.long_inputs is not None:
        search = search.with_value("lengths.long_inputs", options.long_inputs)
    resolved = search
    if options.mbr is not None:
        resolved = mbr_sampling(search, options.mbr)
    elif options.greedy:
        resolved = greedy_search(search)
    elif options.beam is not None:
        resolved = beam_search(search, options.beam)
    if resolved.kind != search.kind:
        _check_fields(options, resolved, names[0])
    return resolved


def _check_fields(options: TranslationOptions, search: SearchConfig, name: str) -> None:
    """Raises UserError for an override of the kind of search, or of a field that the kind of an option lacks."""
    for override in options.overrides:
        section = YAMLReader(Path()).parse_override(override).child("search")
        if section is not None and not section.content.keys() <= type(search).model_fields.keys() - {"kind"}:
            raise UserError(f"``overrides={override}``: has no effect with {name}")


def check_size(search: SearchConfig, options: TranslationOptions, config: Path) -> None:
    """Refuse a search of a run's `config` that is larger than any machine has time and memory for.

    A search that the user set by `options`, such as `search.beam_size=500`, is not refused. Raises UserError.
    """
    is_set = any(override.startswith("search") for override in options.overrides)
    width, longest = search.num_hypotheses, search.lengths.max_length
    if width * longest <= MAX_SEARCH_TOKENS or is_set or (options.beam, options.mbr) != (None, None):
        return
    key = "num_samples" if isinstance(search, SampleConfig) else "beam_size"
    smaller, same = (f"(``overrides=search.{key}={size}``)" for size in (5, width))
    raise UserError(
        f"{config}: its `search` follows {width:,} hypotheses of up to {longest:,} tokens, which may take hours and"
        f" all memory; set another {smaller}, or confirm it {same}"
    )
