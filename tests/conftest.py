"""Which tests a lane leaves out, and why."""

from __future__ import annotations

import os

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Under the sanitize session, skip tests marked nosanitize with the reason they give."""
    if os.environ.get("ORTWIN_BUILD") != "sanitize":
        return
    for item in items:
        if marker := item.get_closest_marker("nosanitize"):
            item.add_marker(pytest.mark.skip(reason=f"not under AddressSanitizer: {marker.args[0]}"))
