"""Elementary functions in binary64: the yardstick's building blocks, with a proven enclosure where it matters.

In the ranges where a function is neither its series nor its limit, the value is an end of crival's enclosure:
CORE-MATH's functions, rounded outward, so the true value lies within one unit in the last place (relative 2^-52).
Outside, a short series or the limit is as good; the comment at each says why. Arguments are arrays of binary64, NaN
gives NaN.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ortwin.ref.errors import OrtwinError

Array = npt.NDArray[np.float64]
Map = Callable[[Array], Array]

TWO_BY_ROOT_PI: Final = float.fromhex("0x1.20dd750429b6dp+0")  # 2 / sqrt(pi)


class ExtraError(OrtwinError):
    """What measuring needs is not installed."""


@functools.cache
def crival() -> Any:
    """The module of crival. ExtraError if it is not installed."""
    try:
        import ival
    except (ImportError, OSError) as error:
        raise ExtraError(
            "measuring needs crival and mpmath: pip install 'ortwin[sweep]', or ask for --no-measure"
        ) from error
    return ival


@functools.cache
def mpmath() -> Any:
    """The module mpmath. ExtraError if it is not installed."""
    try:
        import mpmath as module
    except ImportError as error:
        raise ExtraError(
            "measuring needs crival and mpmath: pip install 'ortwin[sweep]', or ask for --no-measure"
        ) from error
    return module


def enclosed(name: str, x: Array) -> Array:
    """The lower end of the enclosure of a function at each x; finite x inside its domain."""
    library = crival()
    x = np.ascontiguousarray(x)
    low: Array = getattr(library, name)(library.Interval(x, x)).lo
    return low


def choose(mask: npt.NDArray[np.bool_], x: Array, inside: Map, outside: Map) -> Array:
    """inside(x) where the mask is set, else outside(x): each is given only its own elements."""
    if mask.all():
        return inside(x)
    if not mask.any():
        return outside(x)
    y = np.empty_like(x)
    y[mask] = inside(x[mask])
    y[~mask] = outside(x[~mask])
    return y


def between(x: Array, low: float, high: float) -> npt.NDArray[np.bool_]:
    """Where low <= |x| <= high."""
    a = np.abs(x)
    return np.asarray((a >= low) & (a <= high))


def exp(x: Array) -> Array:
    """e^x. Near 0 the series: x^5/120 is below 2^-56 there. Beyond 800 it is 0 or infinity, NaN stays."""

    def outside(x: Array) -> Array:
        series = 1.0 + x * (1.0 + x * (1 / 2 + x * (1 / 6 + x / 24)))
        return np.where(np.abs(x) < 1.0, series, np.exp(x))

    return choose(between(x, 2.0**-10, 800.0), x, lambda x: enclosed("acc_exp", x), outside)


def expm1(x: Array) -> Array:
    """e^x - 1, relative to itself. Near 0 the series: x^5/720 is below 2^-54. Below -40 it is -1, to 2^-57."""

    def outside(x: Array) -> Array:
        series = x * (1.0 + x * (1 / 2 + x * (1 / 6 + x * (1 / 24 + x / 120))))
        return np.where(np.abs(x) < 1.0, series, np.expm1(x))

    return choose(between(x, 2.0**-9, 40.0), x, lambda x: enclosed("acc_expm1", x), outside)


def log(x: Array) -> Array:
    """Natural logarithm: -infinity at 0, NaN below."""
    return choose((x > 0.0) & (x < np.inf), x, lambda x: enclosed("log", x), np.log)


def log1p(x: Array) -> Array:
    """log(1 + x) for 0 <= x. Near 0 the series: x^3/4 is below 2^-61."""

    def outside(x: Array) -> Array:
        return np.where(x < 1.0, x * (1.0 - x * (1 / 2 - x / 3)), np.log1p(x))

    return choose(between(x, 2.0**-20, 2.0**1000), x, lambda x: enclosed("log1p", x), outside)


def tanh(x: Array) -> Array:
    """Hyperbolic tangent. Near 0 the series: x^10/112 is below 2^-66. Beyond 20 it is 1, to 2^-56."""

    def outside(x: Array) -> Array:
        s = x * x
        series = x * (1.0 - s * (1 / 3 - s * (2 / 15 - s * (17 / 315 - s * (62 / 2835)))))
        return np.where(np.abs(x) < 1.0, series, np.where(np.isnan(x), x, np.copysign(1.0, x)))

    return choose(between(x, 2.0**-6, 20.0), x, lambda x: enclosed("tanh", x), outside)


def erf(x: Array) -> Array:
    """Error function. Near 0 the series: x^10/1320 is below 2^-70. Beyond 6 it is 1, to 2^-55."""

    def outside(x: Array) -> Array:
        s = x * x
        series = TWO_BY_ROOT_PI * x * (1.0 - s * (1 / 3 - s * (1 / 10 - s * (1 / 42 - s / 216))))
        return np.where(np.abs(x) < 1.0, series, np.where(np.isnan(x), x, np.copysign(1.0, x)))

    return choose(between(x, 2.0**-6, 6.0), x, lambda x: enclosed("acc_erf", x), outside)


def normal_cdf(x: Array) -> Array:
    """(1 + erf(x / sqrt(2))) / 2, relative to itself: by erfc in the tail, where 2 z^2 multiplies the rounding of
    z = x / sqrt(2), z at most 14 where the result is a binary32 number: 2^-43. Below -40 it is 0."""

    def tail(x: Array) -> Array:
        return choose(x >= -40.0, x, lambda x: 0.5 * enclosed("acc_erfc", x * -(0.5**0.5)), np.zeros_like)

    return choose(x < -0.5, x, tail, lambda x: 0.5 * (1.0 + erf(x * 0.5**0.5)))
