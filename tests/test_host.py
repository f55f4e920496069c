"""What the provider asks of its host, and what becomes of it when the host refuses: on the stand-in."""

import gc
import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from models import (
    FLOAT,
    Array,
    assert_bits,
    counts_heap,
    node,
    of_nodes,
    oracle,
    python,
    quiet,
    sample,
    value,
    work,
)
from ortwin.fast import counters, library_path, ort_session, register, unregister
from standin import SILENT, StandIn, build

REFERENCE = ("GetTensorElementTypeAndShapeDataReference",)
FIVE = ("GetTensorTypeAndShape", "GetTensorElementType", "GetDimensionsCount", "GetDimensions")
INPUT = {"KernelContext_GetInput": 1, "GetTensorElementTypeAndShapeDataReference": 1, "GetTensorData": 1}
OLD_INPUT = {
    "KernelContext_GetInput": 1,
    **dict.fromkeys(FIVE, 1),
    "ReleaseTensorTypeAndShapeInfo": 1,
    "GetTensorData": 1,
}
OUTPUT = {"KernelContext_GetOutput": 1, "GetTensorMutableData": 1}

PAIRS = {
    "GetTensorTypeAndShape": "ReleaseTensorTypeAndShapeInfo",
    "GetSessionOptionsConfigEntries": "ReleaseKeyValuePairs",
}
"""What gives an object, and what takes it back."""

_names = itertools.count()


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> StandIn:
    return StandIn(build(tmp_path_factory.mktemp("standin")), library_path())


@contextmanager
def provider(host: StandIn) -> Iterator[str]:
    """The name of the provider, registered by the stand-in under a new name."""
    name = f"standin{next(_names)}"
    register(name, host.path)
    yield name
    gc.collect()
    unregister(name)


def made(name: str, model: onnx.ModelProto, **options: Any) -> Any:
    return ort_session(model, name=name, session_options=quiet(), **options)


def calls(host: StandIn, run: Any, *arguments: Any) -> dict[str, int]:
    """Calls of the host made meanwhile, by function."""
    before = host.calls()
    run(*arguments)
    after = host.calls()
    return {name: after[name] - before[name] for name in after if after[name] != before[name]}


def times(count: int, what: Mapping[str, int]) -> dict[str, int]:
    return {name: count * each for name, each in what.items()} if count else {}


def together(*parts: Mapping[str, int]) -> dict[str, int]:
    return {name: sum(part.get(name, 0) for part in parts) for name in dict.fromkeys(n for part in parts for n in part)}


def model(inputs: int, outputs: int) -> onnx.ModelProto:
    """Sums of all inputs and a constant; every output another function of the sum, of unknown shape."""
    k = numpy_helper.from_array(np.array(0.5, np.float32), "k")
    names = [f"x{n}" for n in range(inputs)]
    nodes = [node("Add", ["k" if n == 0 else f"s{n - 1}", name], f"s{n}") for n, name in enumerate(names)]
    last = f"s{inputs - 1}" if inputs else "k"
    nodes += [node("Mul", [last, "k"] if n % 2 else [last, last], f"y{n}") for n in range(outputs)]
    values = [value(f"y{n}", FLOAT, None) for n in range(outputs)]
    return of_nodes(nodes, [value(name, FLOAT, None) for name in names], values, [k])


def feeds(count: int, shape: Sequence[int] = (3, 4)) -> dict[str, Array]:
    return {f"x{n}": np.resize(sample(FLOAT, seed=n + 1), shape).reshape(shape) for n in range(count)}


# calls per Run


@pytest.mark.parametrize(("inputs", "outputs"), [(1, 1), (2, 1), (1, 3), (5, 4), (0, 1), (20, 20)])
def test_three_calls_for_an_input_and_two_for_an_output(host: StandIn, inputs: int, outputs: int) -> None:
    want = together(times(inputs, INPUT), times(outputs, OUTPUT))
    with provider(host) as name:
        session, given = made(name, model(inputs, outputs)), feeds(inputs)
        session.run(None, given)
        for _ in range(3):
            assert calls(host, session.run, None, given) == want
        for got, expected in zip(session.run(None, given), reference(inputs, outputs, given), strict=True):
            assert_bits(got, expected)
        del session


def reference(inputs: int, outputs: int, given: Mapping[str, Array]) -> list[Array]:
    from ortwin.ref import Session as RefSession

    return RefSession(model(inputs, outputs)).run(None, given)


def test_a_shape_for_the_first_time_costs_no_call_more(host: StandIn) -> None:
    with provider(host) as name:
        session = made(name, model(2, 1))
        for shape in ((), (7,), (2, 3, 4), (1,) * 12):
            assert calls(host, session.run, None, feeds(2, shape)) == together(times(2, INPUT), OUTPUT)
        empty = calls(host, session.run, None, feeds(2, (0, 3)))
        assert empty == together(times(2, INPUT), {"KernelContext_GetOutput": 1}), "an empty tensor has no data"
        del session


def test_the_librarys_own_counters_tell_the_truth(host: StandIn) -> None:
    """Over a life of registering, making sessions, running well and badly: each function as often as the hooks saw."""
    before, seen = counters(), host.calls()
    with provider(host) as name:
        session = made(name, model(3, 2))
        session.run(None, feeds(3))
        with pytest.raises(Exception, match="broadcast"):
            session.run(None, {**feeds(3), "x0": np.ones((5, 5), np.float32)})
        made(name, of_nodes([node("Cos", ["x"], "y")], [value("x")], [value("y")]), cpu_fallback=True)
        del session
    after, now = counters(), host.calls()
    for function in sorted(name for name in now if f"ort_{name}" in after):
        assert after[f"ort_{function}"] - before[f"ort_{function}"] == now[function] - seen[function], function


# hosts that lack something


@pytest.mark.parametrize("how", ["hidden", "older"])
def test_five_calls_where_the_shape_reference_is_missing(host: StandIn, how: str) -> None:
    with host.without(*REFERENCE) if how == "hidden" else host.offering(23), provider(host) as name:
        session = made(name, model(2, 2))
        for shape in ((3, 4), (), (0, 2), (2, 1, 2) + (1,) * 5, (2,) + (1,) * 7 + (3,), (1,) * 12, (2,) * 10, (7,)):
            given = feeds(2, shape)
            session.run(None, given)
            outputs = {"KernelContext_GetOutput": 2} if 0 in shape else times(2, OUTPUT)
            assert calls(host, session.run, None, given) == together(times(2, OLD_INPUT), outputs), shape
            before = counters()["allocations_run"]
            for got, expected in zip(session.run(None, given), reference(2, 2, given), strict=True):
                assert_bits(got, expected, shape)
            assert counters()["allocations_run"] == before, shape
        seen = host.calls()["TensorTypeAndShape_HasShape"]
        made(name, model(1, 1))
        assert (host.calls()["TensorTypeAndShape_HasShape"] == seen) == (how == "older")
        del session


@pytest.mark.parametrize("missing", [*FIVE, "ReleaseTensorTypeAndShapeInfo"])
def test_with_neither_it_fails_closed(host: StandIn, missing: str) -> None:
    words = "neither GetTensorElementTypeAndShapeDataReference nor GetTensorTypeAndShape"
    with host.without(*REFERENCE, missing), pytest.raises(Exception, match=words):
        register("closed", host.path)
    with host.without(missing), provider(host) as name:  # the five are not needed where there is the one
        if missing not in ("GetTensorElementType", "GetDimensionsCount", "GetDimensions"):  # those also read graphs
            assert_bits(made(name, model(1, 1)).run(None, feeds(1))[0], reference(1, 1, feeds(1))[0])


# hosts that refuse


@pytest.mark.parametrize("function", [*INPUT, *OUTPUT])
def test_a_refusal_during_a_run_is_passed_on(host: StandIn, function: str) -> None:
    with provider(host) as name:
        session, given = made(name, model(2, 2)), feeds(2)
        for at in (1, 2):
            before = work()
            with host.refusing(function, at), pytest.raises(Exception, match="refused by the stand-in"):
                session.run(None, given)
            assert work() == before
            for got, expected in zip(session.run(None, given), reference(2, 2, given), strict=True):
                assert_bits(got, expected)
        del session


@pytest.mark.parametrize("function", [*FIVE])
def test_a_refusal_of_the_five_releases_what_was_got(host: StandIn, function: str) -> None:
    with host.without(*REFERENCE), provider(host) as name:
        session, given = made(name, model(1, 1)), feeds(1)
        before = host.calls()
        with host.refusing(function), pytest.raises(Exception, match="refused by the stand-in"):
            session.run(None, given)
        after = host.calls()
        got = after["GetTensorTypeAndShape"] - before["GetTensorTypeAndShape"] - (function == "GetTensorTypeAndShape")
        assert after["ReleaseTensorTypeAndShapeInfo"] - before["ReleaseTensorTypeAndShapeInfo"] == got
        assert_bits(session.run(None, given)[0], reference(1, 1, given)[0])
        del session


@pytest.mark.parametrize(
    ("function", "argument", "words"),
    [
        ("KernelContext_GetInput", 2, "an input of the group is missing at Run"),
        ("GetTensorData", 1, "input 0: data is NULL"),
        ("GetTensorElementTypeAndShapeDataReference", 2, "input 0: dims are NULL at rank 2"),
        ("KernelContext_GetOutput", 4, "output 0: the host gave no buffer"),
        ("GetTensorMutableData", 1, "output 0: the host gave no buffer"),
    ],
)
def test_null_where_there_should_be_something(host: StandIn, function: str, argument: int, words: str) -> None:
    with provider(host) as name:
        session, given = made(name, model(1, 1)), feeds(1)
        for _ in range(2):
            with host.forgetting(function, argument), pytest.raises(Exception, match=words):
                session.run(None, given)
            assert_bits(session.run(None, given)[0], reference(1, 1, given)[0])
        del session


def try_to_make(host: StandIn, name: str, at: int) -> bool:
    """Whether the refusal happened: making the session either fails or goes on without what was refused."""
    before, said = host.refused(), ""
    with host.refusing_any(at):
        try:
            session = made(name, model(2, 2), cpu_fallback=True)
            got = session.run(None, feeds(2))
        except Exception as error:  # ONNX Runtime's share no other base
            said, got = str(error), reference(2, 2, feeds(2))
    assert not said or "refused by the stand-in" in said, at
    for array, want in zip(got, reference(2, 2, feeds(2)), strict=True):
        assert_bits(np.nan_to_num(array), np.nan_to_num(want))
    return host.refused() > before


def test_every_single_call_can_be_refused(host: StandIn) -> None:
    """From the first call that a session makes to the last of its first run."""
    with provider(host) as name:
        count = next(at for at in itertools.count(1) if not try_to_make(host, name, at))
        assert count > 60
        session = made(name, model(1, 1))
        assert_bits(session.run(None, feeds(1))[0], reference(1, 1, feeds(1))[0])
        del session


def test_no_refusal_loses_a_status_or_a_shape(host: StandIn) -> None:
    """Each call refused once, of sessions and runs, on a host that tells shapes by one call or by five: what the
    provider was given it has released, or returned to the host."""
    for five in (False, True):
        with host.without(*REFERENCE) if five else host.offering(99), provider(host) as name:
            lost, seen, refused = host.lost(), host.calls(), {name: host.refused(name) for name in PAIRS}
            at = 1
            while try_to_make(host, name, at):
                assert host.lost() == lost, at
                at += 1
            session, given = made(name, model(2, 2)), feeds(2)
            for function in (*(OLD_INPUT if five else INPUT), *OUTPUT):
                if function not in SILENT:
                    with host.refusing(function, 2), pytest.raises(Exception, match="refused by the stand-in"):
                        session.run(None, given)
                    assert host.lost() == lost, function
            now = host.calls()
            for get, release in PAIRS.items():
                got = now[get] - seen[get] - (host.refused(get) - refused[get])
                assert now[release] - seen[release] == got, get
            assert (now["GetTensorTypeAndShape"] > seen["GetTensorTypeAndShape"]) == five
            del session


@counts_heap
def test_refused_sessions_leave_no_plan_behind(tmp_path: Path) -> None:
    """A plan has constants of 40,000 bytes; the noise of a thousand exceptions is far below."""
    script = f"""
        from models import flat
        from test_host import *
        host = StandIn(build(Path({str(tmp_path)!r})), library_path())
        k = numpy_helper.from_array(np.ones(10_000, np.float32), "k")
        large = of_nodes([node("Add", ["x", "k"], "y")], [value("x", FLOAT, None)], [value("y", FLOAT, None)], [k])
        with provider(host) as name:
            def make_all():
                for at in range(1, 60):
                    with host.refusing_any(at):
                        try:
                            made(name, large, cpu_fallback=True)
                        except Exception:
                            pass
            print(flat(make_all, warm_up=5, rounds=10))
    """
    grown = float(python(script).stdout)
    assert abs(grown) < 20_000, f"{grown} bytes a round"


def test_the_oracle_knows_the_model() -> None:
    """That the results above are not compared with themselves."""
    given = feeds(2)
    assert_bits(oracle(model(2, 1), given), reference(2, 1, given)[0])
