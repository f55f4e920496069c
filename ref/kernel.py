"""What the executor knows of an op: a kernel is built from a node once and run on tensors many times."""

from __future__ import annotations

from collections.abc import Sequence

from ortwin.ref.errors import UnsupportedError
from ortwin.ref.graph import Node, Value
from ortwin.ref.tensor import Tensor, dtype_name


def real(node: Node, attribute: str, default: float = 0.0) -> float:
    """A float attribute; the reader has filled in the schema's default, if it has one. UnsupportedError otherwise."""
    value = node.attributes.get(attribute, default)
    if not isinstance(value, float):
        raise UnsupportedError(f"{node.label}: attribute {attribute} is no float")
    return value


def integer(node: Node, attribute: str, default: int) -> int:
    """An integer attribute; as real."""
    value = node.attributes.get(attribute, default)
    if not isinstance(value, int):
        raise UnsupportedError(f"{node.label}: attribute {attribute} is no integer")
    return value


class Kernel:
    """One node's computation. Subclasses override ``run``, and ``broken_rule`` if their operands have rules."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.dtypes: frozenset[int] = frozenset()  # element types of input 0; set from the op table

    def broken_rule(self, inputs: Sequence[Value | None]) -> str:
        """The first rule that what is known of the inputs breaks, as the end of a sentence; "" if there is none.

        Unknown types (0) and shapes (None) break nothing: the executor asks once when it builds the session, with what
        the model says, and again before it runs the node, with what the tensors are.
        """
        first = inputs[0] if inputs else None
        if first is None:
            return "its first input is missing"
        if first.dtype != 0 and first.dtype not in self.dtypes:
            return f"input '{first.name}' is {dtype_name(first.dtype)}, not {' or '.join(self.dtype_list())}"
        return ""

    def broken_content(self, inputs: Sequence[Tensor | None]) -> str:
        """As broken_rule, for rules about the elements of the inputs, of which those that are known are given.

        The executor asks when it builds the session, with the constants, and before it runs the node, with all inputs.
        """
        return ""

    def dtype_list(self) -> list[str]:
        """Names of the element types this kernel computes."""
        return [dtype_name(dtype) for dtype in sorted(self.dtypes)]

    def outputs(self, inputs: Sequence[Value | None]) -> list[Value]:
        """What is known of the outputs: unless overridden, one of input 0's type and shape."""
        first = inputs[0]
        assert first is not None
        return [Value(self.node.outputs[0], first.dtype, first.shape)]

    def run(self, inputs: Sequence[Tensor | None]) -> list[Tensor]:
        """Computes the outputs from inputs that break no rule; None stands for a missing optional input."""
        raise NotImplementedError
