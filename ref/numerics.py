"""The version of the numerics: which bits come out."""

from __future__ import annotations

from typing import Final

NUMERICS: Final = 1
"""Raised whenever an output bit of any op changes, for any input; certificates name it."""
