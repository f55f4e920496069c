"""Products with weights of a few bits, and what they must give, step by step from Python's fractions: for tests."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from quantised import run

Array = npt.NDArray[Any]

F32, F16, BF16 = np.dtype(np.float32), np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)


@dataclass(frozen=True)
class Problem:
    """Operands and attributes of a MatMulNBits; a.shape is (M, K), or another whose last dimension is K."""

    a: Array
    b: Array
    scales: Array
    zero_points: Array | None = None
    groups: Array | None = None
    bias: Array | None = None
    bits: int = 4
    block_size: int = 16
    level: int = 0

    @property
    def inputs(self) -> list[Array | None]:
        """As the node has them."""
        return [self.a, self.b, self.scales, self.zero_points, self.groups, self.bias]

    @property
    def attributes(self) -> dict[str, Any]:
        """As the node has them."""
        return {
            "K": self.a.shape[-1],
            "N": self.b.shape[0],
            "bits": self.bits,
            "block_size": self.block_size,
            "accuracy_level": self.level,
        }

    @property
    def integers(self) -> bool:
        """Whether activations are quantised."""
        packed = self.zero_points is None or self.zero_points.dtype == np.uint8
        return self.level == 4 and packed and self.groups is None and self.block_size <= 65536

    def by_reference(self, **options: Any) -> Array:
        """The result of the reference."""
        return run("MatMulNBits", self.inputs, domain="com.microsoft", **self.attributes, **options)[0]

    @functools.cached_property
    def weights(self) -> list[list[tuple[int, Fraction | None, float]]]:
        """Per column and k: q, the zero point (None if it is no finite number), and the scale."""
        k_size, columns = self.a.shape[-1], self.b.shape[0]
        blocks = -(-k_size // self.block_size)
        scales = wide(self.scales).reshape(columns, blocks)
        found: list[list[tuple[int, Fraction | None, float]]] = []
        for n in range(columns):
            whole = [int.from_bytes(self.b[n, block].tobytes(), "little") for block in range(blocks)]
            column: list[tuple[int, Fraction | None, float]] = []
            for k in range(k_size):
                q = whole[k // self.block_size] >> k % self.block_size * self.bits & 2**self.bits - 1
                group = k // self.block_size if self.groups is None else int(self.groups[k])
                column.append((q, self._zero_point(n, group, blocks), float(scales[n, group])))
            found.append(column)
        return found

    def _zero_point(self, n: int, group: int, blocks: int) -> Fraction | None:
        if self.zero_points is None:
            return Fraction(2 ** (self.bits - 1))
        line = self.zero_points.reshape(self.b.shape[0], -1)[n]
        if line.dtype == np.uint8:
            return Fraction(int.from_bytes(line.tobytes(), "little") >> group * self.bits & 2**self.bits - 1)
        zero = float(line[group])
        return Fraction(zero) if math.isfinite(zero) else None

    def products(self) -> Iterator[float]:
        """The results before they are rounded to A's type, each step of them rounded once to binary32."""
        rows = wide(self.a).reshape(-1, self.a.shape[-1]).tolist()
        for row in rows:
            for n, column in enumerate(self.weights):
                total = self._total(row, column)
                yield total if self.bias is None else add(total, float(self.bias[n]))

    def _total(self, row: list[float], column: list[tuple[int, Fraction | None, float]]) -> float:
        total = 0.0
        for start in range(0, len(row), self.block_size):
            a, w = row[start : start + self.block_size], column[start : start + self.block_size]
            if self.integers:
                total = fma(*self._whole_sum(a, w), total)
                continue
            s = 0.0
            for x, (q, zero, scale) in zip(a, w, strict=True):
                difference = math.nan if zero is None else nearest(q - zero)
                s = fma(x, difference if self.groups is None else mul(difference, scale), s)
            total = add(total, s) if self.groups is not None else fma(s, w[0][2], total)
        return total

    def _whole_sum(self, a: list[float], w: list[tuple[int, Fraction | None, float]]) -> tuple[float, float]:
        if not all(map(math.isfinite, a)):
            return 0.0, math.nan
        sa = nearest(Fraction(max(map(abs, a))) / 127)
        qa = [0 if sa == 0.0 else max(-127, min(127, round(Fraction(nearest(Fraction(x) / Fraction(sa)))))) for x in a]
        d = sum((x * (q - (zero or 0)) for x, (q, zero, _) in zip(qa, w, strict=True)), start=Fraction(0))
        return nearest(Fraction(d)), mul(sa, w[0][2])

    def expected(self) -> Array:
        """The result, to the bit."""
        return narrowed(list(self.products()), self.a.dtype).reshape(*self.a.shape[:-1], self.b.shape[0])

    def exact(self) -> tuple[Array, Array]:
        """A times the exact weights, plus the bias, in binary64, and the same of all absolute values."""
        w = np.array([[float(q - (zero or 0)) * scale for q, zero, scale in column] for column in self.weights]).T
        a = wide(self.a)
        bias = np.zeros(self.b.shape[0]) if self.bias is None else wide(self.bias)
        return np.asarray(a @ w + bias), np.asarray(np.abs(a) @ np.abs(w) + np.abs(bias))


def wide(array: Array) -> Array:
    """As binary64."""
    return np.asarray(array.astype(np.float64))


def nearest(x: Fraction) -> float:
    """The nearest binary32 number, ties to even; beyond the largest, infinity. A zero has the sign of x, + if 0."""
    if x == 0:
        return 0.0
    exponent = abs(x.numerator).bit_length() - x.denominator.bit_length()
    exponent -= abs(x) < Fraction(2) ** exponent
    unit = Fraction(2) ** max(exponent - 23, -149)
    magnitude = round(abs(x) / unit) * unit
    return math.copysign(math.inf if magnitude >= 2**128 else float(magnitude), -1.0 if x < 0 else 1.0)


def fma(a: float, b: float, c: float) -> float:
    """a * b + c of binary32 numbers with one rounding. In binary64 it has the right zeros, infinities and NaNs."""
    rough = a * b + c
    if not all(map(math.isfinite, (a, b, c))):
        return rough
    whole = Fraction(a) * Fraction(b) + Fraction(c)
    return nearest(whole) if whole else rough


def add(a: float, b: float) -> float:
    return fma(a, 1.0, b)


def mul(a: float, b: float) -> float:
    """a * b; a sum with a zero of its own sign keeps a product's zero as it is."""
    return fma(a, b, math.copysign(0.0, math.copysign(1.0, a) * math.copysign(1.0, b)))


def narrowed(values: list[float], dtype: Any) -> Array:
    """binary32 numbers in a type, rounded once, with NaNs canonical."""
    found = np.array(values, np.float32)
    found[np.isnan(found)] = np.nan
    made = np.asarray(found.astype(dtype))
    bits = made.view(np.uint32 if made.itemsize == 4 else np.uint16)
    bits[np.isnan(found)] = {F32: 0x7FC00000, F16: 0x7E00, BF16: 0x7FC0}[np.dtype(dtype)]
    return made


def problem(
    rng: np.random.Generator,
    m: int,
    k: int,
    n: int,
    *,
    zero_points: str = "none",
    groups: str = "none",
    bias: bool = False,
    dtype: Any = F32,
    bits: int = 4,
    block_size: int = 16,
    level: int = 0,
    flat: bool = False,
) -> Problem:
    """One of these sizes. zero_points: none, packed or float; groups: none, short (K) or padded. flat: 1-D scales and
    zero points. Padding is random."""
    blocks = -(-k // block_size)
    a, scales = rng.normal(size=(m, k)), (rng.random((n, blocks)) + 0.1) * rng.choice([-1, 1], (n, blocks)) / 2**bits
    zeros = {
        "none": None,
        "packed": rng.integers(0, 256, (n, -(-blocks * bits // 8))).astype(np.uint8),
        "float": (rng.random((n, blocks)) * 2**bits).astype(dtype),
    }[zero_points]
    spread = rng.integers(0, blocks, k if groups == "short" else blocks * block_size).astype(np.int32)
    return Problem(
        a.astype(dtype),
        rng.integers(0, 256, (n, blocks, block_size * bits // 8)).astype(np.uint8),
        scales.astype(dtype).reshape(-1 if flat else scales.shape),
        zeros.reshape(-1) if flat and zeros is not None else zeros,
        None if groups == "none" else spread,
        rng.normal(size=n).astype(dtype) if bias else None,
        bits,
        block_size,
        level,
    )
