"""docs/numerics.md is what its sources make of it, and shows it if one of them changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from models import Array
from ortwin.conformance import cli, sums
from ortwin.conformance.sweep import arms, certificate, literal, page
from ortwin.conformance.sweep.cases import CASES, Case, find
from ortwin.conformance.sweep.certificate import Certificate
from ortwin.conformance.sweep.page import EDGES, INPUTS, PageError, Results

PAGE = Path(__file__).resolve().parent.parent / "docs" / "numerics.md"
Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def certificates() -> dict[str, Certificate]:
    return page.load(certificate.FOLDER)


@pytest.fixture(scope="module")
def results() -> Results:
    return page.read(page.RESULTS)


def made_of(certificates: dict[str, Certificate], results: Results) -> str:
    """The page, with the sums that are shipped."""
    return page.text(certificates, results, sums.read(sums.RESULTS))


@pytest.fixture(scope="module")
def text(certificates: dict[str, Certificate], results: Results) -> str:
    return made_of(certificates, results)


def test_the_page_is_true(text: str) -> None:
    assert PAGE.read_text("utf-8") == text, "ortwin numerics docs/numerics.md makes the page"


def test_onnx_runtime_gives_what_is_said_of_it(results: Results) -> None:
    if onnxruntime.__version__ != results.ort:
        pytest.skip(f"this is ONNX Runtime {onnxruntime.__version__}, the page is about {results.ort}")
    if arms.host() != results.host:
        pytest.skip(f"this machine has {arms.host()}, the page is about one with {results.host}")
    assert page.run_ort() == results
    assert page.RESULTS.read_text() == results.text()


# What changes the page


FIGURES = {"max_ulp": 0.75, **dict.fromkeys((*page.FIGURES, "classes"), 1)}


@pytest.mark.parametrize("arm", ["ours", "ort-cpu"])
@pytest.mark.parametrize("figure", FIGURES)
def test_another_figure(
    text: str, certificates: dict[str, Certificate], results: Results, arm: str, figure: str
) -> None:
    relu = certificates["Relu"]
    value: Any = {"other NaN": 1} if figure == "classes" else FIGURES[figure]
    changed = {**relu.figures, arm: {**relu.figures[arm], figure: value}}
    made = made_of({**certificates, "Relu": replace(relu, figures=changed)}, results)
    (line,) = set(made.splitlines()) - set(text.splitlines())
    assert line.startswith(f"| Relu | {arm} |")


def test_an_arm_more(text: str, certificates: dict[str, Certificate], results: Results) -> None:
    relu = certificates["Relu"]
    peer = {**relu.figures["ort-cpu"], "max_ulp": "inf", "worst": "0xff7fffff", "version": "peer 1.0"}
    made = made_of({"Relu": replace(relu, figures={**relu.figures, "peer": peer})}, results)
    assert "| Relu | peer | inf | -3.4028235e+38 |" in made
    assert "peer: peer 1.0." in made


def test_no_certificate(results: Results) -> None:
    made = made_of({}, results)
    assert all(f"| {case.name} | ours | not swept |" in made for case in CASES)


def test_halves_certified(certificates: dict[str, Certificate], results: Results) -> None:
    certified = replace(certificates["Relu"], halves={"float16": "ab" * 16})
    assert f"| Relu | `{'ab' * 16}` | not certified yet |" in made_of({"Relu": certified}, results)


@pytest.mark.parametrize("name", EDGES)
def test_another_result_at_an_edge(
    text: str,
    certificates: dict[str, Certificate],
    results: Results,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
) -> None:
    """One bit of Tanh, and every other op as it is."""

    class Faulty(arms.Reference):
        def __init__(self, case: Case, dtype: int = 1) -> None:
            super().__init__(case, dtype)
            self.case = case

        def compute(self, x: Array) -> Array:
            y = np.array(super().compute(x))
            if self.case.name == "Tanh":
                y.view(np.uint32)[x.view(np.uint32) == EDGES[name]] ^= 1
            return y

    monkeypatch.setattr(arms, "Reference", Faulty)
    changed = set(made_of(certificates, results).splitlines()) - set(text.splitlines())
    assert any(line.startswith("| Tanh |") for line in changed)


@pytest.mark.parametrize(("op", "x"), [("Tanh", 8.9988), ("Relu", -0.0), ("Exp", np.nan), ("Mish", -60.0)])
def test_another_result_of_onnx_runtime(
    text: str, certificates: dict[str, Certificate], results: Results, op: str, x: float
) -> None:
    at = int(np.flatnonzero(np.float32(x).view(np.uint32) == INPUTS)[0])
    line = list(results.results[op])
    line[at] = f"{int(line[at], 16) ^ 0x80000004:08x}"
    changed = replace(results, results={**results.results, op: line})
    assert made_of(certificates, changed) != text


def test_a_case_onnx_runtime_was_not_asked_for(certificates: dict[str, Certificate], results: Results) -> None:
    fewer = {name: line for name, line in results.results.items() if name != "Exp"}
    assert "ORT does not run, or was not asked for: Exp." in made_of(certificates, replace(results, results=fewer))


# Reasons


@pytest.mark.parametrize(
    ("op", "x", "ours", "theirs", "reason"),
    [
        ("Tanh", 8.9988, 0.99999994, 1.0000001, "outside the range (C8)"),
        ("Tanh", 1.0, 0.7615942, 0.7615942, ""),
        ("Tanh", 1.0, 0.7615942, 0.7615941, ""),
        ("Tanh", 1.0, 0.7615942, 0.7615943, "off by 2.35 ulp (C8)"),
        ("Tanh", 1.0, 0.7615942, 0.7625942, "off by 16,778 ulp (C8)"),
        ("Sigmoid", -18.0, 1.5229979e-08, 0.0, "zero where digits are due (C8)"),
        ("Softplus", 3.4028235e38, 3.4028235e38, np.inf, "infinite where a number is due (C8)"),
        ("Elu", -1e-40, -1e-40, 0.0, "subnormals count (C4)"),
        ("Elu", -0.0, -0.0, 0.0, "the sign of a zero (C10c)"),
        ("Gelu", -88.0, -0.0, 0.0, "the sign of a zero (C8)"),
        ("Mish", -np.inf, -0.0, np.nan, "the limit at an infinity (C10b)"),
        ("Softsign", np.inf, 1.0, 0.5, "the limit at an infinity (C10b)"),
        ("Mish", 88.0, 88.0, np.nan, "the true value, not the formula's (C10a)"),
        ("Sqrt", -1.0, np.nan, -np.nan, "a NaN is canonical (C3)"),
        ("Sqrt", -1.0, np.nan, 0.0, "NaN outside the domain (C10b)"),
        ("Relu", np.nan, np.nan, 0.0, "a NaN stays one (C3)"),
    ],
)
def test_reasons(op: str, x: float, ours: float, theirs: float, reason: str) -> None:
    bits = [int(np.float32(value).view(np.uint32)) for value in (x, ours, theirs)]
    assert page.why(find(op), bits[0], bits[1], bits[2]) == reason


def test_nans_of_a_formula_have_no_bits() -> None:
    assert page.why(find("Sqrt"), 0xBF800000, 0x7FC00000, 0xFFC00000, exactly=False) == ""


@pytest.mark.parametrize(
    ("name", "x", "want"),
    [
        ("Elu", -1e-8, 0.0),
        ("Selu", -0.0, 0.0),
        ("Celu", -1e-4, -0.000100016594),
        ("Celu", 2.0, 2.0),
        ("Softplus", -18.0, 0.0),
        ("Softplus", 0.0, 0.6931472),
        ("Softsign", np.inf, np.nan),
        ("Gelu", -8.0, -0.0),
        ("Gelu", -np.inf, np.nan),
        ("Gelu-approximate=tanh", 1.0, 0.841192),
        ("com.microsoft.FastGelu", 1.0, 0.841192),
        ("HardSwish", -2.9999998, -8.940696e-08),
        ("HardSigmoid", -np.inf, 0.0),
        ("HardSigmoid", np.nan, np.nan),
        ("Swish", -103.5, -0.0),
        ("com.microsoft.QuickGelu", 1.0, 0.84579575),
        ("Mish", -18.0, -0.0),
        ("Sigmoid", -103.0, 0.0),
    ],
)
def test_formulas_are_evaluated_literally(name: str, x: float, want: float) -> None:
    got = literal.evaluate(find(name), np.array([x], np.float32))
    assert got is not None
    np.testing.assert_allclose(got, np.float32(want), rtol=2e-7)
    assert np.isnan(want) or np.signbit(got[0]) == np.signbit(want)


@pytest.mark.parametrize(
    ("bits", "words"),
    [
        (0x80000000, "-0.0"),
        (1, "1e-45"),
        (0xFF800000, "-Inf"),
        (0x7FC00000, "NaN"),
        (0xFFC00000, "NaN 0xffc00000"),
        (0x3DCCCCCD, "0.1"),
    ],
)
def test_numbers(bits: int, words: str) -> None:
    assert page.number(bits) == words


# The command


def test_command(capsys: Capture, tmp_path: Path, text: str) -> None:
    file = tmp_path / "numerics.md"
    assert cli.main(["numerics", str(file)]) == 0
    assert file.read_text("utf-8") == text
    assert cli.main(["numerics", str(file), "--check"]) == 0
    file.write_text(text.replace("| Tanh |", "| tanh |"), "utf-8")
    assert cli.main(["numerics", str(file), "--check"]) == 1
    assert "not what its sources make it" in capsys.readouterr().out


def test_command_runs_onnx_runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, results: Results) -> None:
    monkeypatch.setattr(page, "run_ort", lambda: replace(results, ort="9.9"))
    arguments = ["numerics", str(tmp_path / "p.md"), "--ort", "--results", str(tmp_path / "r.json")]
    assert cli.main(arguments) == 0
    assert page.read(tmp_path / "r.json").ort == "9.9"
    assert "ONNX Runtime 9.9" in (tmp_path / "p.md").read_text()


Break = Callable[[Results], str]


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        (lambda found: "{}", "holds no results"),
        (lambda found: "[]", "holds no results"),
        (lambda found: found.text().replace('"Relu": "00000000', '"Relu": "'), "not as many results"),
        (lambda found: found.text().replace('"Relu": "00000000', '"Relu": "ffffffffff'), "holds no results"),
        (lambda found: replace(found, inputs=found.inputs[::-1]).text(), "are of other inputs"),
    ],
)
def test_results_that_are_none(capsys: Capture, tmp_path: Path, results: Results, broken: Break, said: str) -> None:
    (tmp_path / "r.json").write_text(broken(results))
    assert cli.main(["numerics", str(tmp_path / "p.md"), "--results", str(tmp_path / "r.json")]) == 2
    assert said in capsys.readouterr().err


def test_requests_that_cannot_be_met(capsys: Capture, tmp_path: Path, certificates: dict[str, Certificate]) -> None:
    assert cli.main(["numerics", str(tmp_path / "p.md"), "--ort", "--check"]) == 2
    (tmp_path / "Relu.json").write_text(replace(certificates["Relu"], numerics=0).text())
    assert cli.main(["numerics", str(tmp_path / "p.md"), "--certificates", str(tmp_path)]) == 2
    assert "it is of numerics 0" in capsys.readouterr().err


def test_results_are_read_as_written(tmp_path: Path, results: Results) -> None:
    (tmp_path / "r.json").write_text(results.text())
    assert page.read(tmp_path / "r.json") == results
    with pytest.raises(PageError):
        replace(results, inputs=[]).of(find("Relu"))
