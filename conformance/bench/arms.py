"""The arms of a cell: sessions bound to the same input and output buffers, or the reason why an arm is refused.

An arm gets a ratio only if ONNX Runtime says that it owns every node, its own counter (where it has one) says that it
executed them, it runs on as many CPUs as it has threads, and its outputs are right: builds of ours to the bit, others
reported in ulp and absolute difference.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ortwin.conformance import ortvalues, plugins
from ortwin.conformance.bench import host
from ortwin.conformance.bench.cells import Cell, Made
from ortwin.fast.library import Library
from ortwin.ref.errors import OrtwinError, UnsupportedError
from ortwin.ref.session import Session as Reference
from ortwin.ref.tensor import FLOATS, dtype_number

Array = npt.NDArray[Any]

CONTROL: Final = "ort"
AGAIN: Final = "ort again"
"""The control a second time: its ratio is 1 but for noise, which gives the null band."""


@dataclass(frozen=True)
class Arm:
    """How to make a session. ep_name and library tell what to hold it to; both None for ONNX Runtime's own."""

    name: str
    make: Callable[[bytes, int], Any]
    ep_name: str | None = None
    library: Library | None = None


@dataclass(frozen=True)
class Bound:
    """An arm ready to be timed."""

    session: Any
    binding: Any

    def run(self) -> None:
        """One run, from the shared inputs to the shared outputs."""
        self.session.run_with_iobinding(self.binding)


@dataclass(frozen=True)
class Difference:
    """Outputs of two arms: largest distance in ulp of the control's result, largest absolute difference."""

    ulp: float
    absolute: float


def control(graph_optimization: str) -> list[Arm]:
    """ONNX Runtime's CPU provider, twice."""

    def make(model: bytes, threads: int) -> Any:
        return plugins.cpu_session(model, threads, graph_optimization)

    return [Arm(CONTROL, make), Arm(AGAIN, make)]


def plugin(name: str, path: str, isa: str | None = None) -> Arm:
    """A plugin by path, ours or not."""
    loaded = plugins.load(name.split(":")[0], path)

    def make(model: bytes, threads: int) -> Any:
        return plugins.plugin_session(loaded, model, threads, isa)

    return Arm(name, make, loaded.ep_name, loaded.library)


class Refused(OrtwinError):
    """An arm that would not measure what its name says."""


class Rig:
    """One cell's buffers and arms, the control first. bound: the arms to time; refused: reasons by arm; differences: by
    arm, from the control."""

    def __init__(self, cell: Cell, arms: Sequence[Arm], threads: int) -> None:
        self.cell = cell
        self.threads = threads
        self.bound: dict[str, Bound] = {}
        self.refused: dict[str, str] = {}
        self.differences: dict[str, Difference] = {}
        made = cell.make()
        self._model = made.model
        self._feeds = {name: np.ascontiguousarray(array) if array.ndim else array for name, array in made.feeds.items()}
        self._expected = _reference(made)
        self.outputs: list[tuple[str, Array]] = []
        control_outputs: list[Array] = []
        for arm in arms:
            try:
                bound = self._bind(arm)
            except Refused as error:
                self.refused[arm.name] = str(error)
                continue
            if not control_outputs:
                control_outputs = [array.copy() for _, array in self.outputs]
            try:
                self._compare(arm, control_outputs)
            except Refused as error:
                self.refused[arm.name] = str(error)
                continue
            self.bound[arm.name] = bound
        if arms[0].name not in self.bound:
            self.differences.clear()  # from what another arm gave

    def copy(self) -> None:
        """A memcpy of the cell's first input to its first output: the least an elementwise op can cost."""
        source, target = next(iter(self._feeds.values())), self.outputs[0][1]
        np.copyto(target.reshape(-1)[: source.size], source.reshape(-1)[: target.size], casting="unsafe")

    def _bind(self, arm: Arm) -> Bound:
        try:
            session = arm.make(self._model, self.threads)
        except Exception as error:  # whatever ONNX Runtime or a plugin raises is this arm's reason
            raise Refused(f"no session: {_first_sentence(error)}") from error
        self._check_ownership(arm, session)
        if not self.outputs:
            self.outputs = list(ortvalues.run(session, self._feeds).items())
        binding = session.io_binding()
        for name, array in self._feeds.items():  # by ONNX's number: ONNX Runtime knows no numpy type for bfloat16
            binding.bind_input(name, "cpu", 0, dtype_number(array.dtype), array.shape, array.ctypes.data)
        for name, array in self.outputs:
            binding.bind_output(name, "cpu", 0, dtype_number(array.dtype), array.shape, array.ctypes.data)
        bound = Bound(session, binding)
        before = arm.library.counters()["nodes_executed"] if arm.library else 0
        for _, array in self.outputs:
            array.reshape(-1).view(np.uint8)[:] = 0xA5  # so that an output that is not written shows
        try:
            bound.run()
        except Exception as error:
            raise Refused(f"the run failed: {_first_sentence(error)}") from error
        if arm.library:
            executed = arm.library.counters()["nodes_executed"] - before
            if executed != self.cell.nodes:
                raise Refused(f"ownership: {executed} of {self.cell.nodes} nodes were executed by its counter")
        broken = host.parity_broken(self.threads)
        if broken:
            raise Refused(broken)
        return bound

    def _check_ownership(self, arm: Arm, session: Any) -> None:
        if arm.ep_name is None:
            return
        nodes = plugins.assigned_nodes(session)
        strangers = Counter(op for provider, _, op in nodes if provider != arm.ep_name)
        if strangers or len(nodes) != self.cell.nodes:
            others = ", ".join(sorted(strangers))
            raise Refused(
                f"ownership: it has {len(nodes) - strangers.total()} of {self.cell.nodes} nodes"
                + (f"; others have {others}" if others else "")
            )

    def _compare(self, arm: Arm, control_outputs: Sequence[Array]) -> None:
        if arm.library and self._expected is not None:
            for (name, got), expected in zip(self.outputs, self._expected, strict=True):
                wrong = np.flatnonzero(_bits(got) != _bits(expected))
                if wrong.size:
                    raise Refused(f"wrong output: {wrong.size} bytes of '{name}' differ from the reference")
        pairs = [(got, c) for (_, got), c in zip(self.outputs, control_outputs, strict=True)]
        self.differences[arm.name] = Difference(
            max(ulp_distance(got, c) for got, c in pairs), max(absolute_distance(got, c) for got, c in pairs)
        )


def ulp_distance(a: Array, b: Array) -> float:
    """Largest distance in representable numbers of the type between equal places; 0 for equal bits or two NaNs.

    A NaN against a number is infinite, of integers it is the difference. What is neither an integer nor a float of at
    most 32 bits counts as equal or infinitely far.
    """
    if a.dtype.kind in "iu" and a.dtype == b.dtype and a.shape == b.shape:
        return absolute_distance(a, b)
    if dtype_number(a.dtype) not in FLOATS or a.dtype != b.dtype or a.shape != b.shape:
        return 0.0 if np.array_equal(_bits(a), _bits(b)) else float("inf")
    if not a.size:
        return 0.0
    bits = [x.view(f"i{a.itemsize}").astype(np.int64) for x in (a, b)]
    steps = [np.where(i < 0, -(1 << 8 * a.itemsize - 1) - i, i) for i in bits]
    nan = np.isnan(a), np.isnan(b)
    distance = np.abs(steps[0] - steps[1]).astype(np.float64)
    distance[nan[0] & nan[1]] = 0
    distance[nan[0] ^ nan[1]] = np.inf
    return float(distance.max())


def absolute_distance(a: Array, b: Array) -> float:
    """Largest absolute difference between equal places, 0 where both are equal or NaN."""
    if a.shape != b.shape or not a.size or a.dtype == np.bool_:
        return 0.0 if np.array_equal(a, b) else float("inf")
    x, y = a.astype(np.float64), b.astype(np.float64)
    with np.errstate(invalid="ignore"):
        distance = np.abs(x - y)
    distance[(x == y) | (np.isnan(x) & np.isnan(y))] = 0
    distance[np.isnan(distance)] = np.inf
    return float(distance.max())


def _reference(made: Made) -> list[Array] | None:
    """What the outputs must be to the bit; None where the reference has no such ops."""
    try:
        return Reference(made.model).run(None, made.feeds)
    except UnsupportedError:
        return None


def _bits(array: Array) -> npt.NDArray[np.uint8]:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _first_sentence(error: Exception) -> str:
    return " ".join(str(error).split())[:300]
