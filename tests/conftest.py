"""Which tests a lane leaves out, and why."""

from __future__ import annotations

import os

import pytest


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
