"""The calling thread's floating-point control state (C4).

A program, or a library it loads, may have set flush-to-zero, denormals-are-zero or another rounding mode on the thread
we are called on. Python computes with whatever it finds, so a run saves the state, sets the default and restores it.
"""

from __future__ import annotations

import ctypes
import ctypes.util
from types import TracebackType
from typing import Final

_LIBM: Final = ctypes.CDLL(ctypes.util.find_library("m") or "libm.so.6")
_FE_DFL_ENV: Final = ctypes.c_void_p(-1)  # FE_DFL_ENV: to nearest even, no flushing
_FENV_BYTES: Final = 64  # at least sizeof(fenv_t) on every Linux target (x86-64: 32, aarch64: 8)


class DefaultEnvironment:
    """Context manager: IEEE 754 defaults inside, the caller's state afterwards."""

    def __init__(self) -> None:
        self._saved = ctypes.create_string_buffer(_FENV_BYTES)

    def __enter__(self) -> None:
        _LIBM.fegetenv(self._saved)
        _LIBM.fesetenv(_FE_DFL_ENV)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _LIBM.fesetenv(self._saved)
