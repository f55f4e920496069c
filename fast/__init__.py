"""The C library: models on AVX-512, AVX2 or plain C kernels, directly or as an execution provider of ONNX Runtime.

>>> Session("model.onnx").run(None, {"x": array})          # the same call, and the same bits, as ortwin.ref.Session
>>> ort_session("model.onnx").run(None, {"x": array})      # inside ONNX Runtime
"""

from ortwin.fast.library import IsaError, LibraryError, counters, isas, library_path, serial
from ortwin.fast.ort import ort_session, register, unregister
from ortwin.fast.session import Session

__all__ = [
    "IsaError",
    "LibraryError",
    "Session",
    "counters",
    "isas",
    "library_path",
    "ort_session",
    "register",
    "serial",
    "unregister",
]
