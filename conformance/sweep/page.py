"""`ortwin numerics`: docs/numerics.md, what each op gives and how it compares, made from what others measured.

Four sources: the certificates; the reference, run here; ONNX Runtime's CPU provider, run when --ort asks for it and
kept in a file with its version, so that the page is the same on every machine; and what `ortwin sums` kept likewise.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from ortwin.conformance import sums
from ortwin.conformance.markdown import prose, table
from ortwin.conformance.sweep import arms, certificate, exact, literal
from ortwin.conformance.sweep.arms import ORT, Bits
from ortwin.conformance.sweep.cases import CASES, HALVES, Case
from ortwin.conformance.sweep.certificate import Certificate
from ortwin.conformance.sweep.measure import CANONICAL, CLASSES, INFINITY, SIGN, SMALLEST_NORMAL
from ortwin.conformance.tables import say
from ortwin.fast.ort import onnxruntime
from ortwin.ref.errors import OrtwinError
from ortwin.ref.numerics import NUMERICS
from ortwin.ref.tensor import dtype_name

RESULTS: Final = Path(__file__).resolve().parent.parent / "ort_cpu.json"
"""What ONNX Runtime's CPU provider gave, shipped with the package."""

EDGES: Final = {**CLASSES, "NaN": CANONICAL}
PAYLOADS: Final = (INFINITY + 1, 0xFFC12345)
TELLING: Final = (
    *(-1e-30, 1e-8, -1e-8, -1e-4, 0.5, -0.5, 1.0, 1.0000001, -1.0, 1.5, 2.5, 3.0, -2.9999998, -3.0, -5.0, -6.0),
    *(-8.0, 8.9988, -8.9988, 9.0, -10.0, -13.0, -15.9114, -18.0, 20.0, -20.0, -30.0, -60.0, -87.4, -88.0, 88.7228),
    *(-103.0, -103.5),
)
"""Inputs that tripped other implementations: tails, cancellation near 0, clamps, ties, overflow."""

INPUTS: Final[Bits] = np.array([*EDGES.values(), *PAYLOADS, *np.array(TELLING, np.float32).view(np.uint32)], np.uint32)
COPIES: Final = 64
"""ONNX Runtime is given each input as a tensor of so many, so that its vector code answers."""

FOREIGN: Final = (ORT, "peer")
FIGURES: Final = ("not_rounded", "monotonicity", "range", "oddness", "zero_sign")


class PageError(OrtwinError):
    """The page can't be made, or is not what its sources make of it."""


@dataclass(frozen=True)
class Results:
    """What ONNX Runtime's CPU provider gave. host: the widest instruction set of ours on that machine, as its kernels
    are chosen by machine too. results: by case, in the order of inputs; a case it does not run is absent."""

    ort: str
    host: str
    inputs: list[str] = field(default_factory=list)
    results: dict[str, list[str]] = field(default_factory=dict)

    def text(self) -> str:
        """Canonical JSON: a case a line."""
        lines = [f'  "{name}": "{" ".join(values)}"' for name, values in self.results.items()]
        head = [f' "{key}": {json.dumps(value)},' for key, value in (("ort", self.ort), ("host", self.host))]
        cases = ",\n".join(lines)
        return "\n".join(["{", *head, f' "inputs": "{" ".join(self.inputs)}",', ' "results": {', cases, " }", "}", ""])

    def of(self, case: Case) -> Bits | None:
        """The results of a case on INPUTS."""
        if self.inputs != _hex(INPUTS):
            raise PageError("the results are of other inputs: ortwin numerics --ort runs ONNX Runtime again")
        found = self.results.get(case.name)
        return None if found is None else np.array([int(text, 16) for text in found], np.uint32)


def read(path: Path) -> Results:
    """A results file. PageError if it is none."""
    try:
        data = json.loads(path.read_text("utf-8"))
        cases = {str(name): str(line).split() for name, line in data["results"].items()}
        made = Results(str(data["ort"]), str(data["host"]), str(data["inputs"]).split(), cases)
        if any(len(line) != len(made.inputs) or any(int(text, 16) >> 32 for text in line) for line in cases.values()):
            raise ValueError("a case has not as many results as there are inputs")
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise PageError(f"{path} holds no results: {error}") from error
    return made


def run_ort() -> Results:
    """Runs ONNX Runtime's CPU provider on every case."""
    found = {}
    for case in CASES:
        try:
            arm = arms.make(ORT, case)
        except arms.ArmError:
            continue
        copies = [np.full(COPIES, bits, np.uint32).view(np.float32) for bits in INPUTS]
        found[case.name] = _hex([arm.compute(x).view(np.uint32)[0] for x in copies])
    return Results(onnxruntime().__version__, arms.host(), _hex(INPUTS), found)


def _hex(patterns: Iterable[Any]) -> list[str]:
    return [f"{int(bits):08x}" for bits in patterns]


# Text


def number(bits: Any, exactly: bool = True) -> str:
    """A binary32 number as its shortest decimal; a NaN that is not the canonical one with its bits, if exactly."""
    if (bits := int(bits)) & ~SIGN > INFINITY:
        return "NaN" if bits == CANONICAL or not exactly else f"NaN 0x{bits:08x}"
    value = np.uint32(bits).view(np.float32)
    return str(value).replace("inf", "Inf")


def text(certificates: Mapping[str, Certificate], results: Results, products: sums.Results) -> str:
    """The page. certificates: by name of their cases."""
    ours = {case.name: arms.Reference(case).compute(INPUTS.view(np.float32)).view(np.uint32) for case in CASES}
    lines = [
        "# Numerics",
        "",
        *prose(
            """What every unary op gives in float32, how that compares, and how far sums of products are from the exact
            ones. The results are those of the reference
            and, bit for bit, of every instruction set; the labels C1 to C10 are those of [the
            contract](contract.md). A number is the shortest decimal that stands for it, and NaN is the
            canonical one, 0x7fc00000."""
        ),
        *prose(
            f"""Made by `ortwin numerics` from the certificates (numerics {NUMERICS}), the reference, and what ONNX
            Runtime {results.ort} gave (`conformance/{RESULTS.name}`, `conformance/{sums.RESULTS.name}`); the tests make
            it again."""
        ),
        *_figures(certificates),
        *_edges(ours),
        *_differences(ours, results),
        *_nans(results),
        *_halves(certificates),
        *sums.section(products),
    ]
    return "\n".join(lines).rstrip("\n") + "\n"


def _figures(certificates: Mapping[str, Certificate]) -> Iterator[str]:
    yield from ("## All 2^32 inputs", "")
    yield from prose(
        """From the certificates. Errors are in units of the last place at the true value. Counted are results that
        are not the correctly rounded ones, neighbours that run against the function, results outside its range,
        inputs below 0 where f(-x) is not -f(x), zeros of the wrong sign, and NaNs other than the canonical one
        (C3)."""
    )
    versions: dict[str, str] = {}
    rows = []
    for case in CASES:
        shown = certificates[case.name].figures if case.name in certificates else {}
        for arm in dict.fromkeys(("ours", *FOREIGN, *shown)):
            figures = shown.get(arm)
            row = [case.name, arm]
            if figures is None:
                if shown or arm == "ours":
                    rows.append([*row, "not swept", *[""] * (len(FIGURES) + 2)])
                continue
            if "version" in figures:
                versions[arm] = str(figures["version"])
            counts = [f"{figures[key]:,}" for key in FIGURES]
            nans = f"{figures['classes'].get('other NaN', 0):,}"
            worst = number(int(figures["worst"], 16)) if figures["max_ulp"] else ""
            rows.append([*row, str(figures["max_ulp"]), worst, *counts, nans])
    columns = ("op", "arm", "max ulp", "at", "not rounded", "monotonicity", "range", "oddness", "zero sign", "NaNs")
    yield from table(columns, rows, 2)
    yield from (f"{arm}: {version}." for arm, version in sorted(versions.items()))
    yield ""


def _edges(ours: Mapping[str, Bits]) -> Iterator[str]:
    yield from ("## Special values", "")
    yield from prose(
        f"""The smallest subnormal is {number(1)}, the largest {number(SMALLEST_NORMAL - 1)} (C4), the largest
        number {number(INFINITY - 1)}. Any NaN gives what the canonical one gives, but Identity copies it (C3)."""
    )
    yield from table(
        ["op", *EDGES],
        ([name, *(number(bits) for bits in values[: len(EDGES)])] for name, values in ours.items()),
    )


def _nans(results: Results) -> Iterator[str]:
    yield from (
        "## NaNs of others",
        "",
        f"What ONNX Runtime {results.ort} gives for three NaNs; ours copies the bits in Identity alone (C3).",
        "",
    )
    at = [k for k, bits in enumerate(INPUTS) if math.isnan(exact.number(int(bits)))]
    rows = ([case.name, *(_name(theirs[k]) for k in at)] for case in CASES if (theirs := results.of(case)) is not None)
    yield from table(["op", *(f"0x{INPUTS[k]:08x}" for k in at)], rows)


def _name(bits: Any) -> str:
    """A NaN by its bits, whatever they are; a number as ever."""
    return f"0x{bits:08x}" if math.isnan(exact.number(int(bits))) else number(bits)


def _differences(ours: Mapping[str, Bits], results: Results) -> Iterator[str]:
    yield from ("## Where others differ", "")
    yield from prose(
        f"""Every op is given the special values and {len(TELLING)} inputs that tripped implementations. ORT is ONNX
        Runtime {results.ort}'s CPU provider, its optimiser off, on a machine with {results.host}, each input in
        a tensor of {COPIES} copies. The formula is that of the ONNX text, evaluated literally, each step
        rounded to binary32; its NaNs have no particular bits. Left out is what is within 1 ulp of the true
        value and right in the special cases."""
    )
    same, absent = [], []
    for case in CASES:
        theirs, formula = results.of(case), literal.evaluate(case, INPUTS.view(np.float32))
        if theirs is None:
            absent.append(case.name)
        rows = _rows(case, ours[case.name], theirs, None if formula is None else formula.view(np.uint32))
        if not rows:
            same.append(case.name)
            continue
        yield from (f"### {case.name}", "")
        if (case.domain, case.op) in literal.FORMULAS:
            yield from (f"Formula: `{literal.FORMULAS[case.domain, case.op][0]}`.", "")
        columns = ("x", "ours", "ORT", "formula", "reason")
        yield from table(columns, ([_some(inputs), *cells] for cells, inputs in rows.items()), len(columns))
    yield from ("### No difference", "")
    yield from prose(f"{', '.join(same)}.")
    if absent:
        yield from prose(f"ORT does not run, or was not asked for: {', '.join(absent)}.")


def _rows(case: Case, ours: Bits, theirs: Bits | None, formula: Bits | None) -> dict[tuple[str, ...], list[str]]:
    """Inputs by what ours, ORT and the formula give, and the reason; NaNs are another table's."""
    rows: dict[tuple[str, ...], list[str]] = {}
    for at, bits in enumerate(INPUTS):
        if math.isnan(exact.number(int(bits))):
            continue
        cells, reasons = [number(ours[at])], dict[str, str]()
        for name, values in (("ORT", theirs), ("formula", formula)):
            exactly = name == "ORT"
            reason = "" if values is None else why(case, int(bits), int(ours[at]), int(values[at]), exactly)
            cells.append(number(values[at], exactly) if values is not None and reason else "")
            if reason:
                reasons[name] = reason
        if reasons:
            alike = len(set(reasons.values())) == 1
            said = "; ".join(dict.fromkeys(text if alike else f"{name} {text}" for name, text in reasons.items()))
            rows.setdefault((*cells, said), []).append(number(bits))
    return rows


def _some(inputs: Sequence[str]) -> str:
    shown = ", ".join(inputs[:4])
    return shown if len(inputs) <= 4 else f"{shown} and {len(inputs) - 4} more"


def why(case: Case, x: int, ours: int, theirs: int, exactly: bool = True) -> str:
    """Why another result is not ours, as a phrase with the contract's label; "" if it is as good. exactly: the bits of
    a NaN count."""
    function = case.function
    at, mine, other = exact.number(x), exact.number(ours), exact.number(theirs)
    if math.isnan(mine) and math.isnan(other):
        if ours == theirs or not exactly:
            return ""
        return "a NaN is canonical (C3)" if ours == CANONICAL else "a NaN is copied (C3)"
    if math.isnan(mine):
        return "a NaN stays one (C3)" if math.isnan(at) else "NaN outside the domain (C10b)"
    if math.isnan(other):
        return "the limit at an infinity (C10b)" if math.isinf(at) else "the true value, not the formula's (C10a)"
    if mine == other:
        return "" if ours == theirs else "the sign of a zero (C10c)" if not at else "the sign of a zero (C8)"
    if not float(np.float32(function.low)) <= other <= float(np.float32(function.high)):
        return "outside the range (C8)"
    error = exact.error_in_ulp(function, at, other)
    if math.isinf(at):
        return "the limit at an infinity (C10b)"
    if error <= 1.0:
        return ""
    if not other and 0.0 < abs(at) < 2.0**-126:
        return "subnormals count (C4)"
    if not other:
        return "zero where digits are due (C8)"
    if math.isinf(error):
        return "infinite where a number is due (C8)"
    return f"off by {math.ceil(error * 100.0) / 100.0:,.{2 if error < 10.0 else 0}f} ulp (C8)"


def _halves(certificates: Mapping[str, Certificate]) -> Iterator[str]:
    yield from ("## float16 and bfloat16", "")
    yield from prose(
        """Widened exactly, computed as above, rounded once (C5): within 1 ulp of float32 is within 0.50013 ulp of
        float16, and less of bfloat16. The tests run all 65,536 inputs of every op and type on every instruction
        set and in ONNX Runtime, against the reference. The certificates hold the digests (BLAKE2b, 16 bytes) of
        the 65,536 results in the order of the inputs' bits, little-endian."""
    )
    rows = []
    for case in CASES:
        found = certificates[case.name].halves if case.name in certificates else {}
        has = case.dtypes()
        rows.append([case.name])
        for dtype in HALVES:
            digest = f"`{found[dtype_name(dtype)]}`" if dtype_name(dtype) in found else "not certified yet"
            rows[-1].append(digest if dtype in has else "not in the schema")
    yield from table(["op", *(dtype_name(dtype) for dtype in HALVES)], rows, 1 + len(HALVES))


# Command


def add_parser(commands: Any) -> None:
    """Adds numerics to an argparse subparsers object."""
    made = commands.add_parser("numerics", help="write docs/numerics.md from certificates, ref and ONNX Runtime")
    made.add_argument("page", type=Path, metavar="PAGE", help="the file to write")
    made.add_argument("--check", action="store_true", help="write nothing; 1 if the file is not what it would be")
    made.add_argument("--certificates", type=Path, default=certificate.FOLDER, metavar="FOLDER", help="other ones")
    made.add_argument("--results", type=Path, default=RESULTS, metavar="FILE", help="other results of ONNX Runtime")
    made.add_argument("--sums", type=Path, default=sums.RESULTS, metavar="FILE", help="other results of ortwin sums")
    made.add_argument("--ort", action="store_true", help="run ONNX Runtime, and write the results first")
    made.set_defaults(function=command)


def command(args: argparse.Namespace) -> int:
    """Runs the command."""
    if args.ort and args.check:
        raise PageError("--check writes nothing, and --ort does")
    if args.ort:
        args.results.write_text(run_ort().text(), "utf-8")
    found = text(load(args.certificates), read(args.results), sums.read(args.sums))
    if args.check:
        same = args.page.read_text("utf-8") == found
        say(f"{args.page} is {'as its sources make it' if same else 'not what its sources make it'}")
        return 0 if same else 1
    args.page.write_text(found, "utf-8")
    return 0


def load(folder: Path) -> dict[str, Certificate]:
    """The certificates of a folder that are valid. PageError for one that contradicts itself."""
    found = {name: certificate.read(path) for name, path in certificate.shipped(folder).items()}
    for name, made in found.items():
        if wrong := made.contradictions():
            raise PageError(f"the certificate {name}: {'; '.join(wrong)}")
    return found
