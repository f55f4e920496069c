"""What the fits share: binary32 rounding, least squares and minimax polynomials with binary32 coefficients, and the two
files that a fit writes, the C header of the kernels and the Python module of the reference.

Deterministic. Needs numpy and mpmath.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import mpmath as mp
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

ROOT = Path(__file__).resolve().parents[3]
mp.mp.prec = 140


def binary32(x: Any) -> float:
    """x rounded to binary64 and then to binary32: nearly always the nearest, which is all that a fit needs."""
    return float(np.float32(float(x)))


def ulp(x: Any) -> float:
    """The spacing of binary32 numbers at x."""
    return float(np.spacing(np.abs(np.float32(float(x)))))


def hexadecimal(x: float) -> str:
    """x as a hexadecimal float without trailing zeros."""
    if x == 0.0:
        return "0.0"
    mantissa, exponent = x.hex().split("p")
    return f"{mantissa.rstrip('0').rstrip('.')}p{exponent}"


def weighted_polynomial(t: Array, target: Array, weight: Array, degree: int) -> tuple[list[float], float]:
    """Coefficients, constant first, of the polynomial that minimises the squares of weight * (polynomial - target).

    They are rounded to binary32 one after the other, the others fitted again each time. Also the largest weighted
    error.
    """
    found: list[float] = []
    for k in range(degree + 1):
        powers = np.stack([t**i for i in range(k, degree + 1)], 1)
        scale = np.abs(powers).max(0)
        rest = target - sum(c * t**i for i, c in enumerate(found))
        solution = np.linalg.lstsq(powers / scale * weight[:, None], rest * weight, rcond=None)[0] / scale
        found.append(binary32(solution[0]))
    error = weight * (target - sum(c * t**i for i, c in enumerate(found)))
    return found, float(np.abs(error).max())


def minimax_polynomial(t: Array, target: Array, weight: Array, degree: int) -> tuple[list[float], float]:
    """The same for the maximum, by Lawson's iteration."""
    found: list[float] = []
    for k in range(degree + 1):
        rest = target - sum(c * t**i for i, c in enumerate(found))
        found.append(binary32(_lawson(t, rest, weight, range(k, degree + 1))[0]))
    error = weight * (sum(c * t**i for i, c in enumerate(found)) - target)
    return found, float(np.abs(error).max())


def _lawson(t: Array, target: Array, weight: Array, powers: Sequence[int], rounds: int = 60) -> Array:
    matrix = np.stack([t**p for p in powers], 1) * weight[:, None]
    right = target * weight
    scale = np.max(np.abs(matrix), 0)
    scale[scale == 0] = 1
    matrix = matrix / scale
    importance = np.ones(len(t)) / len(t)
    best, least = np.zeros(len(powers)), np.inf
    for _ in range(rounds):
        root = np.sqrt(importance)
        solution = np.linalg.lstsq(matrix * root[:, None], right * root, rcond=None)[0]
        error = np.abs(matrix @ solution - right)
        if error.max() < least:
            best, least = solution / scale, error.max()
        importance = importance * (error + 1e-3 * error.max() + 1e-300)
        importance /= importance.sum()
    return np.asarray(best)


def nodes(low: float, high: float, count: int = 160) -> Array:
    """Chebyshev nodes of an interval."""
    k = np.arange(count)
    return (low + high) / 2 + (high - low) / 2 * np.cos((2 * k + 1) * np.pi / (2 * count))


def valley(f: Callable[[Any], Any], start: float, radius: float) -> list[float]:
    """The row of a function around its minimum, which lies near start: t, radius^2, m, r, c2 to c6, so that
    f(t + d) = m + (r + d^2 (c2 + d (c3 + ...))) for |d| < radius."""
    turn = binary32(mp.findroot(lambda x: mp.diff(f, x), mp.mpf(start)))
    least = f(mp.mpf(turn))
    minimum = binary32(least)
    d = nodes(-radius, radius)
    values = [f(mp.mpf(turn) + mp.mpf(v)) for v in d]
    target = np.array([float((y - least) / mp.mpf(v) ** 2) for v, y in zip(d, values, strict=True)])
    weight = np.array([float(mp.mpf(v) ** 2 / abs(y)) for v, y in zip(d, values, strict=True)])
    coefficients, _ = minimax_polynomial(d, target, weight, 4)
    return [turn, binary32(radius * radius), minimum, binary32(least - minimum), *coefficients]


def octave_entry(v: float) -> int:
    """The entry of a segment that begins at v: exponent field and three mantissa bits, of which the low 5 count."""
    return int(np.float32(v).view(np.uint32)) >> 20 & 31


class Tables:
    """Collects constants and tables and writes them for both sides."""

    def __init__(self, name: str, about: str) -> None:
        self.name = name
        self.c = [f"/* {about} Made by fit/{name}.py. */", "/* clang-format off */"]
        self.python = [
            f'"""{about} Made by csrc/kernels/fit/{name}.py."""',
            "",
            "from __future__ import annotations",
            "",
            "from typing import Final",
            "",
            "from ortwin.ref.table import table",
            "",
        ]

    def constant(self, name: str, value: float, formula: str = "") -> None:
        """A number and what it is."""
        self.c.append(f"#define {name} {hexadecimal(value)}f" + (f" /* {formula} */" if formula else ""))
        self.python.append(
            f'{name}: Final = float.fromhex("{hexadecimal(value)}")' + (f"  # {formula}" if formula else "")
        )

    def table(self, name: str, values: Iterable[float], formula: str = "") -> None:
        """A table by a number of bits."""
        texts = [hexadecimal(v) for v in values]
        lines = [texts[i : i + 4] for i in range(0, len(texts), 4)]
        self.c += [f"/* {formula} */"] if formula else []
        self.c.append(f"static const float {name.lower()}[{len(texts)}] = {{")
        self.c += ["    " + ", ".join(f"{text}f" for text in line) + "," for line in lines]
        self.c.append("};")
        self._python_table(name, lines, formula)

    def segments(self, name: str, rows: Sequence[Sequence[float]], formula: str) -> None:
        """Centre and coefficients of 32 segments, in the order of their look-up."""
        texts = [[hexadecimal(v) for v in [*row, *[0.0] * (8 - len(row))]] for row in rows]
        self.c.append(f"/* {formula} */")
        self.c.append(f"#define {name}(R) \\")
        self.c.append(" \\\n".join("    R(" + ", ".join(f"{text}f" for text in line) + ")" for line in texts))
        self._python_table(name, texts, formula)

    def _python_table(self, name: str, lines: Sequence[Sequence[str]], formula: str) -> None:
        self.python += [f"# {formula}"] if formula else []
        self.python += [f"{name}: Final = table(", '    """']
        self.python += [
            textwrap.fill(
                " ".join(line), 120, initial_indent="    ", subsequent_indent="        ", break_on_hyphens=False
            )
            for line in lines
        ]
        self.python += ['    """', ")"]

    def write(self) -> None:
        """Writes csrc/kernels/<name>_tables.h and ref/<name>_tables.py."""
        header = ROOT / "csrc" / "kernels" / f"{self.name}_tables.h"
        module = ROOT / "ref" / f"{self.name}_tables.py"
        header.write_text("\n".join([*self.c, "/* clang-format on */", ""]), encoding="utf-8")
        module.write_text("\n".join([*self.python, ""]), encoding="utf-8")
        print(f"wrote {header.relative_to(ROOT)} and {module.relative_to(ROOT)}")
