"""The reference: readable Python that defines every result bit, compiled by mypyc for speed.

>>> Session("model.onnx").run(None, {"x": array})

This file stays uncompiled: a compiled package ``__init__`` imports itself without end.
"""

from ortwin.ref.errors import InputError, ModelError, OrtwinError, SizeError, UnsupportedError
from ortwin.ref.graph import load
from ortwin.ref.session import Session

__all__ = ["InputError", "ModelError", "OrtwinError", "Session", "SizeError", "UnsupportedError", "load"]
