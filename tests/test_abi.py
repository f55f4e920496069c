"""The declarations in csrc/ort/abi.h against the ONNX Runtime that is installed, and the choice of an API version
against hosts made up here."""

import ctypes
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from models import counts_heap, flat
from ortwin.fast import library_path
from ortwin.fast.library import Library

ABI_H = Path(__file__).parent.parent / "csrc" / "ort" / "abi.h"
FAIL, INVALID_ARGUMENT = 1, 2
OLDEST, NEWEST = 23, 30

GetApi = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_uint32)
GetVersionString = ctypes.CFUNCTYPE(ctypes.c_void_p)


class ApiBase(ctypes.Structure):
    """OrtApiBase"""

    _fields_ = (("GetApi", GetApi), ("GetVersionString", GetVersionString))


class Ort:
    """The API table of the installed ONNX Runtime, called by slot number."""

    def __init__(self) -> None:
        libraries = sorted(Path(onnxruntime.__file__).parent.glob("capi/*.so*"))
        for path in libraries:
            function = getattr(ctypes.CDLL(str(path)), "OrtGetApiBase", None)
            if function is not None:
                break
        else:
            pytest.skip(f"none of {[path.name for path in libraries]} exports OrtGetApiBase")
        function.restype = ctypes.POINTER(ApiBase)
        self.base = function().contents
        self.table = self.base.GetApi(OLDEST)

    def pointer(self, slot: int, table: int | None = None) -> int:
        return ctypes.c_uint64.from_address((table or self.table) + 8 * slot).value

    def call(self, slot: int, result: Any, *arguments: Any) -> Any:
        simple = (ctypes.c_int, ctypes.c_size_t)
        types = [type(argument) if isinstance(argument, simple) else ctypes.c_void_p for argument in arguments]
        return ctypes.CFUNCTYPE(result, *types)(self.pointer(slot))(*arguments)

    def ok(self, slot: int, *arguments: Any) -> None:
        """Calls a function that returns a status, which must be NULL."""
        status = self.call(slot, ctypes.c_void_p, *arguments)
        assert not status, self.message(status)

    def code(self, status: int) -> int:
        return int(self.call(1, ctypes.c_int, ctypes.c_void_p(status)))

    def message(self, status: int) -> str:
        text = self.call(2, ctypes.c_char_p, ctypes.c_void_p(status)).decode()
        self.call(93, None, ctypes.c_void_p(status))  # ReleaseStatus
        return str(text)


@pytest.fixture(scope="module")
def ort() -> Ort:
    return Ort()


def declared(table: str) -> dict[str, int]:
    """Member to slot, as abi.h asserts them."""
    if not ABI_H.exists():
        pytest.skip(f"{ABI_H} is not there: the tests run without the sources")
    return {name: int(slot) for name, slot in re.findall(rf"ABI_SLOT\({table}, (\w+), (\d+)\)", ABI_H.read_text())}


# the installed runtime


def test_every_slot_declared_is_a_function_of_the_runtime(ort: Ort) -> None:
    slots = declared("OrtApi")
    assert len(slots) > 40
    code = [line.split() for line in Path("/proc/self/maps").read_text().splitlines() if "libonnxruntime.so" in line]
    ranges = [tuple(int(end, 16) for end in fields[0].split("-")) for fields in code if "x" in fields[1]]
    ep_api = ctypes.CFUNCTYPE(ctypes.c_void_p)(ort.pointer(slots["GetEpApi"]))()
    pointers = {name: ort.pointer(slot) for name, slot in slots.items()}
    pointers |= {name: ort.pointer(slot, ep_api) for name, slot in declared("OrtEpApi").items()}
    for name, pointer in pointers.items():
        assert any(low <= pointer < high for low, high in ranges), name
    assert len(set(pointers.values())) == len(pointers)


def test_abi_h_asserts_the_slot_of_every_function_that_is_called() -> None:
    """It would compile with a member in the wrong place if its assertion were left out."""
    asserted = {**declared("OrtApi"), **declared("OrtEpApi")}
    source = "".join(path.read_text() for path in sorted(ABI_H.parent.glob("*.c")))
    assert not re.search(r"\bapi->\w+\(", source), "a call that is not counted"
    called = set(re.findall(r"\bORT\([^,]+, (?:ep_)?api, (\w+),", source))
    assert len(called) > 30
    assert called <= set(asserted)


def test_versions_are_granted_as_the_code_expects(ort: Ort) -> None:
    version = ctypes.string_at(ort.base.GetVersionString()).decode()
    assert version == onnxruntime.__version__
    minor = int(version.split(".")[1])
    for wanted in (1, OLDEST, min(NEWEST, minor)):
        assert ort.base.GetApi(wanted) == ort.table


@pytest.mark.parametrize(("code", "text"), [(FAIL, b"one"), (INVALID_ARGUMENT, "zwei \u00e4".encode()), (3, b"")])
def test_status_round_trip(ort: Ort, code: int, text: bytes) -> None:
    status = ort.call(declared("OrtApi")["CreateStatus"], ctypes.c_void_p, ctypes.c_int(code), ctypes.c_char_p(text))
    assert ort.code(status) == code
    assert ort.message(status) == text.decode()


def test_tensor_functions(ort: Ort) -> None:
    """Element type, shape and data of a tensor over memory of ours, by the functions Compute uses."""
    slot = declared("OrtApi")
    array, shape = np.arange(6, dtype=np.int16).reshape(2, 3), (ctypes.c_int64 * 2)(2, 3)
    memory, tensor = ctypes.c_void_p(), ctypes.c_void_p()
    ort.ok(69, ctypes.c_int(0), ctypes.c_int(0), ctypes.byref(memory))  # CreateCpuMemoryInfo
    data, size = ctypes.c_void_p(array.ctypes.data), ctypes.c_size_t(array.nbytes)
    int16 = ctypes.c_int(5)
    ort.ok(49, memory, data, size, shape, ctypes.c_size_t(2), int16, ctypes.byref(tensor))

    dtype, rank, dims, where = ctypes.c_int(), ctypes.c_size_t(), ctypes.POINTER(ctypes.c_int64)(), ctypes.c_void_p()
    reference = slot["GetTensorElementTypeAndShapeDataReference"]
    ort.ok(reference, tensor, ctypes.byref(dtype), ctypes.byref(dims), ctypes.byref(rank))
    assert (dtype.value, rank.value, dims[0], dims[1]) == (5, 2, 2, 3)
    for name in ("GetTensorData", "GetTensorMutableData"):
        where.value = None
        ort.ok(slot[name], tensor, ctypes.byref(where))
        assert where.value == array.ctypes.data

    kind, of_type, info = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p()
    ort.ok(66, tensor, ctypes.byref(of_type))  # GetTypeInfo
    ort.ok(slot["GetOnnxTypeFromTypeInfo"], of_type, ctypes.byref(kind))
    ort.ok(slot["CastTypeInfoToTensorInfo"], of_type, ctypes.byref(info))
    dtype.value, rank.value = 0, 0
    ort.ok(slot["GetTensorElementType"], info, ctypes.byref(dtype))
    ort.ok(slot["GetDimensionsCount"], info, ctypes.byref(rank))
    assert (kind.value, dtype.value, rank.value) == (1, 5, 2)
    assert ort.call(slot["TensorTypeAndShape_HasShape"], ctypes.c_bool, info) is True

    for release, handle in ((98, of_type), (96, tensor), (94, memory)):
        ort.call(release, None, handle)


def test_session_options_as_key_value_pairs(ort: Ort) -> None:
    slot = declared("OrtApi")
    options, pairs = ctypes.c_void_p(), ctypes.c_void_p()
    texts = ctypes.POINTER(ctypes.c_char_p)
    keys, values, count = texts(), texts(), ctypes.c_size_t()
    ort.ok(10, ctypes.byref(options))  # CreateSessionOptions
    entries = {b"ep.ortwin.isa": b"avx2", b"ep.ortwin.threads": b"2"}
    for key, value in entries.items():
        ort.ok(130, options, ctypes.c_char_p(key), ctypes.c_char_p(value))  # AddSessionConfigEntry
    ort.ok(slot["GetSessionOptionsConfigEntries"], options, ctypes.byref(pairs))
    places = (ctypes.byref(keys), ctypes.byref(values), ctypes.byref(count))
    ort.call(slot["GetKeyValuePairs"], None, pairs, *places)
    assert {keys[k]: values[k] for k in range(count.value)} == entries
    ort.call(slot["ReleaseKeyValuePairs"], None, pairs)
    ort.call(100, None, options)


def test_attributes(ort: Ort) -> None:
    slot = declared("OrtApi")
    attr, kind, name = ctypes.c_void_p(), ctypes.c_int(), ctypes.c_char_p()
    got, size = ctypes.c_float(), ctypes.c_size_t()
    value = ctypes.c_float(0.625)
    of_float = ctypes.c_int(3)
    name_and_value = (ctypes.c_char_p(b"alpha"), ctypes.byref(value), ctypes.c_int(1))
    ort.ok(211, *name_and_value, of_float, ctypes.byref(attr))  # CreateOpAttr
    ort.ok(slot["OpAttr_GetType"], attr, ctypes.byref(kind))
    ort.ok(slot["OpAttr_GetName"], attr, ctypes.byref(name))
    ort.ok(slot["ReadOpAttr"], attr, of_float, ctypes.byref(got), ctypes.c_size_t(4), ctypes.byref(size))
    assert (kind.value, name.value, got.value, size.value) == (3, b"alpha", 0.625, 4)
    ort.call(212, None, attr)  # ReleaseOpAttr


# hosts made up


class Host:
    """A stand-in for OrtApiBase that grants API versions up to `newest` and keeps what it was asked."""

    def __init__(self, version: bytes, newest: int, table: int, always: tuple[int, ...] = (1,)) -> None:
        self.asked: list[int] = []
        self.statuses: list[tuple[int, bytes]] = []

        def get_api(wanted: int) -> int | None:
            self.asked.append(wanted)
            return table if wanted <= newest or wanted in always else None

        self.text = ctypes.create_string_buffer(version)
        self.base = ApiBase(GetApi(get_api), GetVersionString(lambda: ctypes.addressof(self.text)))


def create(host: Host, room: int = 4) -> tuple[int | None, list[int]]:
    """The status of CreateEpFactories and the factories it made."""
    function = Library(library_path())._dll.CreateEpFactories
    function.restype = ctypes.c_void_p
    factories, count = (ctypes.c_void_p * 4)(), ctypes.c_size_t(99)
    place = ctypes.c_size_t(room)
    status = function(b"chosen name", ctypes.byref(host.base), None, factories, place, ctypes.byref(count))
    assert count.value <= 4
    return status, [int(factories[k] or 0) for k in range(count.value)]


def release(factory: int) -> None:
    function = Library(library_path())._dll.ReleaseEpFactory
    function.restype = ctypes.c_void_p
    assert function(ctypes.c_void_p(factory)) is None


@pytest.mark.parametrize("version", [b"1.22.2", b"1.9.0", b"1.32.0", b"2.0.0", b"nonsense"])
def test_a_host_that_is_too_old_is_told_what_is_needed(ort: Ort, version: bytes) -> None:
    host = Host(version, 22, ort.table)
    status, factories = create(host)
    assert factories == []
    assert status
    assert ort.code(status) == FAIL
    assert ort.message(status) == f"ortwin needs ONNX Runtime 1.23 or newer; this is {version.decode()}"


def test_the_message_needs_no_more_than_slot_0_of_version_1() -> None:
    told: list[tuple[int, bytes]] = []

    def create_status(code: int, message: bytes) -> int:
        told.append((code, message))
        return 0x5A5A

    callback = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p)(create_status)
    table = (ctypes.c_void_p * 1)(ctypes.cast(callback, ctypes.c_void_p))
    status, factories = create(Host(b"1.20.1", 20, ctypes.addressof(table)))
    assert (status, factories) == (0x5A5A, [])
    assert told == [(FAIL, b"ortwin needs ONNX Runtime 1.23 or newer; this is 1.20.1")]


@pytest.mark.parametrize("newest", range(OLDEST, NEWEST + 3))
def test_the_newest_version_granted_is_taken(ort: Ort, newest: int) -> None:
    host = Host(b"1.99.0", newest, ort.table)
    status, (factory,) = create(host)
    assert status is None
    granted = min(newest, NEWEST)
    assert ctypes.c_uint32.from_address(factory).value == granted
    assert host.asked == list(range(NEWEST, granted - 1, -1)), "each version once, newest first, none beyond"
    release(factory)


def test_a_host_is_not_asked_for_what_its_version_lacks(ort: Ort) -> None:
    """GetApi prints a line of complaint for each version it does not have."""
    host = Host(b"1.26.3", 26, ort.table)
    _, (factory,) = create(host)
    assert host.asked == [26]
    assert ctypes.c_uint32.from_address(factory).value == 26
    release(factory)


def test_no_room_for_a_factory(ort: Ort) -> None:
    status, factories = create(Host(b"1.32.0", 32, ort.table), room=0)
    assert factories == []
    assert status
    assert ort.code(status) == INVALID_ARGUMENT
    assert ort.message(status) == "ortwin: no room for a factory"


def test_what_the_factory_says_of_itself(ort: Ort) -> None:
    _, (factory,) = create(Host(b"1.32.0", 32, ort.table))

    def member(slot: int, result: Any) -> Callable[..., Any]:
        return ctypes.CFUNCTYPE(result, ctypes.c_void_p)(ctypes.c_uint64.from_address(factory + 8 * slot).value)

    assert member(1, ctypes.c_char_p)(factory) == b"chosen name"
    assert member(2, ctypes.c_char_p)(factory) == b"ortwin"
    assert member(6, ctypes.c_uint32)(factory) == 0
    assert member(7, ctypes.c_char_p)(factory) == Library(library_path()).version().encode()
    assert member(12, ctypes.c_bool)(factory) is False
    transfer = ctypes.c_void_p(1)
    create_transfer = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)(
        ctypes.c_uint64.from_address(factory + 8 * 11).value
    )
    assert create_transfer(factory, ctypes.addressof(transfer)) is None
    assert transfer.value is None
    required = (1, 2, 3, 4, 5, 6, 7, 11, 12)
    present = [slot for slot in range(1, 21) if ctypes.c_uint64.from_address(factory + 8 * slot).value]
    assert present == list(required)
    release(factory)


@counts_heap
@pytest.mark.parametrize(
    ("entries", "fails"),
    [
        ({}, ""),
        ({b"ep.chosen name.isa": b"portable", b"ep.chosen name.threads": b"3", b"ep.other.isa": b"none"}, ""),
        ({b"ep.chosen name.report": b"/dev/null", b"session.whatever": b"x" * 1000}, ""),
        ({b"ep.chosen name.isa": b"portable", b"ep.chosen name.threads": b"none"}, "option threads='none'"),
        ({b"ep.chosen name.report": b"/dev/null", b"ep.chosen name.isa": b"none"}, "isa 'none' is unknown"),
        ({b"ep.chosen name.isa": b"portable", b"ep.chosen name.zeal": b"1"}, "option zeal='1': unknown option"),
        ({b"ep.chosen name.report": b"/no/such/file"}, "option report='/no/such/file': the file can't be written"),
    ],
)
def test_providers_made_refused_and_released_leave_nothing_behind(
    ort: Ort, entries: dict[bytes, bytes], fails: str
) -> None:
    """To the byte, since nothing but CreateEp and ReleaseEp runs in between."""
    options = ctypes.c_void_p()
    ort.ok(10, ctypes.byref(options))
    for key, value in entries.items():
        ort.ok(130, options, ctypes.c_char_p(key), ctypes.c_char_p(value))
    _, (factory,) = create(Host(b"1.32.0", 32, ort.table))
    provider, pointer = ctypes.c_void_p(), ctypes.c_void_p
    create_ep = ctypes.CFUNCTYPE(pointer, *[pointer] * 3, ctypes.c_size_t, *[pointer] * 3)(ort.pointer(4, factory))
    release_ep = ctypes.CFUNCTYPE(None, pointer, pointer)(ort.pointer(5, factory))

    def make() -> None:
        provider.value = 99
        status = create_ep(factory, None, None, 0, options, None, ctypes.addressof(provider))
        if not fails:
            assert status is None
            name = ctypes.CFUNCTYPE(ctypes.c_char_p, pointer)(ort.pointer(1, provider.value))
            assert name(provider) == b"chosen name"
            release_ep(factory, provider)
        else:
            assert provider.value is None
            assert fails in ort.message(status)

    assert abs(flat(make, rounds=2000)) < 8
    release(factory)
    ort.call(100, None, options)


@counts_heap
def test_factories_leave_nothing_behind(ort: Ort) -> None:
    host = Host(b"1.32.0", 32, ort.table)

    def make() -> None:
        host.asked.clear()
        release(create(host)[1][0])

    assert abs(flat(make, rounds=2000)) < 8


def test_releasing_nothing() -> None:
    release(0)
