"""The formulas in the text of ONNX, evaluated literally: step by step in binary32, every step correctly rounded or one
of our own functions. What comes out is not what the contract asks for (C10a); `ortwin numerics` shows where.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from ortwin.conformance.sweep.arms import Floats, Reference
from ortwin.conformance.sweep.cases import Case, make

ONE: Final = np.float32(1.0)
HALF: Final = np.float32(0.5)
ROOT_HALF: Final = np.float32(math.sqrt(0.5))
ROOT: Final = np.float32(math.sqrt(2.0 / math.pi))
CUBIC: Final = np.float32(0.044715)
Step = Callable[..., Floats]


def _ours(op: str) -> Step:
    return lambda x: np.asarray(Reference(make("", op)).compute(np.asarray(x, np.float32)))


exp, log, tanh, erf = (_ours(op) for op in ("Exp", "Log", "Tanh", "Erf"))


def _clamped(z: Floats) -> Floats:
    return np.where(z > ONE, ONE, np.where(z < 0.0, np.float32(0.0), z))


def _sigmoid(x: Floats) -> Floats:
    return np.asarray(ONE / (ONE + exp(-x)))


def _softplus(x: Floats) -> Floats:
    return log(exp(x) + ONE)


def _hard_sigmoid(x: Floats, alpha: Any, beta: Any) -> Floats:
    return _clamped(alpha * x + beta)


def _hard_swish(x: Floats) -> Floats:
    return np.asarray(x * _hard_sigmoid(x, np.float32(1.0 / 6.0), HALF))


def _elu(x: Floats, alpha: Any) -> Floats:
    return np.where(x < 0.0, alpha * (exp(x) - ONE), x)


def _selu(x: Floats, alpha: Any, gamma: Any) -> Floats:
    return np.asarray(np.where(x > 0.0, gamma * x, gamma * (alpha * exp(x) - alpha)))


def _celu(x: Floats, alpha: Any) -> Floats:
    below = alpha * (exp(x / alpha) - ONE)
    return np.where(x > 0.0, x, np.float32(0.0)) + np.where(below > 0.0, np.float32(0.0), below)


def _gelu(x: Floats, approximate: str = "none") -> Floats:
    if approximate == "tanh":
        return HALF * x * (ONE + tanh(ROOT * (x + CUBIC * (x * x * x))))
    return HALF * x * (ONE + erf(x * ROOT_HALF))


def _swish(x: Floats, alpha: Any) -> Floats:
    return np.asarray(x * _sigmoid(alpha * x))


FORMULAS: Final[Mapping[tuple[str, str], tuple[str, Step]]] = {
    ("", "HardSigmoid"): ("max(0, min(1, alpha x + beta))", _hard_sigmoid),
    ("", "HardSwish"): ("x max(0, min(1, x / 6 + 0.5))", _hard_swish),
    ("", "Softsign"): ("x / (1 + abs(x))", lambda x: x / (ONE + np.abs(x))),
    ("", "Sigmoid"): ("1 / (1 + exp(-x))", _sigmoid),
    ("", "Elu"): ("alpha (exp(x) - 1) below 0", _elu),
    ("", "Selu"): ("gamma (alpha exp(x) - alpha) up to 0", _selu),
    ("", "Celu"): ("max(0, x) + min(0, alpha (exp(x / alpha) - 1))", _celu),
    ("", "Swish"): ("x / (1 + exp(-alpha x))", _swish),
    ("", "Gelu"): ("0.5 x (1 + erf(x / sqrt(2))), or 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))", _gelu),
    ("", "Softplus"): ("log(exp(x) + 1)", _softplus),
    ("", "Mish"): ("x tanh(log(exp(x) + 1))", lambda x: x * tanh(_softplus(x))),
    ("com.microsoft", "QuickGelu"): ("x / (1 + exp(-alpha x))", _swish),
    ("com.microsoft", "FastGelu"): (
        "0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))",
        lambda x: _gelu(x, "tanh"),
    ),
    ("com.microsoft", "Gelu"): ("0.5 x (1 + erf(x / sqrt(2)))", _gelu),
}
"""The formula as shown and the map, of the ops that have one of several steps."""


def evaluate(case: Case, x: Floats) -> Floats | None:
    """The text's formula at x; None if it is one step. NaNs have any bits."""
    known = FORMULAS.get((case.domain, case.op))
    if known is None:
        return None
    given = {key: value if isinstance(value, str) else np.float32(value) for key, value in case.attributes.items()}
    with np.errstate(all="ignore"):
        return np.asarray(known[1](x, **given), np.float32)
