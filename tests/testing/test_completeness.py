"""One error lists all that a new class lacks, and following it word by word completes the class."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from dlvm.ir import OPS, Array, Op, Value
from dlvm.ops import Elementwise, Reduction
from dlvm.testing import assert_complete


@contextmanager
def registered() -> Iterator[None]:
    """Takes operations that are defined inside out of the registry again."""
    known = dict(OPS)
    try:
        yield
    finally:
        OPS.clear()
        OPS.update(known)


def lines(cls: type[Op]) -> list[str]:
    """What each line of the error starts with."""
    with pytest.raises(AssertionError) as caught:
        assert_complete(cls)
    first, *rest = str(caught.value).splitlines()
    assert first == f"the class {cls.__name__} of the operation still lacks:"
    return [line.removeprefix("  - ").partition(":")[0].partition("(")[0] for line in rest]


def test_one_error_lists_all_that_an_element_wise_class_lacks():
    with registered():

        class Halved(Elementwise):
            name = "halved"
            accepts = "f"
            x: Value

        expected = ["a docstring", "reference", "adjoint", "scalar"]
        assert lines(Halved) == expected

        Halved.__doc__ = "Half of each element."
        assert lines(Halved) == expected[1:]

        class Whole(Halved):
            """Half of each element, in whole."""

            name = "halved_whole"

            def reference(self, *operands: Array) -> Any:
                return np.multiply(*operands, 0.5)

            def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
                return (dy[0] * 0.5,)

            def scalar(self, s, *x):
                return s.binary("mul", *x, s.constant(0.5, s.dtype(*x)))

        assert_complete(Whole)
        Whole.nondifferentiable = "it is told to be"
        assert lines(Whole) == ["one of adjoint and nondifferentiable"]


def test_a_reduction_lacks_its_monoid_and_an_operation_of_no_family_a_place():
    with registered():

        class Folded(Reduction):
            """A fold of which nothing is said."""

            name = "folded"
            x: Value
            axes: tuple[int, ...]

        found = lines(Folded)
        monoid = ["states", "identity", "lift", "combine", "project"]
        assert found == ["infer", "reference", "adjoint", *monoid]

        class Alone(Op):
            """Of no family."""

            name = "alone_of_all"
            x: Value

        assert lines(Alone) == [
            "infer",
            "reference",
            "adjoint",
            "lowering",
            "batched",
            "a function that places it in random programs, decorated with @places",
        ]
