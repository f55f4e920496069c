"""A model on the C library: the fast twin of ortwin.ref.Session, with the same bits."""

from __future__ import annotations

import ctypes
import operator
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx.helper

from ortwin.fast import library as c
from ortwin.ref.errors import InputError, OrtwinError, SizeError, UnsupportedError
from ortwin.ref.fenv import DefaultEnvironment
from ortwin.ref.graph import Graph, Model, Node, Value, check_feeds, load, resolve_outputs
from ortwin.ref.tensor import NIBBLES, Tensor, dtype_name, dtype_number, from_numpy, to_numpy

Array = npt.NDArray[Any]


class Session:
    """A model ready to run on the C library.

    model: a path, the bytes of a model, or an onnx.ModelProto. threads: the most threads a run may use, the
    calling one included; 0: as many as the process may (affinity mask, cgroup quota), up to 1024.
    isa: "avx512", "avx2" or "portable"; None takes the environment variable ORTWIN_ISA, else the widest available.
    pack_bytes: how many bytes the constant matrices that products have packed may take, of all sessions of the process
    together and from now on: what was said last holds, packs that are there stay, and a matrix that does not fit is
    packed by each run, with the same bits. None leaves it as it is: at first the environment variable
    ORTWIN_PACK_BYTES, else 2^30.
    nbits_level: an accuracy_level, 0 to 4, that com.microsoft.MatMulNBits nodes are held to where it is more exact than
    their own; 4 leaves them as they are.
    ModelError: the model can't be read; UnsupportedError: a node can't be computed exactly as written; IsaError: the
    instruction set is unknown or absent; LibraryError: a bad thread count, number of bytes or level. All before any
    data is seen (C9).
    """

    def __init__(
        self,
        model: Model,
        threads: int = 1,
        isa: str | None = None,
        *,
        pack_bytes: int | None = None,
        nbits_level: int = 4,
        library: c.Library | None = None,
    ) -> None:
        self._plan = _Plan(library or c.default_library(), operator.index(threads), isa, operator.index(nbits_level))
        with DefaultEnvironment():  # attributes are converted to and from binary32 (C4)
            self._graph = load(model)
            if pack_bytes is not None:
                self._plan.library.pack_bytes(pack_bytes)
            self._plan.build(self._graph)

    @property
    def graph(self) -> Graph:
        """The model as read."""
        return self._graph

    @property
    def isa(self) -> str:
        """The instruction set in use."""
        return self._plan.isa

    def run(self, output_names: Sequence[str] | None, feeds: Mapping[str, Array]) -> list[Array]:
        """The outputs named, in that order, or all outputs of the graph for None.

        feeds: an array per input, of any alignment and strides; an input with an initializer may be left out.
        InputError if a name, dtype, rank or dimension doesn't fit the model, or an operand breaks a rule of its node
        that only shows at run time. SizeError if there is not enough memory for a value.
        """
        names = resolve_outputs(self._graph, output_names)
        made: dict[str, Array] = {}

        def allocate(name: str, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
            try:
                return made.setdefault(name, np.empty(shape, dtype))
            except ValueError as error:  # more than a numpy array can have, and be it of no elements
                raise SizeError(f"output '{name}': numpy has no array of shape {list(shape)}") from error

        self._run(feeds, allocate)
        return [made[name] for name in names]

    def run_into(self, outputs: Mapping[str, Array], feeds: Mapping[str, Array]) -> None:
        """As run, but writes every output of the graph to the array given for it.

        An output array may be the very array of an input that is not read later (in place); any other overlap is a
        LibraryError. InputError if an array is missing, not writable, not in C order, or has another dtype or shape
        than the result.
        """

        def given(name: str, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
            array = outputs.get(name)
            if not isinstance(array, np.ndarray):
                raise InputError(f"no array was given for output '{name}'")
            if array.dtype != dtype or array.shape != shape:
                raise InputError(f"output '{name}' is {dtype}{list(shape)}, not {array.dtype}{list(array.shape)}")
            if not array.flags.c_contiguous or not array.flags.writeable:
                raise InputError(f"the array for output '{name}' must be writable and in C order")
            return array

        self._run(feeds, given)

    def _run(self, feeds: Mapping[str, Array], place: Callable[[str, np.dtype[Any], tuple[int, ...]], Array]) -> None:
        check_feeds(self._graph, feeds)
        failures: list[BaseException] = []
        packed: list[tuple[Array, int, Array]] = []  # outputs of 4-bit elements: array, type, bytes of the library

        def output(_user: int | None, index: int, shape: Any) -> int | None:
            tensor = shape.contents
            dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.dtype)
            try:
                dims = tuple(tensor.dims[axis] for axis in range(tensor.rank))
                array = place(self._plan.outputs[index], dtype, dims)
                if tensor.dtype not in NIBBLES:
                    return array.ctypes.data
                packed.append((array, tensor.dtype, np.empty(tensor.bytes, np.uint8)))
                return packed[-1][2].ctypes.data
            except BaseException as error:  # an exception can't cross C; it is raised again below
                failures.append(error)
                return None

        arrays = [_native(feeds[name]) if name in feeds else default for name, default in self._plan.inputs]
        held = [_held(array) for array in arrays]
        tensors = (c.CTensor * len(arrays))(*map(_tensor, arrays, held))
        try:
            self._plan.call("plan_run", tensors, len(arrays), c.OUTPUT_FN(output), None)
        except c.LibraryError as error:
            if failures and isinstance(failures[0], MemoryError):
                raise SizeError(str(error)) from failures[0]  # which names the node
            if not failures:
                raise
        if failures:
            raise failures[0]
        for array, dtype, data in packed:
            array[...] = to_numpy(Tensor(dtype, array.shape, data.tobytes()))


def _native(array: Array) -> Array:
    """The array in C order and native byte order; itself where it is so already, at whatever address."""
    return np.asarray(array, dtype=array.dtype.newbyteorder("="), order="C")


def _dims(shape: Sequence[int]) -> ctypes.Array[ctypes.c_int64]:
    return (ctypes.c_int64 * len(shape))(*shape)


def _held(array: Array) -> Array:
    """The array as the library holds it: 4-bit elements lie two to a byte."""
    if dtype_number(array.dtype) in NIBBLES:
        return np.frombuffer(from_numpy(array).data, np.uint8)
    return array


def _tensor(array: Array, held: Array) -> c.CTensor:
    """A view of the array as it is held, which must outlive it."""
    return c.CTensor(held.ctypes.data, _dims(array.shape), array.ndim, held.nbytes, dtype_number(array.dtype))


class _Plan:
    """A plan of the library, freed with this object; sessions that are copies of one another share it.

    inputs: per input of the plan, its name and the default array of its initializer, if any. outputs: their names.
    """

    def __init__(self, library: c.Library, threads: int, isa: str | None, nbits_level: int) -> None:
        if not 0 <= threads <= 1024:  # before ctypes would wrap it to 32 bits
            raise c.LibraryError(f"threads must be 0 to 1024, not {threads}")
        if not 0 <= nbits_level <= 4:
            raise c.LibraryError(f"nbits_level must be 0 to 4, not {nbits_level}")
        self.library = library
        self.handle = ctypes.c_void_p()
        library.call("plan_new", _bytes(isa or "", c.IsaError), threads, ctypes.byref(self.handle))
        # Not at exit: a daemon thread may be running the plan to the end.
        weakref.finalize(self, library.plan_free, self.handle).atexit = False
        self.call("plan_nbits_level", nbits_level)
        self.slots: dict[str, int] = {}
        self.inputs: list[tuple[str, Any]] = []
        self.outputs: list[str] = []

    @property
    def isa(self) -> str:
        """The instruction set in use."""
        return self.library.plan_isa(self.handle)

    def call(self, name: str, *arguments: object) -> None:
        """Calls a function of the library on this plan."""
        self.library.call(name, self.handle, *arguments)

    def build(self, graph: Graph) -> None:
        """Adds a whole graph and seals the plan."""
        for value in graph.inputs:
            self.add_input(value, graph.initializers.get(value.name))
        for name, tensor in graph.initializers.items():
            if name not in self.slots:
                array = _array(tensor)
                held = _held(array)
                self.add(name, "plan_constant", _tensor(array, held))
        for node in graph.nodes:
            self.add_node(node, graph.values)
        for name in dict.fromkeys(value.name for value in graph.outputs):  # one listed twice is computed once
            self.outputs.append(name)
            self.call("plan_output", self.slots[name])
        self.call("plan_seal")

    def add(self, name: str, function: str, what: ctypes.Structure) -> None:
        """Adds a value."""
        slot = ctypes.c_int32()
        self.call(function, ctypes.byref(what), ctypes.byref(slot))
        self.slots[name] = slot.value

    def add_input(self, value: Value, default: Tensor | None) -> None:
        """Adds an input with what the model says of its shape."""
        if value.shape is None:
            known = c.COperand(value.dtype, -1, None)
        else:
            dims = [dim if isinstance(dim, int) else -1 for dim in value.shape]
            known = c.COperand(value.dtype, len(dims), _dims(dims))
        self.add(value.name, "plan_input", known)
        self.inputs.append((value.name, None if default is None else _array(default)))

    def add_node(self, node: Node, declared: Mapping[str, Value]) -> None:
        """Adds a node; UnsupportedError if the model declares another type for an output."""
        inputs = (ctypes.c_int32 * len(node.inputs))(*(self.slots[name] if name else -1 for name in node.inputs))
        attrs = (c.CAttr * len(node.attributes))(*(_attr(name, value) for name, value in node.attributes.items()))
        what = c.CNode(
            node.name.replace("\0", " ").encode("utf-8", "replace"),
            _bytes(node.domain, UnsupportedError),
            _bytes(node.op_type, UnsupportedError),
            node.since_version,
            inputs,
            len(inputs),
            len(node.outputs),
            attrs,
            len(attrs),
        )
        outputs = (ctypes.c_int32 * max(1, len(node.outputs)))()
        self.call("plan_node", ctypes.byref(what), outputs)
        for name, slot in zip(node.outputs, outputs, strict=False):
            self.slots[name] = slot
            dtype = self.library.plan_dtype(self.handle, slot)
            if name in declared and 0 != declared[name].dtype != dtype:
                raise UnsupportedError(
                    f"{node.label}: its output '{name}' is {dtype_name(dtype)}, "
                    f"but the model declares {dtype_name(declared[name].dtype)}"
                )


def _bytes(text: str, error: type[OrtwinError]) -> bytes:
    """A name for C, which would take it to end at a NUL."""
    if "\0" in text:
        raise error(f"{text!r} holds a NUL")
    return text.encode("utf-8", "replace")


def _array(tensor: Tensor) -> Array:
    if tensor.dtype in NIBBLES:
        return to_numpy(tensor)
    dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.dtype)
    return np.frombuffer(tensor.data, dtype).reshape(tensor.shape)


def _attr(name: str, value: object) -> c.CAttr:
    key = _bytes(name, UnsupportedError)
    if isinstance(value, float):
        return c.CAttr(key, c.ATTR_FLOAT, f=value)
    if isinstance(value, int):
        return c.CAttr(key, c.ATTR_INT, i=value)
    if isinstance(value, str):
        text = value.encode("utf-8", "replace")
        return c.CAttr(key, c.ATTR_STRING, s=text, length=len(text))
    if isinstance(value, list):
        of = {int: c.ATTR_INTS, float: c.ATTR_FLOATS, str: c.ATTR_STRINGS}
        return c.CAttr(key, of[type(value[0])] if value else c.ATTR_INTS)
    kinds: dict[type, int] = {Tensor: c.ATTR_TENSOR, Graph: c.ATTR_GRAPH}
    return c.CAttr(key, kinds[type(value)])
