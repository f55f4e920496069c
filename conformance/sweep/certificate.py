"""Certificates: what a whole sweep proved, in a small canonical JSON file per case, shipped with the package.

A certificate names the version of the numerics, the digests of the reference's 256 blocks and of every instruction set,
the figures measured, and the digest of a sample that is quick to recompute. It is made only if the arms agree.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from ortwin.conformance.sweep import arms, blocks, exact
from ortwin.conformance.sweep.arms import Arm, Bits
from ortwin.conformance.sweep.blocks import BLOCKS, Record, State
from ortwin.conformance.sweep.cases import Case, find
from ortwin.ref.errors import OrtwinError
from ortwin.ref.numerics import NUMERICS
from ortwin.ref.tensor import dtype_name

FOLDER: Final = Path(__file__).resolve().parent.parent / "certificates"
SAMPLE: Final = 1 << 20
SAMPLE_CHUNK: Final = 1 << 16


class CertificateError(OrtwinError):
    """A certificate can't be made, read, or contradicts itself."""


@dataclass(frozen=True)
class Certificate:
    """The content of a certificate.

    reference: the overall digest; blocks: those of the 256 blocks; isas: the overall digest per instruction set;
    sample: the digest of the sample; halves: per half type the digest over all 65,536 inputs; figures: error figures
    per arm, "ours" for the reference and all instruction sets, which are the same bits.
    """

    name: str
    domain: str
    op: str
    attributes: Mapping[str, float | str]
    numerics: int
    reference: str
    blocks: Sequence[str]
    isas: Mapping[str, str]
    sample: str
    halves: Mapping[str, str] = field(default_factory=dict)
    figures: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def case(self) -> Case:
        """The case certified."""
        return find(self.name)

    def text(self) -> str:
        """Canonical JSON: sorted keys, one item a line."""
        return json.dumps(self.__dict__, sort_keys=True, indent=1, allow_nan=False) + "\n"

    def contradictions(self) -> list[str]:
        """What can't be true of an unaltered certificate of this version of the numerics."""
        found = []
        if self.numerics != NUMERICS:
            found.append(f"it is of numerics {self.numerics}, and this is numerics {NUMERICS}")
        if len(self.blocks) != BLOCKS:
            found.append(f"it has {len(self.blocks)} blocks, not {BLOCKS}")
        elif blocks.overall(self.blocks) != self.reference:
            found.append("its digest is not that of its blocks")
        found += [f"{isa} has another digest" for isa, digest in self.isas.items() if digest != self.reference]
        if self.name != self.case.name or (self.domain, self.op) != (self.case.domain or "ai.onnx", self.case.op):
            found.append("it is not of the case it names")
        if dict(self.attributes) != self.case.attributes:
            found.append("its attributes are not those of the case it names")
        return found


def read(path: Path) -> Certificate:
    """A certificate. CertificateError if it is none."""
    try:
        made = Certificate(**json.loads(path.read_text("utf-8")))
        for digest in (made.reference, made.sample, *made.blocks, *made.isas.values(), *made.halves.values()):
            if len(bytes.fromhex(digest)) != 16:
                raise ValueError(f"'{digest}' is no digest")
    except (TypeError, ValueError, AttributeError) as error:
        raise CertificateError(f"{path} is no certificate: {error}") from error
    return made


def shipped(folder: Path = FOLDER) -> dict[str, Path]:
    """The certificates of a folder, by name of their cases."""
    return {path.name.removesuffix(".json"): path for path in sorted(folder.glob("*.json"))}


def sample() -> Bits:
    """2^20 inputs: 17,408 of each sign and exponent from -8 to 7, where functions bend, and 1,024 of each other one.

    Those of a binade are spread evenly over it, each moved up by part of a step that a hash of its index says, but the
    first and the last are the binade's ends: so zeros and infinities are among them.
    """
    counts = np.full(512, 1024)
    counts.reshape(2, 256)[:, 127 - 8 : 127 + 8] = 17408
    count = np.repeat(counts, counts)
    k = np.arange(SAMPLE)
    i = k - np.repeat(np.cumsum(counts) - counts, counts)
    fraction = i * 2**23 // count + k * 2654435761 % 2**32 % (2**23 // count)
    fraction[i == 0] = 0
    fraction[i == count - 1] = 2**23 - 1
    bits: Bits = (np.repeat(np.arange(512) << 23, counts) | fraction).astype(np.uint32)
    return bits


def sample_digest(arm: Arm) -> str:
    """The digest of an arm's results on the sample."""
    digest = blocks.new_digest()
    inputs = sample().view(np.float32)
    for first in range(0, SAMPLE, SAMPLE_CHUNK):
        digest.update(blocks.little_endian(arm.compute(inputs[first : first + SAMPLE_CHUNK])))
    return str(digest.hexdigest())


def half_digests(case: Case, arm: str) -> dict[str, str]:
    """The digest of an arm's results on all 65,536 inputs of each half type that the reference's op table has."""
    found = {}
    for dtype in case.dtypes():
        y = arms.make(arm, case, dtype).compute(np.arange(arms.HALF_PATTERNS, dtype=np.uint16))
        digest = blocks.new_digest()
        digest.update(y.astype("<u2").tobytes())
        found[dtype_name(dtype)] = str(digest.hexdigest())
    return found


def whole(state: State, arm: str, build: str) -> dict[int, Record]:
    """All 256 blocks of an arm. CertificateError if some are missing."""
    records = state.records(arm, build)
    if len(records) != BLOCKS:
        raise CertificateError(f"{state.case}: {BLOCKS - len(records)} blocks of {arm} are still to be swept")
    return records


def digest_of(records: Mapping[int, Record]) -> str:
    """The overall digest of all blocks."""
    return blocks.overall([records[block].digest for block in range(BLOCKS)])


def figures(case: Case, records: Mapping[int, Record]) -> dict[str, Any]:
    """The figures of an arm for people and machines, from measured blocks; the worst error is decided by mpmath."""
    found = blocks.total(case.function, records)
    error, worst = found.max_ulp, exact.number(found.worst)
    if 0.0 < error < math.inf:
        error = exact.error_in_ulp(case.function, worst, exact.number(found.result))
    return {
        **found.as_json(),
        "max_ulp": _rounded_up(error) if math.isfinite(error) else "inf",
        "worst": f"0x{found.worst:08x}",
        "worst_input": repr(worst),
        "result": f"0x{found.result:08x}",
    }


def certify(case: Case, state: State) -> Certificate:
    """The certificate of a swept case, from blocks made by the code installed here.

    CertificateError if blocks are missing, nothing was measured, or an instruction set differs from the reference.
    """
    reference = whole(state, arms.REFERENCE, arms.reference_build())
    expected = [reference[block].digest for block in range(BLOCKS)]
    isas = {}
    measured = reference if all(record.measures is not None for record in reference.values()) else None
    for isa in arms.ours()[1:]:
        records = whole(state, isa, arms.library_build())
        wrong = next((block for block in range(BLOCKS) if records[block].digest != expected[block]), None)
        if wrong is not None:
            raise CertificateError(f"{case.name}: {isa} differs from the reference in block {wrong}")
        isas[isa] = digest_of(records)
        if all(record.measures is not None for record in records.values()):
            measured = records
    if measured is None:
        raise CertificateError(f"{case.name}: no arm of ours was measured")
    shown: dict[str, Any] = {"ours": figures(case, measured)}
    shown["ours"]["yardstick_error_ulp"] = case.function.error * 2.0**24
    for arm in state.arms():
        if arm not in (arms.REFERENCE, *isas):
            for build in state.builds(arm):
                records = state.records(arm, build)
                if len(records) == BLOCKS and all(record.measures is not None for record in records.values()):
                    shown[arm] = {**figures(case, records), "version": build, "digest": digest_of(records)}
    return Certificate(
        name=case.name,
        domain=case.domain or "ai.onnx",
        op=case.op,
        attributes=case.attributes,
        numerics=NUMERICS,
        reference=blocks.overall(expected),
        blocks=expected,
        isas=isas,
        sample=sample_digest(arms.Reference(case)),
        halves=half_digests(case, arms.REFERENCE),
        figures=shown,
    )


def _rounded_up(error: float) -> float:
    """Six digits after the point, never less than the error."""
    return math.ceil(error * 1e6) / 1e6
