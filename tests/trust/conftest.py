"""Laws that are wrong on purpose."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

import pytest

from dlvm.ir import RULES, Op, Rule


@contextmanager
def planted(root: type[Op], law: Callable[[Any], Any]):
    """While it lasts a law stands first under a class."""
    rule = Rule(law.__name__, (root,), law, (), (), "exact", law.__doc__ or "")
    RULES[root].insert(0, rule)
    try:
        yield
    finally:
        RULES[root].remove(rule)


@pytest.fixture
def planted_law():
    return planted
