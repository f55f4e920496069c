"""What comes of a case on an arm: output bits, or the reason why there are none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from ortwin.conformance.conform.case import Operand


@dataclass(frozen=True)
class Made:
    """The first output's type, shape and bytes. damage: what the arm did that it must not, such as writing elsewhere.
    others: of an op that has them, the further outputs."""

    output: Operand
    damage: str = ""
    others: tuple[Operand, ...] = ()

    @property
    def outputs(self) -> tuple[Operand, ...]:
        """All of them."""
        return (self.output, *self.others)


@dataclass(frozen=True)
class Declined:
    """The arm refuses to compute the node as written; reason says why."""

    reason: str


@dataclass(frozen=True)
class NotAsked:
    """The case never got to the arm: what lies in between, such as ONNX Runtime, does not know such models."""

    reason: str


@dataclass(frozen=True)
class Failed:
    """The arm broke on the case; reason says how. That is never right."""

    reason: str


Outcome: TypeAlias = Made | Declined | NotAsked | Failed
