"""What people look at: tables on stdout, progress on stderr when that is a terminal, JSON for machines."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from rich import box
from rich.console import Console
from rich.progress import track
from rich.table import Table
from rich.text import Text

T = TypeVar("T")

PIPE_WIDTH = 400  # columns when stdout is no terminal: a table in a file is not folded


class PlainConsole(Console):
    """A Console that leaves a closed pipe to its caller; rich would end the process with the code of a difference."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def say(text: str) -> None:
    """One line on stdout, as it is."""
    print(text, flush=True)


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]], right: Iterable[str] = ()) -> None:
    """Prints a table; the columns in `right` are aligned to the right."""
    made = Table(title=Text(title), title_justify="left", box=box.SIMPLE_HEAD)
    numeric = set(right)
    for column in columns:
        made.add_column(column, justify="right" if column in numeric else "left", overflow="fold")
    for row in rows:
        made.add_row(*(Text(_printable(str(cell))) for cell in row))  # as Text: a name may hold rich's [markup]
    terminal = sys.stdout.isatty()
    PlainConsole(file=sys.stdout, width=None if terminal else PIPE_WIDTH, highlight=False).print(made)


def _printable(text: str) -> str:
    """Control characters, which a name in a model may hold, as escapes: none reaches the terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def progress(items: Sequence[T], what: str) -> Iterator[T]:
    """The items, with a progress bar on stderr if that is a terminal."""
    console = Console(file=sys.stderr)
    yield from track(items, what, console=console, disable=not console.is_terminal, transient=True)


def write_json(value: Mapping[str, Any]) -> None:
    """One JSON document on stdout. Callers turn numbers that JSON lacks (NaN, infinities) into strings."""
    print(json.dumps(value, indent=2, allow_nan=False), flush=True)
