"""What is swept: the reference, the C library on an instruction set, ONNX Runtime's CPU provider, a plugin by path.

An arm maps float32 arrays of one chunk to arrays of the same size. Its ``build`` says which code it is, so that blocks
from different code are never put together.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from onnx.helper import tensor_dtype_to_np_dtype

from ortwin import ref
from ortwin.conformance import plugins
from ortwin.conformance.sweep.cases import Case
from ortwin.fast.library import IsaError, LibraryError, isas, library_path
from ortwin.fast.ort import onnxruntime
from ortwin.fast.session import Session
from ortwin.ref.errors import OrtwinError
from ortwin.ref.fenv import DefaultEnvironment
from ortwin.ref.graph import load
from ortwin.ref.ops import lookup
from ortwin.ref.tensor import FLOAT, Tensor

Bits = npt.NDArray[np.uint32]
Floats = npt.NDArray[np.float32]
HALF_PATTERNS: Final = 1 << 16

REFERENCE: Final = "ref"
ORT: Final = "ort-cpu"


class ArmError(OrtwinError):
    """An arm does not exist, or does not run the case."""


class Arm:
    """A function under test. ours: held to the reference's bits."""

    ours = False

    def __init__(self, name: str, build: str) -> None:
        self.name = name
        self.build = build

    def compute(self, x: Any) -> Any:
        """f(x) for float32, or for the bits of another element type as unsigned integers; an array of its own."""
        raise NotImplementedError


class Reference(Arm):
    """The reference's compiled map, called without a session: bytes in, bytes out."""

    ours = True

    def __init__(self, case: Case, dtype: int = FLOAT) -> None:
        super().__init__(REFERENCE, reference_build())
        self._dtype = dtype
        self._kernel = lookup(load(case.model(dtype)).nodes[0])

    def compute(self, x: Any) -> Any:
        data = x.astype(x.dtype.newbyteorder("<"), copy=False).tobytes()
        with DefaultEnvironment():
            (y,) = self._kernel.run([Tensor(self._dtype, x.shape, data)])
        return np.frombuffer(y.data, x.dtype.newbyteorder("<")).astype(x.dtype, copy=False)


class Library(Arm):
    """The C library on one instruction set."""

    ours = True

    def __init__(self, case: Case, isa: str, dtype: int = FLOAT) -> None:
        super().__init__(isa, library_build())
        self._dtype = np.dtype(tensor_dtype_to_np_dtype(dtype))
        self._session = Session(case.model(dtype), isa=isa)

    def compute(self, x: Any) -> Any:
        y = np.empty_like(x)
        self._session.run_into({"y": y.view(self._dtype)}, {"x": x.view(self._dtype)})
        return y


class Foreign(Arm):
    """A provider inside ONNX Runtime, its optimiser off; ArmError if anybody else would execute the node."""

    def __init__(self, name: str, case: Case, isa: str | None = None) -> None:
        name, _, path = name.partition("=")
        version = f"onnxruntime {onnxruntime().__version__}"
        model = case.model().SerializeToString()
        try:
            if path:
                plugin = plugins.load(name, path)
                version = f"{name} {file_digest(Path(path))} in {version}"
                self._session = plugins.plugin_session(plugin, model, 1, isa)
                strangers = [node for node in plugins.assigned_nodes(self._session) if node[0] != plugin.ep_name]
                if strangers or not plugins.assigned_nodes(self._session):
                    raise ArmError(f"{name} does not execute {case.name}: {strangers[:1] or 'no node is assigned'}")
            else:
                self._session = plugins.cpu_session(model, 1, "as-written")
        except OrtwinError:
            raise
        except Exception as error:  # whatever ONNX Runtime or a plugin raises says why the arm has no such op
            raise ArmError(f"{name} does not run {case.name}: {' '.join(str(error).split())[:200]}") from error
        super().__init__(name, version)

    def compute(self, x: Any) -> Any:
        (y,) = self._session.run(None, {"x": x})
        return np.asarray(y)


def make(name: str, case: Case, dtype: int = FLOAT) -> Arm:
    """The arm of a name: ref, an instruction set, ort-cpu, or NAME=PATH of a plugin (these two on float32 alone)."""
    check([name])
    if name == REFERENCE:
        return Reference(case, dtype)
    if name == ORT or "=" in name:
        return Foreign(name, case)
    return Library(case, name, dtype)


def check(names: Iterable[str]) -> None:
    """IsaError or ArmError if a name stands for no arm on this machine, before anything is computed."""
    known = isas()
    for name in names:
        label, equals, path = name.partition("=")
        if equals:
            if not label or label in (REFERENCE, ORT, *known):
                raise ArmError(f"'{name}' must be NAME=PATH with a name of its own")
            if not Path(path).is_file():
                raise LibraryError(f"there is no library {path}")
        elif name == ORT:
            onnxruntime()
        elif name != REFERENCE:
            if name not in known:
                raise IsaError(f"'{name}' is no arm: choose {REFERENCE}, {', '.join(known)}, {ORT} or NAME=PATH")
            if known[name]:
                raise IsaError(f"{name} is not available: {known[name]}")


def label(name: str) -> str:
    """What an arm is called in results."""
    return name.partition("=")[0]


def ours() -> list[str]:
    """The reference and every instruction set of this machine."""
    return [REFERENCE, *(name for name, why in isas().items() if not why)]


def host() -> str:
    """The widest instruction set of this machine that ours uses."""
    return next(name for name, why in isas().items() if not why)


@functools.cache
def reference_build() -> str:
    """A digest of the reference's sources."""
    digest = hashlib.blake2b(digest_size=8)
    for path in sorted(Path(ref.__file__).parent.glob("*.py")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


@functools.cache
def library_build() -> str:
    """A digest of the shared object."""
    return file_digest(library_path())


def file_digest(path: Path) -> str:
    """Eight bytes of BLAKE2b of a file."""
    return hashlib.blake2b(path.read_bytes(), digest_size=8).hexdigest()
