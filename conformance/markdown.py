"""The Markdown of generated pages."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence


def table(columns: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> Iterator[str]:
    """A table; columns after the first ones are aligned to the right."""
    yield f"| {' | '.join(columns)} |"
    yield f"|{'---|' * left}{'---:|' * (len(columns) - left)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"
    yield ""


def prose(words: str) -> Iterator[str]:
    """A paragraph."""
    yield textwrap.fill(" ".join(words.split()), 118, break_long_words=False, break_on_hyphens=False)
    yield ""
