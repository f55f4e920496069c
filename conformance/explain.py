"""`ortwin explain`: which nodes of a model the provider claims, in which groups and by which kernels, and the first
rule that declined each other one.

A group is what ONNX Runtime runs as one node of the provider. The last line of --run says whether every node assigned
to the provider was executed by it: in the run, or once when the session was made, if all its operands are constants.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ortwin.conformance import copies, ortvalues
from ortwin.conformance.conform.case import op_text
from ortwin.conformance.inputs import make_feeds, read_model
from ortwin.conformance.tables import say, table, write_json
from ortwin.fast.library import counters


@dataclass(frozen=True)
class Executed:
    """A run: nodes assigned to the provider by ONNX Runtime's account, and by the library's counters nodes executed in
    the run and nodes folded when the session was made."""

    assigned: int
    executed: int
    folded: int

    @property
    def all(self) -> bool:
        """Whether each node assigned was executed or folded. Bodies of If, Loop, Scan may run any number of times."""
        return self.assigned == self.executed + self.folded


def execute(args: argparse.Namespace) -> Executed:
    """Runs the model once."""
    model = copies.inline(read_model(args.model))
    copies.name_nodes(model)
    feeds = make_feeds(model, args.input, args.dim, args.seed)
    before = counters()
    session = copies.provider_session(
        model, Path(args.model).absolute().parent, args.graph_optimization, threads=args.threads or 1, isa=args.isa
    )
    assigned = len(copies.claims(session))
    ortvalues.run(session, feeds.arrays)
    after = counters()
    executed, folded = (after[name] - before[name] for name in ("nodes_executed", "nodes_folded"))
    return Executed(assigned, executed, folded)


def offers(path: str, level: str = "as-written", isa: str | None = None) -> list[dict[str, Any]]:
    """Per node offered to the provider at this optimisation level, in the order offered: graph, node, domain, op,
    since_version, isa, claimed, reason; of a claimed one group, kernel, constant_operands, runtime_operands, and
    inner_dimensions where it is a product.

    ONNX Runtime offers all nodes again after inlining functions, so those are inlined before; of a model that the onnx
    package can't inline, nodes with a name are told once."""
    model = copies.inline(read_model(path))
    copies.name_nodes(model)
    with tempfile.TemporaryDirectory(prefix="ortwin-") as scratch:
        report = Path(scratch) / "report.jsonl"
        session = copies.provider_session(model, Path(path).absolute().parent, level, isa=isa, report=report)
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
    found = offers(args.model, args.graph_optimization, args.isa)
    claimed = Counter(_op(offer) for offer in found if offer["claimed"])
    declined = Counter(_op(offer) for offer in found if not offer["claimed"])
    ops = sorted(claimed.keys() | declined.keys())
    totals = [{"op": op, "claimed": claimed[op], "declined": declined[op]} for op in ops]
    groups = Counter(offer["group"] for offer in found if offer["claimed"])
    operands = {
        kind: sum(offer[f"{kind}_operands"] for offer in found if offer["claimed"]) for kind in ("constant", "runtime")
    }
    ran = execute(args) if args.run else None
    if args.json:
        write_json(
            {
                "model": args.model,
                "graph_optimization": args.graph_optimization,
                "nodes": found,
                "totals": totals,
                "claimed": claimed.total(),
                "declined": declined.total(),
                "groups": [{"group": group, "nodes": count} for group, count in sorted(groups.items())],
                "operands": operands,
                **({} if ran is None else {"run": {**asdict(ran), "all": ran.all}}),
            }
        )
        return 0
    if not found:
        say(f"ONNX Runtime offers the execution provider no node of {args.model}")
        return 0
    rows = [[offer["graph"], offer["node"] or "(inlined)", f"{_op(offer)}-{offer['since_version']}", *_how(offer)]
            for offer in found]  # fmt: skip
    columns = ["graph", "node", "op", "group", "kernel", "constant", "runtime", "remark"]
    table(f"nodes offered, isa {found[0]['isa']}", columns, rows, ["group", "constant", "runtime"])
    title = f"{claimed.total()} of {len(found)} nodes claimed, in {len(groups)} groups"
    table(title, ["op", "claimed", "declined"], [list(total.values()) for total in totals], ["claimed", "declined"])
    say(f"operands of claimed nodes: {operands['constant']} constant, {operands['runtime']} of each run")
    if ran is not None:
        say(_verdict(ran))
    return 0


def _op(offer: dict[str, Any]) -> str:
    return op_text(offer["domain"], offer["op"])


def _how(offer: dict[str, Any]) -> list[str]:
    """Group, kernel and operands of a claimed node, and what is known of a product's shapes; the reason for another."""
    if not offer["claimed"]:
        return ["", "", "", "", str(offer["reason"])]
    inner = offer.get("inner_dimensions", "")
    how = [str(offer[key]) for key in ("group", "kernel", "constant_operands", "runtime_operands")]
    return [*how, f"inner dimensions {inner}" if inner else ""]


def _verdict(ran: Executed) -> str:
    folded = f" and {ran.folded} folded when the session was made" if ran.folded else ""
    sign = "==" if ran.all else "!="
    why = "" if ran.all else " (bodies of If, Loop and Scan run any number of times)"
    return f"nodes assigned {ran.assigned} {sign} executed {ran.executed}{folded}{why}"
