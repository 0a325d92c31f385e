"""A long compile says what it does: first after a second, then at doubled times."""

from __future__ import annotations

import io
import itertools
import logging
import re
import sys
import threading

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


class Terminal(io.StringIO):
    """A standard error that is a terminal, and what a reader sees of it."""

    def isatty(self) -> bool:
        return True

    def screens(self) -> list[str]:
        return [text.rstrip() for text in self.getvalue().split("\r")[1:]]


def at_a_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    found = Terminal()
    monkeypatch.setattr("sys.stderr", found)
    monkeypatch.setattr(progress, "SHOWN_AFTER", 0.01)
    monkeypatch.setattr(progress, "AGAIN", 0.01)
    return found


def waited(until: threading.Event) -> None:
    with progress.compiling("drift"):
        progress.doing("pass simplify", lambda: 3)
        assert until.wait(20)


def seen(terminal: Terminal) -> threading.Event:
    """Set once the terminal shows a line."""
    found, write = threading.Event(), terminal.write

    def writing(text: str) -> int:
        found.set()
        return write(text)

    terminal.write = writing  # type: ignore[method-assign]
    return found


def test_a_terminal_shows_the_stage_on_one_line_that_is_erased(
    monkeypatch: pytest.MonkeyPatch,
):
    terminal = at_a_terminal(monkeypatch)
    waited(seen(terminal))
    first, *_, last = terminal.screens()
    assert re.fullmatch(r"compiling drift: pass simplify, \d+ s", first) and last == ""
    assert "\n" not in terminal.getvalue()
    erased = terminal.getvalue().split("\r")[-2]
    assert erased == " " * len(first)
    assert "dlvm progress" not in {thread.name for thread in threading.enumerate()}


def test_a_short_compile_a_file_and_a_variable_show_no_line(monkeypatch: pytest.MonkeyPatch):
    terminal = at_a_terminal(monkeypatch)
    monkeypatch.setattr(progress, "SHOWN_AFTER", 20.0)
    with progress.compiling("drift"):
        progress.doing("pass simplify", lambda: 3)
    assert terminal.getvalue() == ""
    assert progress.shows_line()
    monkeypatch.setenv("DLVM_PROGRESS", "0")
    assert not progress.shows_line()
    monkeypatch.delenv("DLVM_PROGRESS")
    monkeypatch.setattr(terminal, "isatty", lambda: False)
    assert not progress.shows_line()
    monkeypatch.setitem(sys.modules, "ipykernel", sys)
    assert progress.shows_line()
    monkeypatch.setattr("sys.stderr", None)
    assert not progress.shows_line()
