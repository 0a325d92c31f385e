"""A long compile says what it does: first after a second, then at doubled times."""

from __future__ import annotations

import itertools
import logging
import re

import numpy as np
import pytest

import dlvm
from dlvm.base import progress

LINE = re.compile(r"compiling (\w+): (.+), ([\d,]+) operations, (\d+) s so far")


class Clock:
    """A clock on which a quarter of a second passes between any two looks."""

    def __init__(self) -> None:
        self.ticks = itertools.count()

    def perf_counter(self) -> float:
        return next(self.ticks) / 4


def unrolled(trips: int) -> dlvm.StagedFunction[..., object]:
    @dlvm.function
    def drift(x):
        for i in range(trips):
            x = x * 1.01 + i
        return x

    return drift


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture):
    unrolled(1)(np.ones(3))  # modules that are imported by the first call see the real limits
    monkeypatch.setattr(progress, "time", Clock())
    monkeypatch.setenv("DLVM_CACHE", "0")  # what another test compiled takes no time
    caplog.set_level(logging.INFO, "dlvm.compile")

    def found() -> list[tuple[int, str, str, int, int]]:
        read = [(r.levelno, LINE.fullmatch(r.getMessage())) for r in caplog.records]
        return [
            (level, m[1], m[2], int(m[3].replace(",", "")), int(m[4])) for level, m in read if m
        ]

    return found


def test_every_stage_of_a_long_compile_reports_at_doubled_times(lines, monkeypatch):
    monkeypatch.setattr(progress, "LARGE_PROGRAM", 700)
    unrolled(600)(np.ones(3))
    times = [t for *_, t in lines()]
    assert times == [1, 2, 4, 8][: len(times)] and len(times) >= 3
    assert {name for _, name, *_ in lines()} == {"drift"}
    assert lines()[0][2] == "tracing" and lines()[-1][2].startswith("pass ")
    for level, _, _, operations, _ in lines():
        assert level == (logging.WARNING if operations >= 700 else logging.INFO)


def test_a_short_compile_reports_nothing(lines, monkeypatch):
    monkeypatch.setattr(progress, "FIRST", 1e9)
    unrolled(600)(np.ones(3))
    assert lines() == []


def test_stages_report_under_the_outermost_function(lines):
    inner = unrolled(300)
    dlvm.function(lambda x: inner(x)).compile(np.ones(2))
    names = {name for _, name, *_ in lines()}
    assert names == {"lambda"}
