"""The list of mutants stays true: every text is there once, every test exists. Running them is a lane of its own."""

from __future__ import annotations

import re
from collections import Counter

import pytest

import mutate
from mutate import Mutant

MUTANTS = mutate.read()


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_it_can_be_applied_and_its_test_exists(mutant: Mutant) -> None:
    text = (mutate.ROOT / mutant.file).read_text(encoding="utf-8")
    assert text.count(mutant.old) == 1, f"{mutant.file} holds this {text.count(mutant.old)} times: {mutant.old}"
    assert mutant.old != mutant.new
    file, _, test = mutant.killed_by.partition("::")
    function = re.escape(test.partition("[")[0])
    assert re.search(rf"^def {function}\(", (mutate.ROOT / file).read_text(encoding="utf-8"), re.MULTILINE)


def test_names_are_distinct() -> None:
    assert max(Counter(mutant.name for mutant in MUTANTS).values()) == 1
