"""A browser for the tests of pages: a headless Chromium, controlled through a pipe by the DevTools protocol."""

from collections.abc import Iterator

import pytest

from tests.support.browser import CHROMIUM, Browser, browser


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One browser for all pages. Skips the test where Chromium is not installed."""
    if CHROMIUM is None:
        pytest.skip("needs Chromium")
    with browser(tmp_path_factory.mktemp("chromium")) as one:
        yield one
