"""Random graphs of elementwise nodes and products: shared values, broadcasting, several element types, shapes known in
part."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx
from onnx import helper, numpy_helper

from models import BFLOAT16, FLOAT, FLOAT16, INT32, INT64, PAIRED, Array, node, numpy_dtype, of_nodes, sample, value

FLOATS = ["Neg", "Abs", "Relu", "Floor", "Sqrt", "Reciprocal", "Sign", "HardSwish", "Softsign", "LeakyRelu", "Tanh"]
UNARY = {
    FLOAT: FLOATS,
    FLOAT16: FLOATS,
    BFLOAT16: FLOATS,
    INT32: ["Identity"],
    INT64: ["Identity"],
}
OPSET = 22
LARGEST_WEIGHTS = 17


@dataclass(frozen=True)
class Made:
    """A value of a graph under construction: its type, its shape in the run, and whether the model tells that shape."""

    name: str
    dtype: int
    shape: tuple[int, ...]


@dataclass(frozen=True)
class RandomGraph:
    """A model and what it is run on."""

    model: onnx.ModelProto
    feeds: dict[str, Array]


def shape_family(random: np.random.Generator) -> list[tuple[int, ...]]:
    """Shapes that all broadcast with one another: parts of one, some sizes 1, some of the first axes left out."""
    rank = int(random.choice([0, 1, 2, 3, 4, 6, 9, 11], p=[0.05, 0.2, 0.25, 0.2, 0.1, 0.1, 0.05, 0.05]))
    sizes = [1, 2, 3, 5, 17] if rank < 5 else [1, 1, 2, 3]
    whole = [int(random.choice(sizes)) for _ in range(rank)]
    if rank and random.random() < 0.08:
        whole[int(random.integers(rank))] = 0
    if rank and random.random() < 0.15 and 0 not in whole:
        whole[-1] = 5000 // int(np.prod(whole[:-1], dtype=int))  # several pieces in a chain
    found = [tuple(whole)] * 3
    for _ in range(4):
        cut = int(random.integers(0, rank + 1))
        found.append(tuple(size if random.random() < 0.6 else 1 for size in whole[cut:]))
    return found


def declared(random: np.random.Generator, shape: tuple[int, ...]) -> list[int | str | None] | None:
    """What the model says of a shape: all of it, some of it, its rank, or nothing."""
    if random.random() < 0.2:
        return None
    hidden = random.choice([0.0, 0.5, 1.0])
    return [size if random.random() >= hidden else None for size in shape]


def random_graph(seed: int, size: int = 100) -> RandomGraph:
    """The graph of a seed. Inputs, constants and nodes of five types; what nothing reads is an output, as is some of
    what is read."""
    random = np.random.default_rng(seed)
    family = shape_family(random)
    made: list[Made] = []
    inputs: list[onnx.ValueInfoProto] = []
    initializers: list[onnx.TensorProto] = []
    nodes: list[onnx.NodeProto] = []
    feeds: dict[str, Array] = {}
    for k in range(int(random.integers(2, 6))):
        for dtype in UNARY:
            if dtype != FLOAT and random.random() < 0.6:
                continue
            shape = family[int(random.integers(len(family)))]
            array = np.resize(sample(dtype, seed=int(random.integers(1, 9))), shape).reshape(shape)
            name = f"in{k}_{dtype}"
            made.append(Made(name, dtype, shape))
            if random.random() < 0.75:
                inputs.append(value(name, dtype, declared(random, shape)))
                feeds[name] = array
            else:
                initializers.append(numpy_helper.from_array(array, name))
                if random.random() < 0.3:  # which a feed may override
                    inputs.append(value(name, dtype, declared(random, shape)))
                    if random.random() < 0.5:
                        feeds[name] = array[..., ::-1].copy() if array.ndim else array
    read: set[str] = set()
    for k in range(size):
        a = made[int(random.integers(max(0, len(made) - 12) if random.random() < 0.8 else 0, len(made)))]
        result, attributes = Made(f"n{k}", a.dtype, a.shape), {}
        operands = [a.name]
        if random.random() < 0.15 and a.shape and 0 < a.shape[-1] <= LARGEST_WEIGHTS:
            op = "MatMul"  # by a square matrix, so that what follows has the shape, too
            array = random.integers(-3, 4, (a.shape[-1], a.shape[-1])).astype(numpy_dtype(a.dtype))
            operands = [a.name, f"w{k}"]
            if random.random() < 0.7:
                initializers.append(numpy_helper.from_array(array, f"w{k}"))
            else:
                inputs.append(value(f"w{k}", a.dtype, declared(random, array.shape)))
                feeds[f"w{k}"] = array
        elif random.random() < 0.55:
            op = str(random.choice(PAIRED))
            others = [v for v in made if v.dtype == a.dtype]
            b = others[int(random.integers(len(others)))]
            operands = [a.name, b.name] if random.random() < 0.5 else [b.name, a.name]
            result = Made(f"n{k}", a.dtype, np.broadcast_shapes(a.shape, b.shape))
        elif random.random() < 0.15:
            op = "Clip"
            scalars = [v for v in made if v.dtype == a.dtype and v.shape == ()]
            for _ in range(2):
                bound = scalars[int(random.integers(len(scalars)))].name if scalars and random.random() < 0.5 else ""
                operands.append(bound)
        else:
            op = str(random.choice(UNARY[a.dtype]))
            attributes = {"alpha": 0.25} if op == "LeakyRelu" else {}
        nodes.append(node(op, operands, result.name, f"node{k}", **attributes))
        read.update(operands)
        made.append(result)
    ends = [v for v in made[-size:] if v.name not in read or random.random() < 0.1]
    outputs = [value(v.name, v.dtype, declared(random, v.shape)) for v in ends]
    model = of_nodes(nodes, inputs, outputs, initializers, opset_imports=[helper.make_opsetid("", OPSET)])
    return RandomGraph(model, feeds)


def other_values(graph: RandomGraph, seed: int) -> dict[str, Array]:
    """Feeds of the same shapes: what a second run of a session meets."""
    random = np.random.default_rng(seed)
    return {name: random.permutation(array.ravel()).reshape(array.shape) for name, array in graph.feeds.items()}
