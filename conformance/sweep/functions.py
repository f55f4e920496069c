"""The functions that are swept: what mathematics says of each, twice: as the yardstick computes it and for mpmath.

``value`` is binary64 and good to ``error``; ``exact`` is the plain definition and is evaluated with as many digits as
it takes. Neither is written from the kernels. Attributes are their binary32 values (C8); infinities and signed zeros
are those of the contract (C3, C10).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from ortwin.conformance.sweep.elementary import (
    Array,
    Map,
    choose,
    erf,
    exp,
    expm1,
    log,
    log1p,
    mpmath,
    normal_cdf,
    tanh,
)

INF: Final = float("inf")
Exact = Callable[[Any], Any]


@dataclass(frozen=True)
class Monotone:
    """How f runs as x grows: 1 up, -1 down, 0 neither is claimed; for negative and positive x.

    joined: the two halves make one monotone function, no jump at 0. turn: a negative number at which a function that
    rises from 0 up in both directions turns: below it f falls.
    """

    negative: int
    positive: int
    joined: bool = True
    turn: float | None = None


RISING: Final = Monotone(1, 1)
FALLING: Final = Monotone(-1, -1)
UNKNOWN: Final = Monotone(0, 0, False)


@dataclass(frozen=True)
class Function:
    """A function of a real number.

    value: its binary64 yardstick; error: bound of that yardstick's relative error, 0 where rounding it to binary32
    gives what rounding the true value gives. exact: an mpmath number for an mpmath number. low, high: its range,
    rounded to binary32. halves: f(x) = x/2 + c x^2 + ..., c > 0, which decides ties of subnormal results that
    binary64 can't see.
    """

    value: Map
    exact: Exact
    error: float = 0.0
    monotone: Monotone = RISING
    odd: bool = False
    low: float = -INF
    high: float = INF
    halves: bool = False


def _if(condition: Callable[[Array], Any], then: Map, otherwise: Map) -> Map:
    return lambda x: choose(np.asarray(condition(x)), x, then, otherwise)


def _same(x: Any) -> Any:
    return x


def _gated(x: Array, z: Array) -> Array:
    """x sigmoid(z); where z is -infinity the limit, a zero with the sign of x."""
    y = x / (1.0 + exp(-z))
    limit = np.isneginf(z)
    if limit.any():
        y[limit] = np.copysign(0.0, x[limit])
    return y


def _vanishing(x: Array, y: Array) -> Array:
    """y, but -0.0 where x is -infinity (C10b)."""
    limit = np.isneginf(x)
    if limit.any():
        y[limit] = -0.0
    return y


def _identity() -> Function:
    return Function(_same, _same, odd=True)


def _relu() -> Function:
    return Function(lambda x: np.where(x < 0.0, 0.0, x), lambda x: max(x, 0), low=0.0)


def _leaky_relu(alpha: float) -> Function:
    return Function(
        lambda x: np.where(x < 0.0, alpha * x, x),
        lambda x: x * (alpha if x < 0 else 1),
        monotone=RISING if alpha >= 0.0 else UNKNOWN,
    )


def _thresholded_relu(alpha: float) -> Function:
    return Function(
        lambda x: np.where(x > alpha, x, 0.0),
        lambda x: x if x > alpha else x * 0,
        monotone=RISING if alpha >= 0.0 else UNKNOWN,
        low=min(alpha, 0.0),
    )


def _hard_sigmoid(alpha: float, beta: float) -> Function:
    return Function(
        lambda x: np.clip(alpha * x + beta, 0.0, 1.0) + 0.0,  # the product is exact, and -0.0 + 0.0 is +0.0
        lambda x: min(max(x * alpha + beta, x * 0), x * 0 + 1),
        error=2.0**-52,
        monotone=RISING if alpha >= 0.0 else FALLING,
        low=0.0,
        high=1.0,
    )


def _hard_swish() -> Function:
    return Function(
        _if(lambda x: np.abs(x) < 3.0, lambda x: x * (x + 3.0) / 6.0, lambda x: np.where(x <= -3.0, -0.0, x)),
        lambda x: x * min(max(x / 6 + mpmath().mpf(1) / 2, 0), 1),
        error=2.0**-51,
        monotone=Monotone(1, 1, turn=-1.5),
        low=-0.375,
        halves=True,
    )


def _clip(low: float, high: float) -> Function:
    def value(x: Array) -> Array:
        raised = np.where(low > x, low, x)
        return np.where(raised >= high, high, raised)

    return Function(value, lambda x: min(max(x, low), high), low=min(low, high), high=high)


def _softsign() -> Function:
    return Function(
        lambda x: np.where(np.isinf(x), np.copysign(1.0, x), x / (1.0 + np.abs(x))),
        lambda x: x / (1 + abs(x)),
        error=2.0**-51,
        odd=True,
        low=-1.0,
        high=1.0,
    )


def _sigmoid() -> Function:
    return Function(
        lambda x: 1.0 / (1.0 + exp(-x)), lambda x: 1 / (1 + mpmath().exp(-x)), error=2.0**-50, low=0.0, high=1.0
    )


def _elu(alpha: float) -> Function:
    return Function(
        _if(lambda x: x < 0.0, lambda x: alpha * expm1(x), _same),
        lambda x: alpha * mpmath().expm1(x) if x < 0 else x,
        error=2.0**-50,
        monotone=RISING if alpha >= 0.0 else UNKNOWN,
        low=min(-alpha, 0.0),
    )


def _selu(alpha: float, gamma: float) -> Function:
    product = alpha * gamma  # exact: 48 bits
    return Function(
        _if(lambda x: x < 0.0, lambda x: product * expm1(x), lambda x: gamma * x),
        lambda x: product * mpmath().expm1(x) if x < 0 else gamma * x,
        error=2.0**-50,
        monotone=RISING if product >= 0.0 and gamma >= 0.0 else UNKNOWN,
        low=-product if product >= 0.0 and gamma >= 0.0 else -INF,
    )


def _celu(alpha: float) -> Function:
    return Function(
        _if(lambda x: x < 0.0, lambda x: alpha * expm1(x / alpha), _same),
        lambda x: alpha * mpmath().expm1(x / alpha) if x < 0 else x,
        error=2.0**-50,
        low=-alpha,
    )


def _swish(alpha: float) -> Function:
    """x sigmoid(alpha x); the product alpha x is exact."""
    rises = alpha > 0.0
    return Function(
        lambda x: _gated(x, alpha * x),
        lambda x: x / (1 + mpmath().exp(-alpha * x)),
        error=2.0**-50,
        monotone=Monotone(1, 1, turn=float.fromhex("-0x1.474973c84120bp+0") / alpha) if rises else UNKNOWN,
        low=float.fromhex("-0x1.1d25cf210482ep-2") / alpha if rises else -INF,
        halves=rises,
    )


def _gelu(approximate: str) -> Function:
    if approximate == "tanh":
        return _gelu_tanh()
    return Function(
        lambda x: _vanishing(x, x * normal_cdf(x)),
        lambda x: x * mpmath().erfc(-x / mpmath().sqrt(2)) / 2,
        error=2.0**-43,
        monotone=Monotone(1, 1, turn=float.fromhex("-0x1.80ead197f00b4p-1")),
        low=float.fromhex("-0x1.5c19dd4b1a3fbp-3"),
        halves=True,
    )


def _gelu_tanh() -> Function:
    """The argument z of the sigmoid is 6 roundings from true, and z, at most 120 where the result is a binary32
    number, multiplies that: 2^-43."""
    root = 2.0 * float.fromhex("0x1.9884533d43651p-1")  # 2 sqrt(2 / pi)

    def exact(x: Any) -> Any:
        m = mpmath()
        return x / 2 * (1 + m.tanh(m.sqrt(2 / m.pi) * (x + m.mpf(44715) / 1000000 * x**3)))

    return Function(
        lambda x: _gated(x, root * x * (1.0 + 0.044715 * (x * x))),
        exact,
        error=2.0**-43,
        monotone=Monotone(1, 1, turn=float.fromhex("-0x1.81429f9e97e4dp-1")),
        low=float.fromhex("-0x1.5c3e533586d1ap-3"),
        halves=True,
    )


def _softplus() -> Function:
    return Function(
        lambda x: np.where(x > 0.0, x, 0.0) + log1p(exp(-np.abs(x))),
        lambda x: mpmath().log1p(mpmath().exp(x)),
        error=2.0**-50,
        low=0.0,
    )


def _mish() -> Function:
    """tanh(log(1 + e)) = e (e + 2) / (e (e + 2) + 2); from x = 40 on it is 1, to 2^-114."""

    def value(x: Array) -> Array:
        e = exp(np.minimum(x, 40.0))
        n = e * (e + 2.0)
        return _vanishing(x, x * (n / (n + 2.0)))

    return Function(
        value,
        lambda x: x * mpmath().tanh(mpmath().log1p(mpmath().exp(x))),
        error=2.0**-49,
        monotone=Monotone(1, 1, turn=float.fromhex("-0x1.31432c0d12d84p+0")),
        low=float.fromhex("-0x1.3c417299f9f85p-2"),
    )


@dataclass(frozen=True)
class Family:
    """An op: its attributes with their defaults, and the function for given ones. version: the one whose attributes
    these are, if not the newest."""

    make: Callable[..., Function]
    defaults: Mapping[str, float | str]
    version: int | None = None


def _family(make: Callable[..., Function], version: int | None = None, /, **defaults: float | str) -> Family:
    return Family(make, defaults, version)


SELU: Final = {"alpha": 1.67326319217681884765625, "gamma": 1.05070102214813232421875}

FAMILIES: Final[dict[tuple[str, str], Family]] = {
    ("", "Identity"): _family(_identity),
    ("", "Relu"): _family(_relu),
    ("", "LeakyRelu"): _family(_leaky_relu, alpha=0.01),
    ("", "ThresholdedRelu"): _family(_thresholded_relu, alpha=1.0),
    ("", "HardSigmoid"): _family(_hard_sigmoid, alpha=0.2, beta=0.5),
    ("", "HardSwish"): _family(_hard_swish),
    ("", "Clip"): _family(lambda min, max: _clip(min, max), 6, min=-3.4028234663852886e38, max=3.4028234663852886e38),
    ("", "Abs"): _family(lambda: Function(np.abs, abs, monotone=Monotone(-1, 1), low=0.0)),
    ("", "Neg"): _family(lambda: Function(np.negative, lambda x: -x, monotone=FALLING, odd=True)),
    ("", "Reciprocal"): _family(
        lambda: Function(lambda x: 1.0 / x, lambda x: 1 / x, monotone=Monotone(-1, -1, False), odd=True)
    ),
    ("", "Sqrt"): _family(lambda: Function(np.sqrt, lambda x: mpmath().sqrt(x), low=0.0)),
    ("", "Floor"): _family(lambda: Function(np.floor, lambda x: mpmath().floor(x))),
    ("", "Ceil"): _family(lambda: Function(np.ceil, lambda x: mpmath().ceil(x))),
    ("", "Round"): _family(lambda: Function(np.rint, lambda x: mpmath().nint(x), odd=True)),
    ("", "Sign"): _family(
        lambda: Function(
            lambda x: np.where(x == 0.0, 0.0, np.sign(x)), lambda x: mpmath().sign(x), odd=True, low=-1.0, high=1.0
        )
    ),
    ("", "Softsign"): _family(_softsign),
    ("", "Exp"): _family(lambda: Function(exp, lambda x: mpmath().exp(x), error=2.0**-51, low=0.0)),
    ("", "Log"): _family(lambda: Function(log, lambda x: mpmath().log(x), error=2.0**-52)),
    ("", "Tanh"): _family(
        lambda: Function(tanh, lambda x: mpmath().tanh(x), error=2.0**-51, odd=True, low=-1.0, high=1.0)
    ),
    ("", "Sigmoid"): _family(_sigmoid),
    ("", "Erf"): _family(
        lambda: Function(erf, lambda x: mpmath().erf(x), error=2.0**-51, odd=True, low=-1.0, high=1.0)
    ),
    ("", "Elu"): _family(_elu, alpha=1.0),
    ("", "Selu"): _family(_selu, **SELU),
    ("", "Celu"): _family(_celu, alpha=1.0),
    ("", "Swish"): _family(_swish, alpha=1.0),
    ("", "Gelu"): _family(_gelu, approximate="none"),
    ("", "Softplus"): _family(_softplus),
    ("", "Mish"): _family(_mish),
    ("com.microsoft", "QuickGelu"): _family(_swish, alpha=1.702),
    ("com.microsoft", "FastGelu"): _family(_gelu_tanh),
    ("com.microsoft", "Gelu"): _family(lambda: _gelu("none")),
}
"""What can be swept, by (domain, op)."""
