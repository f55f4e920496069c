"""Ops that move bits and compute nothing: every pattern survives, NaN payloads and signalling NaNs too (C3)."""

from __future__ import annotations

from collections.abc import Sequence

from ortwin.ref.kernel import Kernel
from ortwin.ref.tensor import Tensor


class Identity(Kernel):
    """ONNX Identity: the input."""

    def run(self, inputs: Sequence[Tensor | None]) -> list[Tensor]:
        x = inputs[0]
        assert x is not None
        return [x]
