"""A profile shares out the time of a call without gaps, and finds the planted line."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import dlvm
import dlvm.nn
from dlvm.base.errors import UserError
from dlvm.gen.profile.measure import Timers
from dlvm.gen.runtime import ticks


def lines_of(fn) -> dict[str, int]:
    """The number of each line of a function, by the comment at its end."""
    text, start = inspect.getsourcelines(fn)
    marked = ((t.partition("# ")[2].strip(), n) for n, t in enumerate(text, start))
    return {word: n for word, n in marked if word}


def uneven(x, w):
    y = dlvm.sqrt(x)
    y = y @ w  # slow
    return dlvm.cumsum(y, axis=1)


def recurrent(w, x):
    def body(h, t):
        h = dlvm.tanh(h @ w + t)  # trip
        return h, h.sum()

    return dlvm.scan(body, x[0], x)


def profile_of(fn, *args, **options):
    staged = dlvm.function(fn, **options)
    return staged.compile(*args).profile(*args, seconds=0.02)


def test_parts_share_out_the_time_of_a_call():
    found = profile_of(recurrent, np.eye(8) / 2, np.ones((50, 8)))
    shared = found.between + sum(p.seconds for p in found.parts)
    assert 0 < shared <= found.seconds * (1 + 1e-9)
    assert all(0 < p.seconds <= p.usual for p in found.parts)
    assert found.calls >= 3
    assert {p.runs for p in found.parts} >= {50}


def test_a_call_that_was_disturbed_says_nothing(monkeypatch):
    """One slot of one call takes a second longer: the least times are those of the others."""
    arrays = np.eye(8) / 2, np.ones((50, 8))
    called = Timers._called

    def disturbed(self, *given):
        tables, rate = called(self, *given)
        for place, table in zip(self.places, tables, strict=False):
            table[ticks.SLOTS + 2 * place.slot] += int(1 / rate)
        return tables, rate

    monkeypatch.setattr(Timers, "_called", disturbed)
    found = profile_of(recurrent, *arrays)
    assert max(p.seconds for p in found.parts) < 0.5


def test_equal_kernels_are_one_row_with_their_number():
    def four(x, w):
        for each in w:
            x = dlvm.tanh(x @ each)
        return x

    found = profile_of(four, np.ones((8, 8)), [np.eye(8)] * 4)
    assert [row[0] for row in found.rows()[1:]] == ["k0 and 3 like it", "between kernels"]
    assert found.rows()[1][found.rows()[0].index("runs")] == "4"
    assert len(found.parts) == 4


def test_the_slow_line_comes_first():
    found = profile_of(uneven, np.ones((400, 300)), np.ones((300, 300)))
    first = found.parts[0]
    assert first.lines[-1].line == lines_of(uneven)["slow"]  # with a formula that it computes
    assert 0 <= first.flops - 2 * 400 * 300 * 300 <= 400 * 300
    assert first.roofline is not None
    assert first.roofline > 0
    assert first.bound == "instructions"


def test_equal_kernels_of_two_lines_are_told_apart():
    def twice(x):
        y = dlvm.cumsum(dlvm.exp(x))  # one
        return dlvm.cumsum(dlvm.exp(y / 1e3))  # two

    found = profile_of(twice, np.ones(1000))
    seen = {o.line for p in found.parts for o in p.lines}
    assert {lines_of(twice)["one"], lines_of(twice)["two"]} <= seen


def test_the_peak_is_held_by_the_line_that_made_the_largest_buffer():
    def wide(x):
        small = dlvm.cumsum(x)
        table = dlvm.cumsum(small[:, None] * small[None, :], axis=0)  # table
        return dlvm.cumsum(table, axis=1).sum()

    found = profile_of(wide, np.ones(200))
    largest = found.buffers[0]
    assert largest.peak
    assert largest.bytes == 200 * 200 * 8
    assert [o.line for o in largest.lines] == [lines_of(wide)["table"]]
    assert f":{lines_of(wide)['table']}" in found.peak()


def test_loops_branches_functions_and_python_are_measured():
    @dlvm.function
    def halved(x):
        return dlvm.where(x.sum() < 1, x, x / 2)

    def mixed(x, n):
        x = dlvm.cond(n > 2, lambda x: x * 2, lambda x: x + 1, x)
        x, n = dlvm.while_loop(lambda s: s[1] > 0, lambda s: (s[0] * 0.5, s[1] - 1), (x, n))
        dlvm.print("x", x)
        return halved(x), n

    found = profile_of(mixed, np.arange(9.0), 7)
    assert any(p.runs == 7 for p in found.parts)
    assert any(p.name.startswith("show") for p in found.parts)
    assert found.between > 0


def test_the_arguments_are_left_alone():
    def step(w, x):
        return w - 0.5 * x

    w = np.ones(40)
    found = profile_of(step, w, np.ones(40), donate=("w",))
    assert found.parts
    assert (w == 1).all()


def test_open_sizes_are_those_of_the_arguments():
    staged = dlvm.function(uneven)
    made = staged.compile(dlvm.spec("f64[N,5]"), dlvm.spec("f64[5,5]"))
    found = made.profile(np.ones((70, 5)), np.ones((5, 5)), seconds=0.02)
    assert {p.flops for p in found.parts} >= {2 * 70 * 5 * 5}


def test_the_time_line_has_every_run_in_order():
    found = profile_of(recurrent, np.eye(8) / 2, np.ones((20, 8)))
    events = found.trace()["traceEvents"]
    assert len(events) == sum(p.runs for p in found.parts)
    ends = [e["ts"] + e["dur"] for e in events]
    assert all(end <= e["ts"] + 1e-6 for end, e in zip(ends, events[1:], strict=False))
    assert any(f":{lines_of(recurrent)['trip']}" in e["name"] for e in events)


def test_ordinary_code_has_no_timers():
    made = dlvm.function(uneven).compile(np.ones((4, 3)), np.ones((3, 3)))
    made.profile(np.ones((4, 3)), np.ones((3, 3)), seconds=0.01)
    assert "dlvm_tick" not in made.text("llvm")
    assert "dlvm_tick" in str(made.road.timers().code.llvm)


def test_the_disk_keeps_nothing_of_a_profile(tmp_path, monkeypatch):
    monkeypatch.setenv("DLVM_CACHE_DIR", str(tmp_path))
    made = dlvm.function(lambda x: dlvm.cumsum(dlvm.tanh(x @ x) + 0.125)).compile(np.ones((5, 5)))
    made(np.ones((5, 5)))
    before = sorted(tmp_path.rglob("*"))
    made.profile(np.ones((5, 5)), seconds=0.01)
    assert before
    assert sorted(tmp_path.rglob("*")) == before


def test_what_cannot_be_measured_is_refused(monkeypatch):
    made = dlvm.function(uneven).compile(np.ones((4, 3)), np.ones((3, 3)))
    with pytest.raises(UserError, match="number above 0"):
        made.profile(np.ones((4, 3)), np.ones((3, 3)), seconds=0)
    with pytest.raises(UserError, match="missing a required argument"):
        made.profile(np.ones((4, 3)))
    monkeypatch.setenv("DLVM_INTERPRET", "1")
    with pytest.raises(UserError, match="machine code of this process"):
        made.profile(np.ones((4, 3)), np.ones((3, 3)))
