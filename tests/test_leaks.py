"""A short form of the hunt for leaks: ``python -m tests.leaks`` is the long one."""

from __future__ import annotations

import sys

import pytest

from .leaks import growth


@pytest.mark.skipif(sys.platform != "linux", reason="resident memory is read from /proc")
def test_calls_of_every_kind_leave_nothing_behind():
    grown = growth(300)
    assert sum(grown.values()) < 1 << 20, grown
