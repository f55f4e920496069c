"""A sentence encoder in the forms that ONNX Runtime's own tools quantise it into: what the provider claims of each,
whether every node it executes has the reference's bits, and how long a run takes against ONNX Runtime alone.

`python -m ortwin.conformance.quantised`. The model (MiniLM, 6 layers) comes from a package, as those of the demo do.
ONNX Runtime folds its constants first, since the tools quantise only products by constants. Activations are uint8 and
weights int8, which is what ONNX Runtime's own kernels are fastest at; or weights have 4 bits. Exit code 1 if a bit
differs.
"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy.typing as npt
import onnx

from ortwin.conformance import copies, plugins
from ortwin.conformance.bench import host, statistics, timing
from ortwin.conformance.check import Result, check_model, show
from ortwin.conformance.cli import guard
from ortwin.conformance.inputs import make_feeds, read_model
from ortwin.conformance.models import ENCODER, fetch
from ortwin.conformance.ortvalues import quiet_options
from ortwin.conformance.tables import say, table, write_json
from ortwin.fast.ort import onnxruntime, ort_session

Feeds = dict[str, npt.NDArray[Any]]

CALIBRATION: Final = 4
"""Runs that tell the tools how far activations reach."""
CONTROL, AGAIN = "ort", "ort again"
LEVELS: Final = ("as-written", "all")
"""Levels of ONNX Runtime's optimiser in the provider's sessions; "all" fuses what the provider leaves."""


@dataclass(frozen=True)
class Form:
    """A form of the model. nodes: as ONNX Runtime has them; ratios: p50 to ONNX Runtime alone with all its
    optimisations, by level of the provider's session; band: how far from 1 a ratio of equals may lie."""

    name: str
    nodes: int
    claimed: int
    groups: int
    agree: bool
    ort_us: float
    ratios: dict[str, float]
    band: float


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m ortwin.conformance.quantised", description=__doc__)
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="threads; as many CPUs (default 1)")
    parser.add_argument("--sequence", type=int, metavar="N", help="tokens of the sentence (default 16)")
    parser.add_argument("--rounds", type=int, default=7, metavar="N", help="of measuring (default 7)")
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of tables")
    args = parser.parse_args(argv)
    return guard(lambda: run(args))


def run(args: argparse.Namespace) -> int:
    """Makes the forms, checks and measures each, and tells. 1 if any bit differs."""
    dims = {**ENCODER.dims, **({"sequence": args.sequence} if args.sequence else {})}
    source = fetch(ENCODER)
    host.pin(args.threads)
    with tempfile.TemporaryDirectory(prefix="ortwin-") as folder:
        found, results = [], []
        for name, path in forms(source, dims, Path(folder)).items():
            results.append(check_model(str(path), dims=dims, threads=args.threads))
            found.append(examine(name, path, dims, results[-1], args))
    if args.json:
        write_json({"model": ENCODER.requirement, "dims": dims, "forms": [asdict(form) for form in found]})
    else:
        _tell(found, results)
    return 0 if all(form.agree for form in found) else 1


def forms(source: Path, dims: Mapping[str, int], folder: Path) -> dict[str, Path]:
    """The forms by name, as files in the folder."""
    from onnxruntime import quantization as tools

    folded = folder / "float32.onnx"
    options = quiet_options()
    options.graph_optimization_level = onnxruntime().GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = str(folded)
    onnxruntime().InferenceSession(str(source), options, providers=["CPUExecutionProvider"])
    made = {"float32": folded, **{name: folder / f"{name}.onnx" for name in ("dynamic", "QOperator", "QDQ")}}
    products = {"weight_type": tools.QuantType.QInt8, "op_types_to_quantize": ["MatMul"]}
    with _quiet():
        tools.quantize_dynamic(folded, made["dynamic"], **products)
        for name in ("QOperator", "QDQ"):
            samples = _Samples(read_model(str(folded)), dims)
            shape = {"quant_format": tools.QuantFormat[name], "activation_type": tools.QuantType.QUInt8}
            tools.quantize_static(folded, made[name], samples, **shape, **products)
        made |= _blocked(folded, folder)
    return made


def _blocked(folded: Path, folder: Path) -> dict[str, Path]:
    """Weights of 4 bits by blocks of 32, for accuracy levels 0 and 4. None without the packages that the tool needs."""
    try:
        from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer
    except ImportError as error:
        print(f"no forms of 4 bits: {error} (pip install onnx_ir sympy)", file=sys.stderr)
        return {}
    made = {}
    for level in (0, 4):
        tool = MatMulNBitsQuantizer(onnx.load(folded), bits=4, block_size=32, is_symmetric=False, accuracy_level=level)
        tool.process()
        made[f"4 bits, level {level}"] = folder / f"nbits{level}.onnx"
        tool.model.save_model_to_file(str(made[f"4 bits, level {level}"]), False)
    return made


class _Samples:
    """What the tools calibrate with: they ask for one set of inputs after another."""

    def __init__(self, model: onnx.ModelProto, dims: Mapping[str, int]) -> None:
        self.left = iter([make_feeds(model, {}, dims, seed).arrays for seed in range(1, CALIBRATION + 1)])

    def get_next(self) -> Feeds | None:
        return next(self.left, None)


def examine(name: str, path: Path, dims: Mapping[str, int], checked: Result, args: argparse.Namespace) -> Form:
    """What there is to say of a form."""
    model = path.read_bytes()
    feeds = make_feeds(read_model(str(path)), {}, dims, 0).arrays
    sessions = {
        CONTROL: plugins.cpu_session(model, args.threads),
        AGAIN: plugins.cpu_session(model, args.threads),
        **{level: _session(model, args.threads, level) for level in LEVELS},
    }
    runs = {arm: _running(session, feeds) for arm, session in sessions.items()}
    taken = timing.measure(runs, args.threads, args.rounds)
    control = taken.samples[CONTROL]
    parts = sessions["as-written"].get_provider_graph_assignment_info()
    return Form(
        name,
        sum(len(part.get_nodes()) for part in parts),
        len(copies.claims(sessions["as-written"])),
        sum(part.ep_name == "ortwin" for part in parts),
        checked.agree,
        statistics.microseconds(control),
        {level: statistics.ratio(taken.samples[level], control).p50 for level in LEVELS},
        statistics.null_band(taken.samples[AGAIN], control),
    )


def _session(model: bytes, threads: int, level: str) -> Any:
    return ort_session(
        model, threads=threads, cpu_fallback=True, graph_optimization=level, session_options=quiet_options()
    )


def _running(session: Any, feeds: Feeds) -> Callable[[], None]:
    return lambda: session.run(None, feeds)


def _tell(found: Sequence[Form], results: Sequence[Result]) -> None:
    ratios = [f"ratio, {level}" for level in LEVELS]
    columns = ["form", "nodes", "claimed", "share", "groups", "bits", "ort µs", *ratios, "band ±"]
    rows = [
        [
            *(form.name, str(form.nodes), str(form.claimed), f"{form.claimed / form.nodes:.0%}", str(form.groups)),
            *("agree" if form.agree else "DIFFER", f"{form.ort_us:.0f}"),
            *(f"{form.ratios[level]:.3f}" for level in LEVELS),
            f"{form.band:.3f}",
        ]
        for form in found
    ]
    title = f"{ENCODER.requirement}: what the provider has of it, and time as a ratio to ONNX Runtime alone"
    table(title, columns, rows, [*columns[1:5], *columns[6:]])
    for form, result in zip(found, results, strict=True):
        listed = ", ".join(f"{row.nodes} {row.op}" for row in result.rows)
        say(f"{form.name}, compared: {listed}")
        if not form.agree:
            show(result)


@contextmanager
def _quiet() -> Iterator[None]:
    """The tools advise on the root logger."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)


if __name__ == "__main__":
    sys.exit(main())
