"""The transcendental ops against binary64, whose own error is below a millionth of what is asked: at most 1 ulp (C8) on
a sample of all inputs, and monotone over whole binades. On the C library, whose bits other tests hold to the
reference's.
"""

import math
from collections.abc import Callable

import numpy as np
import pytest

from models import AVAILABLE, VERSIONS, Arguments, Array, Row, with_arguments
from ortwin.fast import Session

ALPHA, GAMMA = float(np.float32(1.6732631921768188)), float(np.float32(1.0507010221481323))


def gated(x: Array, z: Array) -> Array:
    """x sigmoid(z), with its limits."""
    return np.where(x == -np.inf, -0.0, x / (1 + np.exp(-z)))


def below_zero(x: Array, f: Callable[[Array], Array]) -> Array:
    return np.where(x >= 0, x, f(np.minimum(x, 0)))


def each(f: Callable[[float], float]) -> Callable[[Array], Array]:
    return lambda x: np.array([f(v) for v in x.ravel()]).reshape(x.shape)


def gelu(x: Array) -> Array:
    """x Phi(x), by the tail that keeps its digits."""
    return np.where(x == -np.inf, -0.0, x / 2 * each(math.erfc)(-x / math.sqrt(2)))


def mish(x: Array) -> Array:
    """x tanh(log(1 + e^x)) = x n / (n + 2), n = e^x (e^x + 2); beyond 40 it is x."""
    power = np.exp(np.minimum(x, 40))
    n = power * (power + 2)
    return np.where(x == -np.inf, -0.0, x * (n / (n + 2)))


def gelu_tanh(x: Array) -> Array:
    return gated(x, 2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))


TRUE: dict[str, Callable[[Array], Array]] = {
    "Exp": np.exp,
    "Log": np.log,
    "Tanh": np.tanh,
    "Sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "Erf": each(math.erf),
    "Elu": lambda x: below_zero(x, np.expm1),
    "Selu": lambda x: GAMMA * below_zero(x, lambda t: ALPHA * np.expm1(t)),
    "Celu": lambda x: below_zero(x, np.expm1),
    "Swish": lambda x: gated(x, x),
    "Gelu": gelu,
    "Softplus": lambda x: np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))),
    "Mish": mish,
    "com.microsoft.Gelu": gelu,
    "com.microsoft.QuickGelu": lambda x: gated(x, float(np.float32(1.702)) * x),
    "com.microsoft.FastGelu": gelu_tanh,
}
"""Each op with default attributes, in binary64."""


def error_in_ulp(y: Array, true: Array) -> Array:
    """|y - true| in units of binary32's spacing at true. Beyond the largest number the answer is infinity."""
    unit = np.ldexp(1.0, np.maximum(np.frexp(true)[1] - 24, -149))
    overflow = np.abs(true) >= 2.0**128 - 2.0**103
    inexact = np.abs(y.astype(np.float64) - true) / unit
    return np.where(overflow, np.where(y == np.copysign(np.inf, true), 0.0, np.inf), inexact)


def computed(op: str, x: Array, arguments: Arguments | None = None) -> Array:
    row = Row(op, VERSIONS[op][-1])
    model = with_arguments(row, arguments or Arguments())
    (y,) = Session(model, isa=AVAILABLE[0]).run(None, {"x": x})
    return np.asarray(y)


def patterns() -> Array:
    """Finite numbers: every 8191st pattern, and 400,000 normal ones."""
    every = np.arange(0, 2**32, 8191, dtype=np.uint64).astype(np.uint32).view(np.float32)
    normal = np.random.default_rng(11).normal(0, 6, 400_000).astype(np.float32)
    x = np.concatenate([every, normal])
    return np.asarray(x[np.isfinite(x)])


def check(y: Array, true: Array, x: Array) -> None:
    nan = np.isnan(true)
    assert (np.isnan(y) == nan).all()
    error = np.where(nan | (np.isinf(true) & (y == true)), 0.0, error_in_ulp(y, true))
    worst = int(np.argmax(error))
    assert error[worst] <= 1.0, f"{x[worst]!r}: {y[worst]!r} is {error[worst]} ulp from {true[worst]!r}"


@pytest.mark.parametrize("op", TRUE)
def test_at_most_one_ulp_on_a_sample_of_all_inputs(op: str) -> None:
    x = patterns()
    with np.errstate(all="ignore"):
        check(computed(op, x), TRUE[op](x.astype(np.float64)), x)


def test_gelu_at_most_one_ulp_with_approximate_tanh() -> None:
    x = patterns()
    with np.errstate(all="ignore"):
        check(computed("Gelu", x, Arguments((("approximate", "tanh"),))), gelu_tanh(x.astype(np.float64)), x)


@pytest.mark.parametrize(
    ("op", "low", "high"),
    [("Exp", -104, -80), ("Sigmoid", -104, -80), ("Softplus", -104, -80), ("Gelu", -14.5, -12), ("Mish", -112, -80)],
)
def test_tails_down_to_the_last_subnormal(op: str, low: float, high: float) -> None:
    """Dense, and beyond the last one: a result is 0 only where half of the least number is not reached."""
    x = np.linspace(low, high, 300_001).astype(np.float32)
    y, true = computed(op, x), TRUE[op](x.astype(np.float64))
    check(y, true, x)
    assert ((y == 0) == (np.abs(true) <= 2.0**-150)).all()
    assert ((np.abs(y) > 0) & (np.abs(y) < 2.0**-126)).any()
    assert (np.signbit(y) == (op in ("Gelu", "Mish"))).all()


@pytest.mark.parametrize("alpha", [0.1, 0.75, 30.0, 1e30, 1e-30])
def test_celu_at_most_one_ulp_for_any_alpha(alpha: float) -> None:
    """With 1e30 the quotient x / alpha underflows where the answer is x."""
    x = patterns()
    a = float(np.float32(alpha))
    with np.errstate(all="ignore"):
        true = below_zero(x.astype(np.float64), lambda t: a * np.expm1(t / a))
        check(computed("Celu", x, Arguments((("alpha", alpha),))), true, x)


@pytest.mark.parametrize("alpha", [-0.7, 0.1, 3.0, -50.0, 1e-10])
def test_swish_at_most_one_ulp_for_any_alpha(alpha: float) -> None:
    x = patterns()
    with np.errstate(all="ignore"):
        exact = x.astype(np.float64)
        check(computed("Swish", x, Arguments((("alpha", alpha),))), gated(exact, float(np.float32(alpha)) * exact), x)


@pytest.mark.parametrize("op", ["Exp", "Log", "Tanh", "Sigmoid", "Erf", "Elu", "Selu", "Celu", "Softplus"])
@pytest.mark.parametrize("first", [2.0**-6, 2.0**-5, 0.25, 0.5, 1.0, 2.0, 8.0, 16.0])
def test_monotone_over_a_whole_binade(op: str, first: float) -> None:
    start = int(np.float32(first).view(np.uint32))
    up = np.arange(start, start + 2**23 + 1, dtype=np.uint32).view(np.float32)
    for x in (up, -up[::-1]) if op != "Log" else (up,):
        y = computed(op, x)
        assert (y[1:] >= y[:-1]).all(), x[1:][y[1:] < y[:-1]][:3]
