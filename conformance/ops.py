"""`ortwin ops`: what the C library and the provider execute."""

from __future__ import annotations

import argparse

from ortwin.conformance.tables import table, write_json
from ortwin.fast.library import OpRow, default_library
from ortwin.ref.tensor import dtype_name


def command(args: argparse.Namespace) -> int:
    """Runs the command."""
    rows = default_library().ops()
    if args.json:
        write_json({"ops": [_as_json(row) for row in rows]})
        return 0
    # Versions of an op that have the same types and cost share a line.
    merged: dict[tuple[str, str, frozenset[int], str], list[int]] = {}
    for row in rows:
        merged.setdefault((row.domain, row.name, row.dtypes, row.cost_class), []).append(row.since_version)
    cells = [
        [domain or "ai.onnx", name, " ".join(map(str, versions)), " ".join(_names(dtypes)), cost.lower()]
        for (domain, name, dtypes, cost), versions in merged.items()
    ]
    table("ops executed", ["domain", "op", "since versions", "dtypes of the first input", "cost class"], cells)
    return 0


def _names(dtypes: frozenset[int]) -> list[str]:
    return [dtype_name(dtype) for dtype in sorted(dtypes)]


def _as_json(row: OpRow) -> dict[str, object]:
    return {
        "domain": row.domain or "ai.onnx",
        "op": row.name,
        "since_version": row.since_version,
        "dtypes": _names(row.dtypes),
        "cost_class": row.cost_class.lower(),
    }
