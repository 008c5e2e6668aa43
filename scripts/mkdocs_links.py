"""Hook of MkDocs: links from a page to files of the repository that are not on the site become their names."""

from __future__ import annotations

import re
from typing import Any

LINK = re.compile(r"\[([^\]]+)\]\(\.\./([^)\s]+)\)")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """`[text](../file)` becomes `text (file)`: a checkout has the file, the site does not."""
    return LINK.sub(lambda link: f"{link[1]} (`{link[2]}`)", markdown)
