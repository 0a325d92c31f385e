"""Steps run in one order on every device, and a tape is the same stack of cells on each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from dlvm.gen.program.steps import (
    CallFunction,
    Copy,
    EndUnless,
    For,
    If,
    Launch,
    Pop,
    Program,
    Push,
    Show,
    Step,
    Storage,
    Tick,
    View,
    While,
)
from dlvm.gen.program.walking import Ended, uninitialised, walk
from dlvm.ir import F32, I64, Array, TensorType
from dlvm.ir.sizes.dims import symbol
from dlvm.ir.taps import Line, taps


def place(name: str, *shape: int, dtype: Any = F32) -> View:
    return View(Storage(name, dtype, int(np.prod(shape))), TensorType(dtype, shape))


X, Y = place("x", 2), place("y", 2)
TAPE, REST = place("tape", dtype=I64), place("rest", dtype=I64)
PRINTS = (("x = ", X.type, "print"), ("seen", X.type, "tap"))
CALLEE = Program("g", ("N",), (place("p", 2),), (place("r", 2),), (), (), ())


@dataclass
class Words:
    """An activation that holds a dictionary, and writes down what is asked of it."""

    values: dict[str, Array] = field(default_factory=dict[str, Array])
    answers: list[bool] = field(default_factory=list[bool])
    asked: list[str] = field(default_factory=list[str])
    program: Program = field(
        default_factory=lambda: Program("f", (), (), (), (), PRINTS, (), callees=(CALLEE,))
    )
    sizes: dict[str, int] = field(default_factory=lambda: {"N": 3})
    words: Array = field(default_factory=lambda: np.zeros(8, np.int64))
    cells: list[tuple[int, list[Array]]] = field(default_factory=list[Any])

    def launch(self, step: Launch) -> None:
        raise AssertionError

    def copy(self, source: View, target: View) -> None:
        self.asked.append(f"copy {self.sizes.get('i', '')}".strip())

    def loop(self, step: For, trips: Callable[[], None]) -> None:
        trips()

    def holds(self, condition: View) -> bool:
        self.asked.append("holds")
        return self.answers.pop(0)

    def read(self, view: View) -> Array:
        return self.values[view.storage.name].copy()

    def write(self, view: View, array: Array) -> None:
        self.values[view.storage.name] = array

    def allocate(self, view: View) -> Array:
        return uninitialised(view, self.sizes)

    def save(self, view: View, held: Array) -> None:
        held[...] = self.values[view.storage.name]

    def restore(self, view: View, held: Array) -> None:
        self.values[view.storage.name] = held

    def enter(self, callee: str, sizes: tuple[int, ...], memory: Mapping[Storage, Array]) -> None:
        given, result = (memory[v.storage] for v in (CALLEE.params[0], CALLEE.results[0]))
        result[...] = 10 * given
        given[...] = 0
        self.asked.append(f"{callee}{sizes}")

    def say(self, line: Line, /) -> None:
        self.asked.append(line)


COPY = Copy(X, Y)


@pytest.mark.parametrize(
    ("step", "answers", "expected"),
    [
        (If(X, (COPY,), ()), [True], ["holds", "copy"]),
        (If(X, (COPY,), ()), [False], ["holds"]),
        (While((COPY,), X, ()), [True, False], ["copy", "holds", "copy", "holds"]),
        (While((), X, (COPY,)), [True, False], ["holds", "copy", "holds"]),
        (For("i", symbol("N"), False, (COPY,)), [], ["copy 0", "copy 1", "copy 2"]),
        (For("i", symbol("N"), True, (COPY,)), [], ["copy 2", "copy 1", "copy 0"]),
        (EndUnless(X, 7), [True], ["holds"]),
        (Tick(1), [], []),
    ],
)
def test_steps_run_in_order(step: Step, answers: list[bool], expected: list[str]):
    f = Words(answers=answers)
    walk((step,), f)
    assert f.asked == expected


def test_a_condition_that_does_not_hold_ends_the_call_with_its_code():
    f = Words(answers=[False])
    with pytest.raises(Ended):
        walk((EndUnless(X, 7), COPY), f)
    assert f.words[0] == 7
    assert f.asked == ["holds"]


def test_what_was_pushed_last_is_popped_first():
    f = Words({"x": np.float32([1, 2]), "y": np.float32([3, 4]), "tape": np.int64(0)})
    walk((Push(TAPE, (X,), TAPE), Push(TAPE, (Y,), TAPE)), f)
    assert f.values["tape"] == 2
    f.values["x"] = f.values["y"] = np.float32([0, 0])
    walk((Pop(TAPE, (X,), TAPE), Pop(TAPE, (Y,), REST)), f)
    assert [*f.values["x"], *f.values["y"]] == [3, 4, 1, 2]
    assert (f.values["tape"], f.values["rest"]) == (1, 0)


def test_an_empty_tape_gives_zeros_and_stays_empty():
    f = Words({"x": np.float32([5, 6]), "tape": np.int64(0)})
    walk((Pop(TAPE, (X,), REST),), f)
    assert [*f.values["x"]] == [0, 0]
    assert f.values["rest"] == 0


def test_a_function_works_on_copies_of_its_arguments():
    f = Words({"x": np.float32([1, 2])})
    walk((CallFunction("g", (X,), (Y,), (symbol("N"),)),), f)
    assert [*f.values["x"], *f.values["y"]] == [1, 2, 10, 20]
    assert f.asked == ["g(3,)"]


def test_values_are_printed_and_tapped_under_their_labels():
    f = Words({"x": np.float32([1, 2])})
    with taps() as found:
        walk((Show(X, 0), Show(X, 1)), f)
    assert f.asked == ["x = [1. 2.]"]
    assert [[*x] for x in found["seen"]] == [[1, 2]]
