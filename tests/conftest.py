"""Which tests a lane leaves out, and why; a build that several tests share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from builds import ROOT, build_library
from models import AVAILABLE


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip, with its reason, what can't run under the lane's sanitizer, and outside the long lane what is long."""
    left_out = {
        "nosanitize": (os.environ.get("ORTWIN_BUILD") == "sanitize", "not under AddressSanitizer"),
        "long": (not os.environ.get("ORTWIN_LONG"), "only in the lane `long`"),
    }
    for item in items:
        for name, (applies, why) in left_out.items():
            if applies and (marker := item.get_closest_marker(name)):
                item.add_marker(pytest.mark.skip(reason=f"{why}: {marker.args[0]}"))


@pytest.fixture(scope="module")
def altered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A build all whose kernel sets but the widest negate Abs; which reads its cgroups from its own folder, and thinks
    that it may use 64 CPUs but for those."""
    folder = tmp_path_factory.mktemp("altered")
    source = (ROOT / "csrc" / "kernels" / "unary.h").read_text(encoding="utf-8")
    assert source.count("or_nan(vf_abs(x), x, x)") == 1
    others = [isa for isa in AVAILABLE if isa != AVAILABLE[0]]
    changes = {f"simd/{isa}.c": ("kernels/unary.h", "kernels/wrong.h") for isa in others}
    changes["run/affinity.c"] = ("granted_cpus(masked_cpus())", "granted_cpus(64 + 0 * masked_cpus())")
    files = {"kernels/wrong.h": source.replace("or_nan(vf_abs(x), x, x)", "or_nan(vf_neg(vf_abs(x)), x, x)")}
    paths = {'"/proc/self/cgroup"': f'"{folder / "self"}"', '"/sys/fs/cgroup': f'"{folder / "cgroup"}'}
    return build_library(folder, changes, files, {"run/affinity.c": paths})
