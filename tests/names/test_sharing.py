"""Which memory results share: staged, unstaged and NumPy agree, for every public name.

Exceptions stand in a table of ``docs/guide.md``, which is read here: nothing else is excused.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dlvm

from .forms import Form, forms_of, leaves, public_names

GUIDE = Path(__file__).parents[2] / "docs" / "guide.md"
FORMS = [f for name in public_names() for f in forms_of(name) if f.arrays]


def excused() -> set[str]:
    """The functions that the guide says differ from NumPy's."""
    (table,) = re.findall(r"\| copies where NumPy .*\n((?:\|.*\n)+)", GUIDE.read_text("utf8"))
    return set(re.findall(r"`dlvm\.([\w.]+)`", table))


def of_numpy(form: Form) -> Any:
    """NumPy's function of the name, if there is one."""
    try:
        return functools.reduce(getattr, form.name.split("."), np)
    except AttributeError:
        return None


def shared(results: Any, operands: Any) -> list[bool]:
    """Whether each result shares memory with an operand."""
    return [
        isinstance(r, np.ndarray) and any(np.shares_memory(r, x) for x in operands)
        for r in leaves(results)
    ]


def copies(form: Form) -> list[np.ndarray]:
    return [a.copy() for a in form.arrays]


def called(form: Form, call: Any, arrays: list[Any]) -> Any:
    """What a function gives; None where it refuses the operands."""
    try:
        return form.on(call, arrays)
    except (TypeError, ValueError, IndexError, AttributeError, BufferError, dlvm.UserError):
        return None


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", sorted({f.name for f in FORMS}))
def test_unstaged_results_share_memory_as_numpys_do(name: str):
    for form in (f for f in FORMS if f.name == name):
        arrays, theirs = copies(form), copies(form)
        found = called(form, form.call, arrays)
        expected = called(form, of_numpy(form), theirs) if of_numpy(form) else None
        mine = shared(found, arrays)
        if name in excused() or (expected is None and of_numpy(form)):
            continue
        meant = [False] * len(mine) if expected is None else shared(expected, theirs)
        assert mine == meant[: len(mine)], form  # lstsq gives fewer results than NumPy's


TRACED = [f for f in {f.name: f for f in FORMS}.values() if f.name not in ("from_dlpack", "tap")]


PARTS = len(TRACED) // 40 + 1  # neighbours are alike, and many large ones at a line are told


@pytest.mark.drawn(3)
@pytest.mark.parametrize("part", range(PARTS))
def test_results_of_a_staged_function_are_its_own(part: int):
    forms = TRACED[part::PARTS]
    given = [copies(f) for f in forms]

    def all_of_them(given: Any) -> Any:
        return [called(f, f.call, xs) for f, xs in zip(forms, given, strict=True)]

    results = dlvm.function(all_of_them)(given)
    for form, arrays, found in zip(forms, given, results, strict=True):
        assert not any(shared(found, arrays)), form
        own = [r for r in leaves(found) if isinstance(r, np.ndarray)]
        for k, r in enumerate(own):
            assert not any(np.shares_memory(r, s) for s in own[:k] if s is not r), form


def writes(call: Any) -> Any:
    """A program that writes into what a function gives, and returns what it was given."""

    def program(x: Any) -> Any:
        x = x.copy()
        call(x)[...] = 77.0
        return x

    return program


X = np.arange(12.0).reshape(3, 4)
VIEWS: dict[str, Any] = {
    "asarray": lambda m, x: m.asarray(x),
    "asarray, copied": lambda m, x: m.asarray(x, copy=True),
    "asarray, not copied": lambda m, x: m.asarray(x, copy=False),
    "astype": lambda m, x: m.astype(x, x.dtype),
    "astype, not copied": lambda m, x: m.astype(x, x.dtype, copy=False),
    "copy": lambda m, x: m.copy(x),
    "plus": lambda m, x: +x,
    "positive": lambda m, x: m.positive(x),
    "conj": lambda m, x: m.conj(x),
    "real": lambda m, x: m.real(x),
    "clip": lambda m, x: m.clip(x, -99.0, 99.0),
    "flatten": lambda m, x: x.flatten(),
    "ravel": lambda m, x: m.ravel(x),
    "reshape": lambda m, x: m.reshape(x, (4, 3)),
    "transpose": lambda m, x: m.permute_dims(x, (1, 0)),
    "swapaxes": lambda m, x: m.swapaxes(x, 0, 1),
    "flip": lambda m, x: m.flip(x, 1),
    "expand_dims": lambda m, x: m.expand_dims(x, 0),
    "squeeze": lambda m, x: m.squeeze(x[None], 0),
    "split": lambda m, x: m.split(x, 2, axis=1)[1],
    "rows": lambda m, x: x[1:],
    "steps": lambda m, x: x[:, ::-2],
    "picked": lambda m, x: x[[0, 2]],
    "take": lambda m, x: m.take(x, np.array([0, 2]), axis=0),
    "where": lambda m, x: m.where(True, x, x),
    "concat": lambda m, x: m.concat([x]),
    "round": lambda m, x: m.round(x),
    "sort": lambda m, x: m.sort(x),
    "roll": lambda m, x: m.roll(x, 0),
    "atleast_3d": lambda m, x: m.atleast_3d(x),
    "times one": lambda m, x: x * 1.0,
}


@pytest.mark.parametrize("name", VIEWS)
def test_writing_into_a_result_changes_the_operand_where_it_does_in_numpy(name: str):
    call = VIEWS[name]
    expected = writes(lambda x: call(np, x))(X)
    plain = writes(lambda x: call(dlvm, x))(X)
    staged = dlvm.function(writes(lambda x: call(dlvm, x)))(X)
    np.testing.assert_array_equal(plain, expected)
    np.testing.assert_array_equal(staged, expected)


def test_a_broadcast_array_can_not_be_assigned_into():
    for shape in ((3, 4), (2, 3, 4)):
        found = dlvm.broadcast_to(X, shape)
        assert np.shares_memory(found, X) and not found.flags.writeable


@pytest.mark.parametrize("given", [np.ones(2, np.float32), 1.0])
def test_no_copy_is_made_where_none_may_be(given: Any):
    for f in (dlvm.asarray, dlvm.function(lambda x: dlvm.asarray(given, dtype="f8", copy=False))):
        with pytest.raises(dlvm.UserError, match="leave out copy=False"):
            f(given, dtype="f8", copy=False) if f is dlvm.asarray else f(X)


def test_two_results_are_one_array_only_where_they_are_one_object():
    def f(x: Any) -> Any:
        y = x * 2.0
        return x, y, y, y.T, y[1:], x

    out = dlvm.function(f)(X)
    for i, a in enumerate(out):
        assert not np.shares_memory(a, X)
        for b in out[:i]:
            assert a is b or not np.shares_memory(a, b)
