"""`ortwin verify`: recomputes certificates on this machine, all 2^32 inputs of each, on every instruction set it has.

A difference is given by its first block and, found by running the reference on that block, its first input.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from ortwin.conformance.sweep import arms, blocks, certificate, run
from ortwin.conformance.sweep.arms import Arm
from ortwin.conformance.sweep.blocks import BLOCKS
from ortwin.conformance.sweep.certificate import Certificate, CertificateError
from ortwin.conformance.sweep.command import block_range, jobs
from ortwin.conformance.tables import say, table, write_json
from ortwin.fast.library import isas

MATCH: Final = "match"


@dataclass(frozen=True)
class Difference:
    """Where an arm leaves the certificate. first: the first input, as bits, at which it and a right arm differ, with
    both results; None if no arm of this machine gives the certified block."""

    block: int
    first: int | None = None
    got: int = 0
    expected: int = 0
    witness: str = ""

    def __str__(self) -> str:
        if self.first is None:
            return f"differs in block {self.block}, as every arm of this machine does"
        where = f"0x{self.first:08x}: 0x{self.got:08x}, not {self.witness}'s 0x{self.expected:08x}"
        return f"differs in block {self.block}, first at input {where}"


def add_parser(commands: Any) -> None:
    """Adds verify to an argparse subparsers object."""
    made = commands.add_parser("verify", help="recompute certificates: the same bits on this machine, or where not")
    made.add_argument("op", nargs="*", metavar="OP", help="certificates by name (default: all that are shipped)")
    made.add_argument("--isa", action="append", default=[], metavar="NAME", help="an instruction set, or ref")
    made.add_argument("--jobs", type=jobs, default=1, metavar="N", help="processes (default 1)")
    made.add_argument("--blocks", type=block_range, default=range(BLOCKS), metavar="a:b", help="blocks a to b - 1")
    made.add_argument("--certificates", type=Path, default=certificate.FOLDER, metavar="FOLDER", help="other ones")
    made.add_argument("--json", action="store_true", help="print one JSON document instead of a table")
    made.set_defaults(function=command)


def command(args: argparse.Namespace) -> int:
    """Runs the command. 1 if anything differs from a certificate."""
    known = certificate.shipped(args.certificates)
    missing = [name for name in args.op if name not in known]
    if missing or not known:
        raise CertificateError(f"there is no certificate of {', '.join(missing) or 'anything'} in {args.certificates}")
    names = list(dict.fromkeys(args.isa)) or arms.ours()[1:]
    for name in names:
        if name not in (arms.REFERENCE, *isas()):
            raise arms.ArmError(f"'{name}' can't be verified: choose {arms.REFERENCE}, {', '.join(isas())}")
    arms.check(names)
    rows: list[dict[str, str]] = []
    for name in args.op or known:
        rows += verify(certificate.read(known[name]), names, args.blocks, args.jobs)
    failed = any(row["result"] != MATCH and not row["result"].startswith("not checked") for row in rows)
    if args.json:
        write_json({"blocks": [args.blocks.start, args.blocks.stop], "results": rows})
    else:
        if len(args.blocks) != BLOCKS:
            say(f"{len(args.blocks)} of {BLOCKS} blocks only")
        table("certificates", ["case", "arm", "result"], [list(row.values()) for row in rows])
    return 1 if failed else 0


def verify(found: Certificate, names: Sequence[str], wanted: Sequence[int], processes: int) -> list[dict[str, str]]:
    """A row per arm: match, what differs, or why it is not checked."""
    wrong = found.contradictions()
    if wrong:
        return [{"case": found.name, "arm": "certificate", "result": f"is not valid: {'; '.join(wrong)}"}]
    rows = []
    for name in names:
        difference = first_difference(found, run.Worker(found.case, False), name, wanted, processes)
        result = str(difference) if difference else other_digests(found, name)
        rows.append({"case": found.name, "arm": name, "result": result})
    absent = {isa: why for isa, why in isas().items() if why}
    for isa in found.isas:
        if isa not in isas() or isa in absent:
            why = absent.get(isa, "this build does not have it")
            rows.append({"case": found.name, "arm": isa, "result": f"not checked: {why}"})
    return rows


def first_difference(
    found: Certificate, worker: run.Worker, name: str, wanted: Sequence[int], processes: int
) -> Difference | None:
    """The first block of an arm that is not as certified."""
    worker.arm(name)  # an error before any process is started
    work: list[run.Work] = [(block, [name]) for block in wanted]
    with run.Timer(f"{found.name}, {name}", len(work)) as timer:
        for block, (record,) in zip(wanted, run.results(worker, found.case, False, work, processes), strict=True):
            if record.digest != found.blocks[block]:
                return locate(found, worker, name, block)
            timer.step()
    return None


def locate(found: Certificate, worker: run.Worker, name: str, block: int) -> Difference:
    """The first input of a block at which an arm differs from one that gives the certified block: the reference, or if
    that does not either, any other."""
    arm = worker.arm(name)
    for other in arms.ours():
        if other == name:
            continue
        witness = worker.arm(other)
        digest = blocks.new_digest()
        first: Difference | None = None
        for bits in blocks.chunks(block):
            expected = witness.compute(bits.view(np.float32))
            digest.update(blocks.little_endian(expected))
            if first is None:
                first = _first(arm, bits, expected, Difference(block, witness=other))
        if first is not None and digest.hexdigest() == found.blocks[block]:
            return first
    return Difference(block)


def _first(arm: Arm, bits: arms.Bits, expected: arms.Floats, where: Difference) -> Difference | None:
    got, right = arm.compute(bits.view(np.float32)).view(np.uint32), expected.view(np.uint32)
    wrong = np.flatnonzero(got != right)
    if not wrong.size:
        return None
    at = int(wrong[0])
    return Difference(where.block, int(bits[at]), int(got[at]), int(right[at]), where.witness)


def other_digests(found: Certificate, name: str) -> str:
    """Whether the sample and the half types certified are an arm's."""
    got = {"the sample": certificate.sample_digest(arms.make(name, found.case))}
    got |= certificate.half_digests(found.case, name)
    expected = {"the sample": found.sample, **found.halves}
    wrong = [what for what in sorted(expected) if got.get(what) != expected[what]]
    return f"differs in {', '.join(wrong)}" if wrong else MATCH
