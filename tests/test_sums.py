"""`ortwin sums`: what is measured of products, how it is kept, and what the page makes of it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from models import Array
from ortwin.conformance import cli, sums
from ortwin.conformance.sums import PRODUCTS, Product, Results, Row, SumsError
from ortwin.conformance.sweep.arms import host

Capture = pytest.CaptureFixture[str]
SMALL = Product(m=4, k=300, constant=True, transposed=False)


def test_the_operands_do_not_depend_on_m() -> None:
    a, b = replace(SMALL, m=1).operands()
    more, same = SMALL.operands()
    assert np.array_equal(a, more[:1])
    assert np.array_equal(b, same)


def one(monkeypatch: pytest.MonkeyPatch, y: Array) -> list[Row]:
    """The rows of a product whose foreign arm gives y."""
    true = sums.runner

    def runner(name: str, product: Product, b: Array) -> object:
        return (lambda a: y) if name == "ort-cpu" else true(name, product, b)

    monkeypatch.setattr(sums, "runner", runner)
    return list(sums.measure(["ort-cpu"], [SMALL]).rows)


def test_equal_results_are_counted_by_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = SMALL.operands()
    right = sums.runner("ours", SMALL, b)(a)
    ours, theirs = one(monkeypatch, right.copy())
    assert theirs.same == ours.same == right.size
    changed = right.copy()
    changed.view(np.uint32)[0, 5] ^= 1
    _, theirs = one(monkeypatch, changed)
    assert theirs.same == right.size - 1


def test_errors_are_those_of_the_exact_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = SMALL.operands()
    exact = a.astype(np.longdouble) @ b.astype(np.longdouble)
    unit = (np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64)) * 2.0**-24
    _, rounded = one(monkeypatch, exact.astype(np.float32))
    assert 0.0 < rounded.mean < rounded.largest < 1.0
    _, off = one(monkeypatch, (exact + 3 * unit).astype(np.float64).astype(np.float32))
    assert 2.5 < off.mean < 3.5


def test_foreign_and_ours_on_a_product() -> None:
    rows = sums.measure(["ort-cpu"], [SMALL, replace(SMALL, transposed=True, constant=False)]).rows
    assert [row.arm for row in rows] == ["ours", "ort-cpu"] * 2
    assert rows[0].mean == rows[2].mean, "ours is one answer for both forms (C1)"
    assert all(row.largest < 40.0 for row in rows)


def test_what_is_kept_is_read() -> None:
    kept = sums.read(sums.RESULTS)
    assert kept.text() == sums.RESULTS.read_text("utf-8")
    assert {row.product for row in kept.rows} == set(PRODUCTS)
    assert {"ort-cpu", "peer"} <= set(kept.versions)


def test_what_is_kept_is_true() -> None:
    """Of the first products, on the kind of machine it was measured on; ours everywhere."""
    kept = sums.read(sums.RESULTS)
    chosen = [product for product in PRODUCTS if product.k == 300]
    here = {(row.product, row.arm): row for row in sums.measure(["ort-cpu"], chosen).rows}
    alike = kept.host == host() and kept.versions["ort-cpu"] == f"onnxruntime {onnxruntime.__version__}"
    for row in kept.rows:
        if (row.product, row.arm) in here and (alike or row.arm == "ours"):
            assert here[row.product, row.arm] == row


@pytest.mark.parametrize("broken", ["{}", "[]", '{"host": "", "versions": {}, "rows": [{}]}'])
def test_files_that_hold_no_results(tmp_path: Path, broken: str) -> None:
    file = tmp_path / "s.json"
    file.write_text(broken)
    with pytest.raises(SumsError, match="holds no results"):
        sums.read(file)


def test_the_page_says_it() -> None:
    kept = sums.read(sums.RESULTS)
    text = "\n".join(sums.section(kept))
    row = next(row for row in kept.rows if row.arm == "ort-cpu")
    changed = replace(kept, rows=[replace(other, same=0) if other is row else other for other in kept.rows])
    (line,) = set("\n".join(sums.section(changed)).splitlines()) - set(text.splitlines())
    assert "0.0%" in line


def test_the_command(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sums, "PRODUCTS", [SMALL])
    made = sums.measure(["ort-cpu"], [SMALL])
    monkeypatch.setattr(sums, "measure", lambda names: made)
    assert cli.main(["sums"]) == 0
    assert "MatMul, B constant" in capsys.readouterr().out
    assert cli.main(["sums", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == made.as_json()
    assert isinstance(made, Results)


def test_an_arm_that_is_none(capsys: Capture) -> None:
    assert cli.main(["sums", "--arm", "nobody"]) == 2
    assert "nobody" in capsys.readouterr().err
