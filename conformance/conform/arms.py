"""Arms: everything that can be given a case. An arm knows nothing of where cases come from or what is expected.

    ref                 the reference, in this process
    ref:interpreted     the reference's source without mypyc, in a process of its own
    fast:ISA            the C library through ctypes, on an instruction set
    ep:ISA              the execution provider inside ONNX Runtime, without fallback
    ort-cpu             ONNX Runtime's own CPU provider, optimisations off
    NAME=PATH           any plugin for ONNX Runtime; a build of this library is held to the reference like ours

x and y lie at the byte offsets a case asks for, between guards. Foreign arms get x on its natural alignment and y
elsewhere: they promise no more. What an arm is not able to run on this machine is said in `unavailable`.
"""

from __future__ import annotations

import contextlib
import functools
import math
import pickle
import shutil
import subprocess
import sys
import tempfile
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

import numpy as np
import numpy.typing as npt
import onnx.helper

from ortwin import ref
from ortwin.conformance import plugins
from ortwin.conformance.conform import worker
from ortwin.conformance.conform.case import ALIGNMENT, Case, Operand, input_names, output_names
from ortwin.conformance.conform.outcome import Declined, Failed, Made, NotAsked, Outcome
from ortwin.conformance.conform.whole import PRODUCTS
from ortwin.conformance.ortvalues import quiet_options, sentence
from ortwin.fast import Session, isas, ort_session
from ortwin.fast.library import Library, LibraryError, default_library
from ortwin.fast.ort import onnxruntime
from ortwin.ref.errors import InputError, ModelError, OrtwinError, UnsupportedError
from ortwin.ref.graph import Value, load
from ortwin.ref.ops import OPS, lookup
from ortwin.ref.tensor import dtype_name, dtype_number

T = TypeVar("T")

KEPT: Final = 64
"""Sessions that an arm keeps for the next case."""

GUARD: Final = 0xA5
MARGIN: Final = 64
"""Bytes before and after an output that must not change."""

SHARED_TYPES: Final = 23
"""Up to this number, ONNX Runtime's interface has the element types of ONNX."""

INTERPRETED_MOST: Final = 1 << 16
"""Elements of the largest case that the interpreted reference is asked to run: more take minutes."""


class Arm:
    """A way to run cases. exact: held to the reference's bits; foreign arms are only measured.

    unavailable: the reason why it can't run on this machine, "" if it can.
    """

    def __init__(self, name: str, exact: bool = True, unavailable: str = "") -> None:
        self.name = name
        self.exact = exact
        self.unavailable = unavailable

    def __call__(self, case: Case) -> Outcome:
        """What comes of the case."""
        try:
            return self.run(case)
        except OrtwinError as error:
            return Failed(str(error))

    def run(self, case: Case) -> Outcome:
        """As __call__, which takes an error for a failure."""
        raise NotImplementedError

    def close(self) -> None:
        """Frees what the arm holds."""


class Cache(Generic[T]):
    """The sessions last used, or the errors in their place, by what makes cases share a model."""

    def __init__(self, make: Callable[[Case], T]) -> None:
        self.make = make
        self.kept: OrderedDict[tuple[str, int], T | Exception] = OrderedDict()

    def __call__(self, case: Case) -> T:
        key = case.signature, case.threads
        if key not in self.kept:
            try:
                self.kept[key] = self.make(case)
            except Exception as error:  # raised below, now and again
                self.kept[key] = error
            if len(self.kept) > KEPT:
                self.kept.popitem(last=False)
        self.kept.move_to_end(key)
        kept = self.kept[key]
        if isinstance(kept, Exception):
            raise kept
        return kept


model_of: Final = Cache(Case.model)
"""The models of the cases last run, which arms share."""


kernel_of: Final = Cache(lambda case: lookup(load(model_of(case)).nodes[0]))
"""The reference's rules for their nodes."""


def results(case: Case) -> list[tuple[int, tuple[int, ...]]] | None:
    """Types and shapes of the outputs, for which an arm needs memory: x's, of an elementwise op, else by the rules of
    the reference. None if there are none, as the inputs break one."""
    op = OPS.get((case.domain, case.op))
    if op is None or op.elementwise:
        return [(case.x.dtype, case.x.shape)]
    names = input_names(len(case.inputs))
    known = [None if i is None else Value(n, i.dtype, i.shape) for n, i in zip(names, case.inputs, strict=True)]
    try:
        kernel = kernel_of(case)
    except (UnsupportedError, ModelError):
        return None
    if kernel.broken_rule(known):
        return None
    made = kernel.outputs(known)
    return [(value.dtype, tuple(dim for dim in value.shape or () if isinstance(dim, int))) for value in made]


class Target:
    """Memory for an output between guards, filled with what it will not hold; or in that of x."""

    def __init__(self, dtype: int, shape: tuple[int, ...], offset: int, place: npt.NDArray[np.uint8] | None) -> None:
        self.dtype, self.shape = dtype, shape
        native = onnx.helper.tensor_dtype_to_np_dtype(dtype)
        size = math.prod(shape) * native.itemsize
        self.room = _aligned(size) if place is None else place
        self.start, self.end = MARGIN + offset, MARGIN + offset + size
        self.y = self.room[self.start : self.end].view(native).reshape(shape)

    @property
    def intact(self) -> bool:
        """Whether nothing around the output was written."""
        return bool((self.room[: self.start] == GUARD).all() and (self.room[self.end :] == GUARD).all())


class Buffers:
    """x and the outputs of a case in memory, y being x's where the case is in place."""

    def __init__(
        self,
        case: Case,
        offset: int,
        output_offset: int,
        in_place: bool,
        outputs: Sequence[tuple[int, tuple[int, ...]]] = (),
    ) -> None:
        self.case = case
        size = len(case.x.data)
        dtype = onnx.helper.tensor_dtype_to_np_dtype(case.x.dtype)
        self.source = _aligned(size)
        first = MARGIN + offset
        self.source[first : first + size] = np.frombuffer(case.x.data, np.uint8)
        self.read = slice(first, first + size)
        self.x = self.source[first : first + size].view(dtype).reshape(case.x.shape)
        place = self.source if in_place else None
        self.targets = [
            Target(dtype, shape, output_offset, place) for dtype, shape in outputs or [(case.x.dtype, case.x.shape)]
        ]

    @property
    def outputs(self) -> dict[str, npt.NDArray[Any]]:
        """The outputs' arrays by name."""
        return dict(zip(output_names(len(self.targets)), (target.y for target in self.targets), strict=True))

    def made(self) -> Made:
        """What the outputs hold, and whether anything else was written."""
        damage = ""
        if not all(target.intact for target in self.targets):
            damage = "bytes outside the output were written"
        elif self.targets[0].room is not self.source and self.source[self.read].tobytes() != self.case.x.data:
            damage = "the input was changed"
        first, *others = (Operand(target.dtype, target.shape, target.y.tobytes()) for target in self.targets)
        return Made(first, damage, tuple(others))


def _aligned(size: int) -> npt.NDArray[np.uint8]:
    """Guard bytes from an aligned address on: a margin, the most an offset can be, the size, a margin."""
    whole = np.full(size + 2 * MARGIN + 2 * ALIGNMENT, GUARD, np.uint8)
    skip = -whole.ctypes.data % ALIGNMENT
    return whole[skip : skip + size + 2 * MARGIN + ALIGNMENT]


class Reference(Arm):
    """ref: arrays are copied, so offset and in-place don't reach it."""

    def __init__(self) -> None:
        super().__init__("ref")
        self._session = Cache(lambda case: ref.Session(model_of(case)))

    def run(self, case: Case) -> Outcome:
        try:
            first, *others = map(_operand, self._session(case).run(None, case.feeds))
        except (UnsupportedError, ModelError, InputError) as error:
            return Declined(str(error))
        return Made(first, others=tuple(others))


def _operand(array: npt.NDArray[Any]) -> Operand:
    return Operand(dtype_number(array.dtype), array.shape, array.tobytes())


def _work(case: Case) -> int:
    """Elements of x, or an upper bound of the products that are summed up."""
    outputs = results(case) if case.op in PRODUCTS else None
    return max(case.x.size, math.prod(outputs[0][1]) * max(case.x.shape, default=1) if outputs else 0)


class Interpreted(Arm):
    """ref:interpreted. A compiled module beside its source wins on import, so the source is copied elsewhere."""

    def __init__(self) -> None:
        super().__init__("ref:interpreted")
        self._process: subprocess.Popen[bytes] | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def run(self, case: Case) -> Outcome:
        if _work(case) > INTERPRETED_MOST:
            return NotAsked(f"more than {INTERPRETED_MOST} elements take an interpreter too long")
        process = self._process or self._start()
        assert process.stdin is not None
        feeds = {name: np.array(array) for name, array in case.feeds.items()}
        try:
            pickle.dump((model_of(case), feeds), process.stdin)
            process.stdin.flush()
        except BrokenPipeError:
            self._ended()
        kind, *rest = self._answer()
        if kind == "declined" or kind == "failed":
            return Declined(rest[0])
        first, *others = (Operand(dtype_number(dtype), shape, data) for dtype, shape, data in rest)
        return Made(first, others=tuple(others))

    def _start(self) -> subprocess.Popen[bytes]:
        self._folder = tempfile.TemporaryDirectory(prefix="ortwin-interpreted-")
        folder = Path(self._folder.name)
        package = folder / "ortwin"
        package.mkdir()
        shutil.copytree(Path(ref.__file__).parent, package / "ref", ignore=_all_but_python)
        (package / "__init__.py").write_text("", encoding="utf-8")
        script = shutil.copy(worker.__file__, folder / "worker.py")
        command = [sys.executable, str(script)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        where = self._answer()
        if Path(where).parent != package / "ref" or not where.endswith(".py"):
            raise LibraryError(f"the interpreted reference was imported from {where}")
        return self._process

    def _answer(self) -> Any:
        assert self._process is not None
        assert self._process.stdout is not None
        try:
            return pickle.load(self._process.stdout)
        except EOFError:
            return self._ended()

    def _ended(self) -> Any:
        assert self._process is not None
        assert self._process.stderr is not None
        said = self._process.stderr.read().decode(errors="replace").strip().splitlines()
        self.close()
        raise LibraryError(f"the interpreted reference ended: {said[-1] if said else 'it said nothing'}")

    def close(self) -> None:
        if self._process is not None:
            for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
                assert pipe is not None
                with contextlib.suppress(BrokenPipeError):  # what was not sent when it ended
                    pipe.close()
            self._process.wait()
            self._process = None
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None


def _all_but_python(_folder: str, names: list[str]) -> list[str]:
    return [name for name in names if not name.endswith(".py")]


class Fast(Arm):
    """fast:ISA."""

    def __init__(self, isa: str) -> None:
        super().__init__(f"fast:{isa}", unavailable=isas()[isa])
        self._session = Cache(lambda case: Session(model_of(case), case.threads, isa))

    def run(self, case: Case) -> Outcome:
        try:
            session = self._session(case)
            outputs = results(case)
            if outputs is None:
                session.run(None, case.feeds)
                return Made(case.x)  # whatever it made: the reference declines
            buffers = Buffers(case, case.offset, case.output_offset, case.in_place, outputs)
            session.run_into(buffers.outputs, {**case.feeds, "x": buffers.x})
        except (UnsupportedError, ModelError, InputError) as error:
            return Declined(str(error))
        return buffers.made()


class InOrt(Arm):
    """A session of ONNX Runtime per model, called with the memory of the case."""

    def __init__(self, name: str, exact: bool, make: Callable[[Case], Any], library: Library | None) -> None:
        super().__init__(name, exact)
        self._library = library
        self._session = Cache(make)

    def run(self, case: Case) -> Outcome:
        if any(item is not None and item.dtype > SHARED_TYPES for item in case.inputs):
            return NotAsked(f"ONNX Runtime's interface has no {dtype_name(case.x.dtype)}")
        try:
            session = self._session(case)
        except (UnsupportedError, ModelError) as error:
            return Declined(str(error))
        except OrtwinError:
            raise
        except Exception as error:  # those of ONNX Runtime share no base
            if self.exact:
                return NotAsked(sentence(error))
            return Declined(sentence(error))
        outputs = results(case)
        if self.exact:
            buffers = Buffers(case, case.offset, case.output_offset, case.in_place, outputs or ())
        else:
            natural = case.offset - case.offset % max(1, len(case.x.data) // max(1, case.x.size))
            buffers = Buffers(case, natural, 0, False, outputs or ())
        executed = self._library.counters()["nodes_executed"] if self._library else 0
        try:
            _bind_and_run(session, case, buffers, outputs is not None)
        except Exception as error:
            return Declined(sentence(error))
        made = buffers.made()
        if self._library and self._library.counters()["nodes_executed"] != executed + 1:
            return Made(made.output, "the provider's counter says that it did not execute the node")
        return made


def _bind_and_run(session: Any, case: Case, buffers: Buffers, known: bool) -> None:
    """known: what the outputs will be, and so their memory is given; else it is left to ONNX Runtime."""
    binding = session.io_binding()
    feeds = {**case.feeds, "x": buffers.x}  # alive until the end of the run
    for (name, array), item in zip(feeds.items(), [i for i in case.inputs if i is not None], strict=False):
        binding.bind_input(name, "cpu", 0, item.dtype, list(array.shape), array.ctypes.data)
    for name, target in zip(output_names(len(case.result_types)), buffers.targets, strict=False):
        if known:
            binding.bind_output(name, "cpu", 0, target.dtype, list(target.shape), target.y.ctypes.data)
        else:
            binding.bind_output(name, "cpu")
    session.run_with_iobinding(binding)


def _check_owner(session: Any, case: Case, ep_name: str) -> None:
    """UnsupportedError unless the node itself was given to the provider: ONNX Runtime replaces a node that nobody
    claims by the body of its schema, of which the provider may get the nodes."""
    given = [(owner, op) for owner, _, op in plugins.assigned_nodes(session)]
    if given != [(ep_name, case.op)]:
        listed = ", ".join(f"{op} to {owner}" for owner, op in given)
        raise UnsupportedError(
            f"the node was not given to the provider; instead ONNX Runtime gave {listed or 'nothing'}"
        )


def provider(isa: str) -> Arm:
    """ep:ISA."""
    why = isas()[isa]
    if not why:
        try:
            onnxruntime()
        except OrtwinError as error:
            why = str(error)

    def session(case: Case, report: Path | None = None) -> Any:
        options = quiet_options()
        return ort_session(model_of(case), threads=case.threads, isa=isa, session_options=options, report=report)

    def make(case: Case) -> Any:
        try:
            made = session(case)
        except OrtwinError:
            raise
        except Exception as error:  # ONNX Runtime's; they share no base
            if was_asked(case):
                raise LibraryError(f"the provider claimed the node, but: {sentence(error)}") from error
            raise
        _check_owner(made, case, "ortwin")
        return made

    def was_asked(case: Case) -> bool:
        """Whether ONNX Runtime got as far as to offer the node."""
        with tempfile.TemporaryDirectory(prefix="ortwin-") as scratch:
            report = Path(scratch, "report")
            try:
                session(case, report)
            except Exception:
                return report.is_file() and bool(report.read_bytes())
        return True

    arm = InOrt(f"ep:{isa}", True, make, None if why else default_library())
    arm.unavailable = why
    return arm


def ort_cpu() -> Arm:
    """ort-cpu. OrtwinError without ONNX Runtime."""
    onnxruntime()

    def make(case: Case) -> Any:
        return plugins.cpu_session(model_of(case), case.threads, "as-written")

    return InOrt("ort-cpu", False, make, None)


def plugin(name: str, path: str) -> Arm:
    """NAME=PATH. LibraryError if there is no such plugin."""
    loaded = plugins.load(name, path)

    def make(case: Case) -> Any:
        session = plugins.plugin_session(loaded, model_of(case), case.threads)
        _check_owner(session, case, loaded.ep_name)
        return session

    return InOrt(name, loaded.library is not None, make, loaded.library)


def ours() -> dict[str, Callable[[], Arm]]:
    """The arms that are held to the reference, by name."""
    made: dict[str, Callable[[], Arm]] = {"ref": Reference, "ref:interpreted": Interpreted}
    made |= {f"fast:{isa}": functools.partial(Fast, isa) for isa in isas()}
    return made | {f"ep:{isa}": functools.partial(provider, isa) for isa in isas()}


def arm(text: str, known: Mapping[str, Callable[[], Arm]]) -> Arm:
    """The arm of a word on the command line. InputError if there is none of that name."""
    name, equals, path = text.partition("=")
    choices = {**known, "ort-cpu": ort_cpu}
    if equals and name in (*choices, "ortwin"):
        raise InputError(f"the arm name '{name}' is taken")
    if equals and name and path:
        return plugin(name, path)
    if text not in choices:
        raise InputError(f"there is no arm '{text}': choose {', '.join(choices)} or NAME=PATH of a plugin")
    return choices[text]()
