"""Certificates: those shipped hold on every arm, and neither a wrong bit nor an altered file gets past verify."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from models import AVAILABLE, ISAS, Array
from ortwin.conformance import cli
from ortwin.conformance.sweep import arms, blocks, certificate
from ortwin.conformance.sweep.arms import REFERENCE
from ortwin.conformance.sweep.blocks import BLOCK, BLOCKS, Record, State
from ortwin.conformance.sweep.cases import Case, find
from ortwin.conformance.sweep.certificate import Certificate
from ortwin.conformance.sweep.functions import FALLING, RISING
from ortwin.conformance.sweep.measure import Measures
from ortwin.fast import library_path
from ortwin.ref.numerics import NUMERICS

Capture = pytest.CaptureFixture[str]
SHIPPED = certificate.shipped()
NAMES = sorted(SHIPPED)
ISA = AVAILABLE[0]


def shipped(name: str) -> Certificate:
    return certificate.read(SHIPPED[name])


# Those shipped


def test_some_are_shipped() -> None:
    assert "Relu" in NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_certificate_is_coherent(name: str) -> None:
    found = shipped(name)
    assert found.name == name
    assert found.contradictions() == []
    assert SHIPPED[name].read_text() == found.text()
    assert len(found.text()) < 20_000
    ours = found.figures["ours"]
    assert ours["max_ulp"] <= 1.0
    assert not any(ours[key] for key in ("range", "oddness", "zero_sign"))
    if found.case.function.monotone in (RISING, FALLING):
        assert ours["monotonicity"] == 0


@pytest.mark.parametrize("name", NAMES)
def test_the_reference_on_the_sample(name: str) -> None:
    """A bit that changes without a new version of the numerics shows here."""
    found = shipped(name)
    assert certificate.sample_digest(arms.make(REFERENCE, found.case)) == found.sample
    assert found.halves.items() <= certificate.half_digests(found.case, REFERENCE).items()


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("name", NAMES)
def test_the_library_on_the_sample(name: str, isa: str) -> None:
    found = shipped(name)
    assert certificate.sample_digest(arms.make(isa, found.case)) == found.sample
    assert found.halves.items() <= certificate.half_digests(found.case, isa).items()


@pytest.mark.parametrize("name", NAMES)
def test_the_execution_provider_on_the_sample(name: str) -> None:
    found = shipped(name)
    assert certificate.sample_digest(arms.make(f"ortwin={library_path()}", found.case)) == found.sample


def test_the_sample_has_the_ends_of_every_binade() -> None:
    sample = certificate.sample()
    assert len(np.unique(sample)) == certificate.SAMPLE
    ends = [exponent << 23 | fraction for exponent in range(512) for fraction in (0, 0x7FFFFF)]
    assert np.isin(np.array(ends, np.uint32), sample).all()
    assert set(np.bincount(sample >> 23)) == {1024, 17408}


def test_one_bit_changes_the_digest_of_the_sample() -> None:
    case = find("Relu")
    x = float(certificate.sample()[3 * 2**18 - 1].view(np.float32))
    whole = certificate.sample_digest(arms.make(ISA, case))
    assert certificate.sample_digest(Faulty(arms.make(ISA, case), x)) != whole


# Made and verified


class Faulty(arms.Arm):
    """An arm with the last bit of one result flipped."""

    def __init__(self, arm: arms.Arm, x: float) -> None:
        super().__init__(arm.name, arm.build)
        self._arm, self._x, self.ours = arm, np.float32(x).view(np.uint32), arm.ours

    def compute(self, x: Array) -> Array:
        y = self._arm.compute(x).copy()
        y.view(np.uint32)[x.view(np.uint32) == self._x] ^= 1
        return np.asarray(y)


def real_blocks(case: Case, wanted: range) -> dict[int, str]:
    arm = arms.make(ISA, case)
    return {block: blocks.sweep_block(block, [arm], None)[0].digest for block in wanted}


def made(case: Case, wanted: range) -> Certificate:
    """A certificate whose other blocks nobody looks at."""
    known = real_blocks(case, wanted)
    digests = [known.get(block, f"{block:032x}") for block in range(BLOCKS)]
    whole = blocks.overall(digests)
    return Certificate(
        name=case.name,
        domain=case.domain or "ai.onnx",
        op=case.op,
        attributes=case.attributes,
        numerics=NUMERICS,
        reference=whole,
        blocks=digests,
        isas=dict.fromkeys(("avx512", "avx2", "portable"), whole),
        sample=certificate.sample_digest(arms.make(ISA, case)),
        halves=certificate.half_digests(case, REFERENCE),
    )


WANTED = range(63, 65)
WORDS = ("--blocks", "63:65")


@pytest.fixture(scope="module")
def relu() -> Certificate:
    return made(find("Relu"), WANTED)


Verify = Callable[..., tuple[int, list[dict[str, str]]]]


@pytest.fixture
def verify(capsys: Capture, tmp_path: Path) -> Verify:
    """Verifies a certificate: the exit code and the rows."""

    def command(found: Certificate, *arguments: str) -> tuple[int, list[dict[str, str]]]:
        (tmp_path / f"{found.name}.json").write_text(found.text())
        code = cli.main(["verify", "--certificates", str(tmp_path), *WORDS, *arguments, "--json"])
        rows: list[dict[str, str]] = json.loads(capsys.readouterr().out)["results"]
        return code, rows

    return command


@pytest.fixture
def fault(monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, float]], None]:
    """Makes arms faulty at one input each."""
    real = arms.make

    def inject(faults: dict[str, float]) -> None:
        def make(name: str, case: Case, dtype: int = 1) -> arms.Arm:
            arm = real(name, case, dtype)
            return Faulty(arm, faults[name]) if name in faults and dtype == 1 else arm

        monkeypatch.setattr(arms, "make", make)

    return inject


def test_every_instruction_set_matches(relu: Certificate, verify: Verify) -> None:
    code, rows = verify(relu)
    assert code == 0
    assert [(row["arm"], row["result"]) for row in rows if row["arm"] in AVAILABLE] == [(a, "match") for a in AVAILABLE]


def test_a_part_is_called_a_part(capsys: Capture) -> None:
    assert cli.main(["verify", "Relu", "--isa", ISA, "--blocks", "3:5"]) == 0
    assert "2 of 256 blocks only" in capsys.readouterr().out


def test_the_reference_matches(relu: Certificate, verify: Verify) -> None:
    assert verify(relu, "--isa", REFERENCE)[0] == 0


def test_processes(relu: Certificate, verify: Verify) -> None:
    assert verify(relu, "--isa", ISA, "--jobs", "2")[0] == 0


@pytest.mark.parametrize("offset", [0, 12345, BLOCK - 1])
def test_a_wrong_bit_is_found_in_its_block_at_its_input(
    relu: Certificate, verify: Verify, fault: Callable[[dict[str, float]], None], offset: int
) -> None:
    bits = 64 * BLOCK + offset
    x = float(np.array(bits, np.uint32).view(np.float32))
    fault({ISA: x})
    code, rows = verify(relu, "--isa", ISA)
    assert code == 1
    assert rows[0]["result"] == (
        f"differs in block 64, first at input 0x{bits:08x}: 0x{bits ^ 1:08x}, not ref's 0x{bits:08x}"
    )


def test_a_wrong_reference_is_found_by_an_instruction_set(
    relu: Certificate, verify: Verify, fault: Callable[[dict[str, float]], None]
) -> None:
    fault({REFERENCE: 1.0})
    code, rows = verify(relu, "--isa", REFERENCE)
    assert code == 1
    assert "differs in block 63, first at input 0x3f800000: 0x3f800001, not" in rows[0]["result"]


def test_a_wrong_certified_block_is_told_from_a_wrong_arm(relu: Certificate, verify: Verify) -> None:
    digests = [*relu.blocks[:64], "12" * 16, *relu.blocks[65:]]
    whole = blocks.overall(digests)
    altered = replace(relu, blocks=digests, reference=whole, isas=dict.fromkeys(relu.isas, whole))
    code, rows = verify(altered, "--isa", ISA)
    assert code == 1
    assert rows[0]["result"] == "differs in block 64, as every arm of this machine does"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"numerics": NUMERICS + 1}, f"it is of numerics {NUMERICS + 1}"),
        ({"reference": "ab" * 16}, "its digest is not that of its blocks"),
        ({"blocks": ["00" * 16] * BLOCKS}, "its digest is not that of its blocks"),
        ({"blocks": ["00" * 16]}, "it has 1 blocks"),
        ({"isas": {"avx2": "ab" * 16}}, "avx2 has another digest"),
        ({"op": "Abs"}, "not of the case it names"),
        ({"attributes": {"alpha": 1.0}}, "its attributes are not those"),
    ],
)
def test_an_altered_certificate_fails(relu: Certificate, verify: Verify, change: dict[str, Any], said: str) -> None:
    code, rows = verify(replace(relu, **change))
    assert code == 1
    assert said in rows[0]["result"]


def test_altered_halves_fail(relu: Certificate, verify: Verify) -> None:
    code, rows = verify(replace(relu, halves={"float16": "ab" * 16}), "--isa", ISA)
    assert code == 1
    assert "float16" in rows[0]["result"]


def test_an_altered_sample_fails(relu: Certificate, verify: Verify) -> None:
    code, rows = verify(replace(relu, sample="ab" * 16), "--isa", ISA)
    assert code == 1
    assert "sample" in rows[0]["result"]


def test_instruction_sets_that_can_not_be_checked_are_named(relu: Certificate, verify: Verify) -> None:
    code, rows = verify(replace(relu, isas={**relu.isas, "sve": relu.reference}), "--isa", ISA)
    assert code == 0
    assert {"case": "Relu", "arm": "sve", "result": "not checked: this build does not have it"} in rows


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("verify", "Conv"), "there is no certificate of Conv"),
        (("verify", "--isa", "sse"), "'sse' can't be verified"),
        (("verify", "--certificates", "/nowhere"), "there is no certificate of anything"),
    ],
)
def test_requests_that_cannot_be_met(capsys: Capture, arguments: tuple[str, ...], said: str) -> None:
    assert cli.main(arguments) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("text", ["{}", "[]", "nothing", '{"name": "Relu"}'])
def test_a_file_that_is_no_certificate(capsys: Capture, tmp_path: Path, text: str) -> None:
    (tmp_path / "Relu.json").write_text(text)
    assert cli.main(["verify", "--certificates", str(tmp_path)]) == 2
    assert "is no certificate" in capsys.readouterr().err


# certify


def filled(folder: Path, leave_out: int | None = None, wrong: int | None = None) -> State:
    """A state with all blocks of every arm, as if they had been swept."""
    state = State([folder], "Relu")
    for name in arms.ours():
        arm = arms.make(name, find("Relu"))
        for block in range(BLOCKS):
            digest = "ff" * 16 if block == wrong and name == ISA else f"{block:032x}"
            if block != leave_out or name != ISA:
                record = Record(block, digest, 0, 0, 0.0, Measures(max_ulp=0.25, worst=0x3F800000, result=0x3F800000))
                state.append([arm], [record], "x")
    return state


def certify(capsys: Capture, tmp_path: Path) -> tuple[int, str]:
    code = cli.main(["certify", "Relu", "--state", str(tmp_path), "--certificates", str(tmp_path / "out")])
    return code, capsys.readouterr().err


def test_certify_writes_what_verify_reads(capsys: Capture, tmp_path: Path) -> None:
    filled(tmp_path)
    assert certify(capsys, tmp_path) == (0, "")
    found = certificate.read(tmp_path / "out" / "Relu.json")
    assert found.contradictions() == []
    assert found.isas == dict.fromkeys(AVAILABLE, found.reference)
    assert found.figures["ours"]["worst_input"] == "1.0"
    assert found.figures["ours"]["max_ulp"] == 0.0  # by mpmath, which knows better than the state


def test_no_certificate_of_an_unfinished_sweep(capsys: Capture, tmp_path: Path) -> None:
    filled(tmp_path, leave_out=77)
    code, err = certify(capsys, tmp_path)
    assert code == 2
    assert f"1 blocks of {ISA} are still to be swept" in err


def test_no_certificate_where_arms_differ(capsys: Capture, tmp_path: Path) -> None:
    filled(tmp_path, wrong=77)
    code, err = certify(capsys, tmp_path)
    assert code == 2
    assert f"{ISA} differs from the reference in block 77" in err


def test_errors_are_rounded_up() -> None:
    records = {0: Record(0, "00" * 16, 0, 0, 0.0, Measures(0.7, 0x3F800000, 0x402DF854))}
    exact = 2.7182817459106445, math.e
    figures = certificate.figures(find("Exp"), records)
    assert 0.0 <= figures["max_ulp"] - abs(exact[0] - exact[1]) * 2.0**22 < 1e-6
