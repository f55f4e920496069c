"""The C products of 8-bit matrices, called directly: for tests of what no plan reaches yet or can vary."""

from __future__ import annotations

import ctypes
import functools
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ortwin.fast.library import CError, CTensor
from ortwin.ref.tensor import dtype_number

Array = npt.NDArray[Any]

ROOT: Final = Path(__file__).resolve().parent.parent
SUMS, QUANTISED, FLOATS = 0, 1, 2
NAMES: Final = ("a", "a_zero", "a_scale", "b", "b_zero", "b_scale", "y_zero", "y_scale", "bias")
ISA_NUMBERS: Final = {"portable": 0, "avx2": 1, "avx512": 2}


class COperands(ctypes.Structure):
    _fields_ = tuple((name, ctypes.POINTER(CTensor)) for name in NAMES)


def c_tensor(array: Array) -> CTensor:
    """A view of the array, which must outlive it."""
    dims = (ctypes.c_int64 * array.ndim)(*array.shape)
    return CTensor(array.ctypes.data, dims, array.ndim, array.nbytes, dtype_number(array.dtype))


def compile_driver(path: Path, sanitize: bool = False) -> None:
    """csrc with tests/products_driver.c, as a shared object of its own."""
    script = (
        "import build_flags as b, subprocess, sys; s = sys.argv[2] == 'True'; "
        "f = [x for x in b.sources() if not x.startswith('csrc/ort/')]; "
        "subprocess.run([*b.compiler(), *b.compile_flags(s), *f, 'tests/products_driver.c', *b.link_flags(s), "
        "'-o', sys.argv[1]], check=True, cwd=b.ROOT)"
    )
    subprocess.run([sys.executable, "-c", script, str(path), str(sanitize)], cwd=ROOT / "csrc", check=True)


@functools.cache
def driver() -> Any:
    """The driver, compiled once per test process."""
    given = os.environ.get("ORTWIN_PRODUCTS_DRIVER")  # compiled before, such as with a sanitizer
    path = Path(given) if given else Path(tempfile.mkdtemp()) / "driver.so"
    if not given:
        compile_driver(path)
    dll = ctypes.CDLL(str(path))
    dll.driver_pieces.restype = ctypes.c_size_t
    dll.driver_take.restype = ctypes.c_void_p
    dll.driver_give.argtypes = (ctypes.c_void_p,)
    dll.driver_budget.argtypes = (ctypes.c_uint64,)
    dll.driver_budget.restype = dll.driver_totals.restype = dll.driver_give.restype = None
    return dll


def product(
    isa: str, kind: int, operands: Mapping[str, Array], shape: tuple[int, ...], packed: bool, threads: int = 1
) -> Array:
    """The result on an instruction set, with B packed ahead or not, in a buffer with guards around it."""
    dtype = np.dtype(np.int32) if kind == SUMS else operands["y_zero" if kind == QUANTISED else "a_scale"].dtype
    room = np.full(int(np.prod(shape)) * dtype.itemsize + 128, 0xA5, np.uint8)
    y = room[64:-64].view(dtype).reshape(shape)
    held = {name: c_tensor(array) for name, array in operands.items()}
    pointers = COperands(**{name: ctypes.pointer(tensor) for name, tensor in held.items()})
    error = CError()
    status = driver().driver_product(
        ISA_NUMBERS[isa],
        kind,
        ctypes.byref(pointers),
        int(packed),
        threads,
        ctypes.byref(c_tensor(y)),
        ctypes.byref(error),
    )
    assert status == 0, (status, error.text)
    assert np.all(room[:64] == 0xA5), "written before the result"
    assert np.all(room[-64:] == 0xA5), "written behind the result"
    return y
