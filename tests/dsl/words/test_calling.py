"""What Python and NumPy can't do with staged values, and calls that are none: what is said."""

from __future__ import annotations

import copy
import math
import pickle
import re

import numpy as np
import pytest

import dlvm
from dlvm.base.errors import ArgumentError, CallError, DTypeError, ShapeError, TraceError
from tests.mistaken import X, judge, programs, wrong

LEAKED: list = []
MASKED = np.ma.array(np.ones(5), mask=[0, 1, 0, 0, 0])
with pytest.warns(PendingDeprecationWarning):
    MATRIX = np.asmatrix(np.eye(2))


# -- Python's own questions to staged values -------------------------------------------------------


@wrong(TraceError, "can't become text", r"text after the call: return x\.sum\(\)")
def text_with_a_format(x):
    return f"{x.sum():.3f}"  # here


@wrong(TypeError, "has no hash while the function is traced")
def a_key_of_a_dict(x):
    return {x[0, 0]: 1}  # here


@wrong(TypeError, "can't be pickled", "return it")
def pickled_in_a_trace(x):
    return pickle.dumps(x)  # here


@wrong(AttributeError, "a staged array has no 'nonzero'", "help: .* shapes that depend on")
def an_unknown_method(x):
    return x.nonzero()  # here


@wrong(AttributeError, "has no 'resape'", "did you mean 'reshape'")
def a_misspelt_method(x):
    return x.resape(5, 3)  # here


@wrong(AttributeError, "has no 'view'", r"write x\.reshape.* x\.astype")
def bits_of_another_type(x):
    return x.view(np.int32)  # here


@wrong(TraceError, "can't be given another shape", r"x = x\.reshape\(\(15,\)\)")
def a_shape_assigned(x):
    x.shape = (15,)  # here
    return x


@wrong(TraceError, "can't lose elements", r"dlvm\.concat")
def elements_deleted(x):
    del x[0]  # here
    return x


@wrong(TraceError, "can't become float", r"write dlvm\.sin\(x\[0, 0\]\)")
def a_function_of_math(x):
    return math.sin(x[0, 0])  # here


@wrong(TraceError, "can't become a NumPy array", r"write dlvm\.full\(3, x\[0, 0\]\)")
def filled_with_a_staged_value(x):
    return np.full(3, x[0, 0])  # here


@wrong(TraceError, "can't become a NumPy array", r"write x\[0, 0\]\.astype\('float16'\)")
def converted_by_a_numpy_type(x):
    return np.float16(x[0, 0])  # here


@wrong(TraceError, "can't become int", r"write x\[0, 0\]\.astype\(int\)")
def an_int_of_a_float(x):
    return x[int(x[0, 0])]  # here


@wrong(TraceError, "no truth value", r"write dlvm\.sort\(x\[0\]\)")
def sorted_by_python(x):
    return sorted(x[0])  # here


@wrong(TraceError, "no truth value", r"write dlvm\.any\(x\[0\] > 1\)")
def any_of_python(x):
    return any(x[0] > 1)  # here


@wrong(TraceError, "no truth value", r"write dlvm\.any\(dlvm\.asarray\(\[1, 2\]\) == x\[0, 0\]\)")
def membership(x):
    return x[0, 0] in [1, 2]  # here


# -- calls of public functions ---------------------------------------------------------------------


@wrong(CallError, "sum: got an unexpected keyword argument 'axes'", "write axis= instead of axes=")
def an_unknown_option(x):
    return dlvm.sum(x, axes=0)  # here


@wrong(ArgumentError, "expected order='C' or .*, found 'Z'", "name one of these orders")
def an_order_in_memory(x):
    return x.ravel(order="Z")  # here


@wrong(
    CallError, "sum: axis: expected a whole number or a tuple", "found 'rows'", "help: give axis "
)
def an_axis_of_text(x):
    return x.sum(axis="rows")  # here


@wrong(ShapeError, r"the axes \(0, 0\) name one axis", "each axis once")
def an_axis_twice(x):
    return x.transpose((0, 0))  # here


@wrong(ShapeError, "label 'j' have sizes 5, 3", r"\n  operand: f32\[3,5\], 'x'")
def labels_of_two_sizes(x):
    return np.einsum("ij,jk->ik", x, x)  # here


@wrong(ShapeError, r"f32\[3,5\] and f32\[5\] differ elsewhere", r"x\[None\] adds one")
def joined_of_two_ranks(x):
    return np.concatenate([x, x[0]])  # here


@wrong(TraceError, "found None of type NoneType", "help: give it an array")
def added_to_none(x):
    return x + None  # here


@wrong(DTypeError, "no element type for .*longdouble", r"help: there are bool, i8")
def an_unknown_element_type(x):
    return x.astype(np.longdouble)  # here


@wrong(
    DTypeError, "left_shift is not defined for elements of type f32 and int", r"x\.astype\(int\)"
)
def floats_shifted(x):
    return x << 1  # here


@wrong(DTypeError, "subtract is not defined for elements of type bool", r"x \^ y")
def truths_subtracted(x):
    m = x > 0
    return m - m  # here


@wrong(TraceError, "cond: expected a function, found <staged x", "lambda")
def a_branch_that_is_a_value(x):
    return dlvm.cond(x.sum() > 0, x, -x)  # here


@wrong(TraceError, "scan: expected a function", "lambda")
def a_body_that_is_a_value(x):
    return dlvm.scan(x, 0.0, x)  # here


@wrong(TraceError, "np.add with where= can't be staged", r"dlvm\.where\(mask")
def a_ufunc_with_a_mask(x):
    return np.add(x, 1, where=x > 0)  # here


@wrong(TraceError, "np.add with dtype= can't be staged", r"x\.astype\(dtype\)")
def a_ufunc_with_a_type(x):
    return np.add(x, 1, dtype=np.float64)  # here


@wrong(TraceError, r"np\.maximum\.reduce can't be staged", r"dlvm\.max\(x, axis=0\)")
def a_method_of_a_ufunc(x):
    return np.maximum.reduce(x)  # here


# -- arrays that mean something else ---------------------------------------------------------------


@wrong(DTypeError, "x is a masked array", r"pass x\.data and ~x\.mask", args=(np.ma.array([1.0]),))
def a_masked_argument(x):
    return x * 2


@wrong(DTypeError, "x is a np.matrix, whose", r"np\.asarray\(x\)", args=(MATRIX,))
def a_matrix_argument(x):
    return x * x


@wrong(DTypeError, "a masked array")
def a_masked_captured_array(x):
    return x + MASKED  # here


@pytest.mark.parametrize("program", programs(__name__))
def test_the_message(program):
    judge(program)


def test_there_are_enough_of_them():
    assert len(programs(__name__)) >= 30


def test_a_number_asked_of_a_value_after_its_trace_is_answered_so():
    @dlvm.function
    def leaking(x):
        LEAKED.append(x * 2)
        return x

    with pytest.raises(TraceError, match="leaking changes the structure of LEAKED"):
        leaking(X)
    kept = LEAKED.pop()
    for question in (float, bool, np.asarray, hash, lambda x: f"{x:.2f}"):
        with pytest.raises(TraceError, match="is used after its trace or region has ended"):
            question(kept)


def test_the_text_of_a_staged_value_without_a_format_is_what_it_is():
    def f(x):
        shown = f"{x} {x.T}"
        assert re.fullmatch(r"<staged x: f32\[3,5\]> <staged .*f32\[5,3\].*>", shown)
        assert not callable(x) and not hasattr(x, "foo") and x.nbytes == 60 and x.itemsize == 4
        y = copy.copy(x)
        y.fill(2)
        z = copy.deepcopy(x)
        z += 1
        return x, y, z

    x, y, z = dlvm.function(f)(X)
    assert (x == X).all() and (y == 2).all() and (z == X + 1).all()


def test_an_error_of_the_users_in_a_function_given_to_ours_stays_his():
    def wrong(c, row):
        raise ValueError("mine")

    with pytest.raises(ValueError, match=r"^mine$"):
        dlvm.function(lambda x: dlvm.scan(wrong, 0.0, x))(X)
