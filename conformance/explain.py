"""`ortwin explain`: which nodes of a model the provider claims, and the first rule that declined each other one."""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from ortwin.conformance import copies
from ortwin.conformance.inputs import read_model
from ortwin.conformance.tables import say, table, write_json


def offers(path: str, level: str = "as-written") -> list[dict[str, Any]]:
    """Per node offered to the provider at this optimisation level, in the order offered: graph, node, domain, op,
    since_version, isa, claimed, reason. ONNX Runtime offers all nodes again after inlining functions, so those are
    inlined before; of a model that the onnx package can't inline, nodes with a name are told once."""
    model = copies.inline(read_model(path))
    copies.name_nodes(model)
    with tempfile.TemporaryDirectory(prefix="ortwin-") as scratch:
        report = Path(scratch) / "report.jsonl"
        session = copies.provider_session(model, Path(path).absolute().parent, level, report=report)
        lines = report.read_text(encoding="utf-8", errors="surrogateescape").splitlines() if report.exists() else []
        del session
    found: dict[tuple[str, ...], dict[str, Any]] = {}
    for index, line in enumerate(lines):
        offer: dict[str, Any] = json.loads(line)
        own = (offer["graph"], offer["node"], offer["op"]) if offer["node"] else (str(index),)
        found[own] = offer
    return list(found.values())


def command(args: argparse.Namespace) -> int:
    """Runs the command."""
    found = offers(args.model, args.graph_optimization)
    claimed = Counter(_op(offer) for offer in found if offer["claimed"])
    declined = Counter(_op(offer) for offer in found if not offer["claimed"])
    ops = sorted(claimed.keys() | declined.keys())
    totals = [{"op": op, "claimed": claimed[op], "declined": declined[op]} for op in ops]
    if args.json:
        write_json(
            {
                "model": args.model,
                "graph_optimization": args.graph_optimization,
                "nodes": found,
                "totals": totals,
                "claimed": claimed.total(),
                "declined": declined.total(),
            }
        )
        return 0
    if not found:
        say(f"ONNX Runtime offers the execution provider no node of {args.model}")
        return 0
    rows = [
        [offer["graph"], offer["node"] or "(inlined)", f"{_op(offer)}-{offer['since_version']}", _verdict(offer)]
        for offer in found
    ]
    table(f"nodes offered, isa {found[0]['isa']}", ["graph", "node", "op", "claimed, or why not"], rows)
    title = f"{claimed.total()} of {len(found)} nodes claimed"
    table(title, ["op", "claimed", "declined"], [list(total.values()) for total in totals], ["claimed", "declined"])
    return 0


def _op(offer: dict[str, Any]) -> str:
    return f"{offer['domain']}.{offer['op']}" if offer["domain"] else str(offer["op"])


def _verdict(offer: dict[str, Any]) -> str:
    return "claimed" if offer["claimed"] else str(offer["reason"])
