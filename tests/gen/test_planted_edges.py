"""Faults planted in the edges of products and in what is done to loops: the suite finds each.

Each is a change of one rule, made from outside for a while; what finds it are checks that other
tests make, which know nothing of it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np
import pytest

import dlvm
from dlvm.base.errors import CompilerError
from dlvm.gen.loops import verifier
from dlvm.gen.loops.rewriting import Rewriting
from dlvm.gen.loops.statements import Fill, Loop
from dlvm.gen.lower import filling
from dlvm.gen.products import objects
from dlvm.gen.products.sources import Sources
from dlvm.gen.schedule.transforms.vectorize import Vectorize
from dlvm.ops.flow import kernels as places
from dlvm.opt.kernels import fusion
from tests.gen.lower import test_filling, test_overwriting
from tests.gen.lower.test_filling import agrees, formed, whole

Plant = Callable[[], Any]


def windows() -> None:
    """Convolutions by interpreters and machine code."""
    for sizes in ((3, 9, 8, 3, 4, 3, 3, 1, 1), (1, 6, 6, 11, 3, 5, 5, 1, 1)):
        test_filling.test_windows_of_images_are_no_array(sizes)


def formulas() -> None:
    """Operands that are formulas, of more than one piece."""
    for name in test_filling.FORMS:
        test_filling.test_an_operand_is_a_formula(name, (130, 300, 70))


def blocks() -> None:
    """Windows that are replaced by what is read beside them."""
    for f in test_overwriting.PROGRAMS:
        test_overwriting.test_a_window_is_what_was_there_before_it_was_replaced(f)


def refused() -> None:
    """Operands that tiles are written over."""
    test_overwriting.test_a_tile_that_is_written_over_an_operand_is_refused(28)


def donated() -> None:
    """A product of a formula of an array whose memory the result has."""
    x, w = whole(96, 96), whole(96, 96)
    expected = np.maximum(x, 0) @ w
    f = dlvm.function(lambda x, w: dlvm.maximum(x, 0) @ w, donate=("x",))
    np.testing.assert_array_equal(f(x, w), expected)


def rows() -> None:
    """A product of a formula, with rows that fill no vector."""
    agrees(formed("x", "f32"), whole(13, 37), whole(37, 21))


CHECKS = (windows, formulas, blocks, refused, donated, rows)


# -- the faults ----------------------------------------------------------------------------------


def everything_is_apart() -> Any:
    """What is replaced is taken for what nobody reads."""
    always = mock.Mock(return_value=True)
    found = mock.patch.multiple(fusion, reads_in_place=always)
    return _both(found, mock.patch.multiple(places, reads_in_place=always))


def nothing_is_looked_at() -> Any:
    """The verifier does not ask where operands lie."""
    return mock.patch.object(verifier, "outside", mock.Mock(return_value=True))


def first_row_again() -> Any:
    """Each piece starts at the first row."""

    def fill(self: Any, pull: Any, batch: Any, old: Any = filling._Matrix.fill) -> Fill:
        made = old(self, pull, batch)
        spot = (f"{made.spot[0]}.lost", *made.spot[1:])
        body = Rewriting({made.spot[0]: 0}).body(made.body)
        return replace(made, spot=spot, body=body)

    return mock.patch.object(filling._Matrix, "fill", fill)


def panels_that_cut_units() -> Any:
    """Panels are computed as if they held whole units."""
    return mock.patch.object(Sources, "whole_units", lambda *_: "true")


def one_lane_less() -> Any:
    """A vector loop leaves out its last turn."""

    def rewritten(self: Any, loop: Loop, old: Any = Vectorize.rewritten) -> Any:
        (made,) = old(self, loop)
        return (replace(made, extent=made.extent - 1),)

    return mock.patch.object(Vectorize, "rewritten", rewritten)


FAULTS: dict[str, Plant] = {
    f.__name__: f
    for f in (
        everything_is_apart,
        nothing_is_looked_at,
        first_row_again,
        panels_that_cut_units,
        one_lane_less,
    )
}


@contextmanager
def _both(first: Any, second: Any) -> Generator[None]:
    with first, second:
        yield


@pytest.fixture(autouse=True)
def no_memory_of_code(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    """Code is made anew under a fault, and again without it; nobody finds it on disk."""
    monkeypatch.setenv("DLVM_CACHE_DIR", str(tmp_path))
    objects.machine_code.cache_clear()
    yield
    objects.machine_code.cache_clear()


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found(name: str):
    with FAULTS[name]():
        found = [check.__name__ for check in CHECKS if _fails(check)]
    assert found, f"nothing found {name}"


def _fails(check: Callable[[], None]) -> bool:
    try:
        check()
    except (AssertionError, CompilerError, pytest.fail.Exception):
        return True
    return False


@pytest.mark.parametrize("check", CHECKS, ids=lambda f: f.__name__)
def test_without_a_fault_nothing_is_found(check: Callable[[], None]):
    check()
