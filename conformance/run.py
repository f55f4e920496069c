"""`ortwin run`: a model on the reference, on the C library, or in ONNX Runtime with the provider."""

from __future__ import annotations

import argparse
import hashlib
import math
from pathlib import Path
from typing import Any

import numpy as np

from ortwin import fast, ref
from ortwin.conformance import ortvalues
from ortwin.conformance.copies import provider_session
from ortwin.conformance.inputs import Feeds, make_feeds, read_model
from ortwin.conformance.tables import say, table, write_json
from ortwin.ref.errors import OrtwinError

BACKENDS = ("ref", "fast", "ort")
FIRST = 4
"""Values shown of each output."""


def command(args: argparse.Namespace) -> int:
    """Runs the command."""
    if args.backend == "ref" and (args.threads is not None or args.isa is not None):
        raise OrtwinError("--threads and --isa have no meaning for the reference, which has one thread and no kernels")
    model = read_model(args.model)
    feeds = make_feeds(model, args.input, args.dim, args.seed)
    before = fast.counters() if args.backend != "ref" else {}
    outputs, how = run(args, feeds)
    if args.backend != "ref":
        after = fast.counters()
        how.update({name: after[name] - before[name] for name in ("nodes_executed", "nodes_folded")})
    inputs = [_describe(name, array) for name, array in feeds.arrays.items()]
    results = [_describe(name, value) for name, value in outputs.items()]
    if args.json:
        document = {"model": args.model, **how, "seed": args.seed, "assumed": list(feeds.assumed)}
        write_json({**document, "inputs": inputs, "outputs": results})
        return 0
    if feeds.assumed:
        say(f"assumed size 1 for {', '.join(feeds.assumed)}; --dim NAME=N gives another")
    title = ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in how.items())
    columns = ["output", "dtype", "shape", "sha256 begins", "min", "max", "first"]
    table(title, columns, [_cells(result) for result in results])
    return 0


def _cells(result: dict[str, Any]) -> list[str]:
    first = " ".join(str(item) for item in result["first"])
    digest = None if result["sha256"] is None else result["sha256"][:16]
    known = ["" if item is None else str(item) for item in list({**result, "sha256": digest}.values())[:-1]]
    return [*known, first]


def run(args: argparse.Namespace, feeds: Feeds) -> tuple[dict[str, Any], dict[str, Any]]:
    """Outputs by name, and how they were computed."""
    threads = args.threads or 1
    if args.backend == "ort":
        folder = Path(args.model).absolute().parent
        in_ort = provider_session(read_model(args.model), folder, "as-written", threads=threads, isa=args.isa)
        asked = {"isa": args.isa} if args.isa else {}
        return ortvalues.run(in_ort, feeds.arrays), {"backend": "ort", **asked, "threads": threads}
    if args.backend == "ref":
        session: ref.Session | fast.Session = ref.Session(args.model)
        how: dict[str, Any] = {"backend": "ref"}
    else:
        session = direct = fast.Session(args.model, threads, args.isa)
        how = {"backend": "fast", "isa": direct.isa, "threads": threads}
    names = [output.name for output in session.graph.outputs]
    return dict(zip(names, session.run(None, feeds.arrays), strict=True)), how


def _describe(name: str, value: Any) -> dict[str, Any]:
    """What is shown of an input or output, in the order of the columns; of what is no tensor (a str) only its type.

    sha256 is that of the elements' bytes, little endian, in C order; of strings in UTF-8, with a zero byte between.
    """
    if isinstance(value, str):
        return {"name": name, "dtype": value, "shape": None, "sha256": None, "min": None, "max": None, "first": []}
    strings = value.dtype.kind in "OSU"
    data = "\0".join(str(text) for text in value.ravel()).encode() if strings else _little_endian(value)
    low = high = None
    if not strings and value.size and value.dtype.kind != "c":
        wide = value.ravel() if value.dtype.kind in "iub" else value.ravel().astype(np.float64)
        if np.isnan(wide).all():
            low = high = "nan"
        else:
            low, high = (_plain(value.ravel()[find(wide)]) for find in (np.nanargmin, np.nanargmax))
    return {
        "name": name,
        "dtype": "string" if strings else value.dtype.name,
        "shape": list(value.shape),
        "sha256": hashlib.sha256(data).hexdigest(),
        "min": low,
        "max": high,
        "first": [_plain(item) for item in value.ravel()[:FIRST]],
    }


def _little_endian(array: np.ndarray[Any, Any]) -> bytes:
    return array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()


def _plain(item: Any) -> Any:
    """The item as JSON has it: a number, except that NaN, infinities and complex numbers are strings."""
    if isinstance(item, str | bytes):
        return str(item)
    if isinstance(item, bool | np.bool_):
        return bool(item)
    if isinstance(item, int | np.integer):
        return int(item)
    if isinstance(item, complex | np.complexfloating):
        return str(item)
    number = float(str(item)) if isinstance(item, np.floating) else float(item)  # str: the shortest that reads back
    return number if math.isfinite(number) else str(number)
