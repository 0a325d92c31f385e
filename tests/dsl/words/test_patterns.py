"""Patterns of the user's line: each is Python, and its remedy names what the pattern binds."""

from __future__ import annotations

from typing import Any

import pytest

from dlvm.dsl.words.lines import REWRITES, _read
from dlvm.dsl.words.remedies import PATTERNS


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda p: p.code)
def test_a_pattern_is_python_and_its_remedy_names_what_it_binds(pattern: Any):
    _read(pattern.code)
    if pattern.remedy in REWRITES:
        return
    words = {"first", "op", "parts", "values", "said", "keys", "least", "most"}
    letters = {"c", "a", "b", "m", "n", "i", "r", "v", "F", "T", "args"}
    named = {p.partition("}")[0].partition(":")[0] for p in pattern.remedy.split("{")[1:]}
    assert named <= words | letters
    assert all(n in pattern.code or n in words for n in named)
