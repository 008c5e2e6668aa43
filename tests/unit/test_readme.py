"""What the first screen promises: a short page, steps without gaps, one address."""

import configparser
import re

from site_pages import REPOSITORY

from tests.support.commands import ROOT
from tests.support.pages import blocks, text


def test_the_readme_is_short_and_begins_with_pictures_and_a_clone() -> None:
    lines = text("README.md").splitlines()
    assert len(lines) <= 200
    first = "\n".join(lines[:40])
    pictures = re.findall(r"!\[.*?\]\((.*?)\)", first)
    assert len(pictures) == 3 and all((ROOT / picture).is_file() for picture in pictures)
    places = [first.index(words) for words in ("git clone", "pip install .", "seq2attn import", "seq2attn translate")]
    assert places == sorted(places)


def test_steps_are_numbered_without_gaps() -> None:
    numbers = [[int(number) for number in re.findall(r"# (\d+)\. ", block)] for block in blocks("README.md", "bash")]
    assert [steps for steps in numbers if steps] and all(steps == [*range(1, len(steps) + 1)] for steps in numbers)


def test_the_repository_has_one_address() -> None:
    names = ("README.md", "docs/installation.md", "docs/quickstart.md", "mkdocs.yml", "setup.cfg")
    found = {address for name in names for address in re.findall(r"https://github\.com/seq2attn/[\w.-]+", text(name))}
    assert {address.removesuffix(".git") for address in found} == {REPOSITORY}


def test_the_package_says_whose_it_is_and_for_whom() -> None:
    config = configparser.ConfigParser()
    config.read_string(text("setup.cfg"))
    metadata = config["metadata"]
    assert metadata["author"] and metadata["url"] == REPOSITORY
    classifiers = metadata["classifiers"].split("\n")
    assert "Intended Audience :: Education" in classifiers
    assert not any(name.startswith("License ::") for name in classifiers)  # `license` has it, and both are refused
