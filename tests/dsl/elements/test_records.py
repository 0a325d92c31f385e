"""Records of calls outside of a trace compute what the calls themselves compute."""

import gc
import sys
import weakref

import numpy as np
import pytest

import dlvm
from dlvm.dsl.elements import records
from dlvm.dsl.elements.written import Written
from dlvm.dsl.words.names import PUBLIC
from tests.names.forms import forms_of, leaves, public_names
from tests.names.table import SILENT

X = np.arange(12, dtype=np.float32).reshape(3, 4) / 7


@pytest.fixture
def written(monkeypatch):
    """The calls that are traced, one number each."""
    calls = []
    of = Written.of
    monkeypatch.setattr(Written, "of", lambda *a: calls.append(1) or of(*a))
    return calls


def results(call, args, kwargs):
    """What a call gives, or the kind and the text of its error."""
    try:
        found = leaves(call(*args, **kwargs))
    except dlvm.UserError as error:
        return type(error), error.message
    return [(x.dtype, x.shape, x.strides, x.flags.writeable, x.tobytes()) for x in found]


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", [n for n in public_names() if n not in SILENT and "." not in n])
def test_a_record_gives_what_the_call_gives_for_arrays_of_other_elements(name, monkeypatch):
    for form in forms_of(name):
        other = form.of([np.ascontiguousarray(a[..., ::-1]) if a.ndim else a for a in form.arrays])
        for _ in range(3):
            results(form.call, form.args, form.options)
        found = results(form.call, other.args, other.options)
        with monkeypatch.context() as patched:
            patched.setattr(records, "_key_of_call", lambda *a: None)
            assert found == results(form.call, other.args, other.options), str(form)


def test_the_third_call_traces_nothing(written):
    x = np.ones((5, 7, 3))
    for _ in range(2):
        dlvm.logaddexp(x, 2.5)
    written.clear()
    assert np.array_equal(dlvm.logaddexp(x + 1, 2.5), np.logaddexp(x + 1, 2.5))
    assert not written


def test_an_error_is_that_of_the_call_with_its_line():
    for at in ([0, 2], [1, 2], [2, 0]):
        dlvm.take(X, np.array(at), axis=0)
    with pytest.raises(dlvm.UserError, match="index 7 is out of range") as found:
        dlvm.take(X, np.array([0, 7]), axis=0)
    assert found.value.origin.file == __file__
    assert found.value.origin.line == sys._getframe().f_lineno - 2


def test_a_call_that_reads_elements_is_written_each_time(written):
    for _ in range(3):
        assert dlvm.delete(X, np.array([0]), axis=0).shape == (2, 4)
    assert dlvm.delete(X, np.array([1]), axis=0).tolist() == X[[0, 2]].tolist()
    assert len(written) >= 4
    assert [len(dlvm.arange(np.array(n))) for n in (3, 3, 3, 4)] == [3, 3, 3, 4]


def test_numbers_are_told_apart_by_type_and_sign():
    for zero in (0.0, 0.0, 0.0, -0.0):
        out = dlvm.copysign(X, zero)
        assert np.array_equal(np.signbit(out), np.signbit(np.full_like(X, zero)))
    x = np.ones(3, np.int32)
    types = [dlvm.add(x, n).dtype for n in (1, 1, 1, True, 1.0, np.int64(1), np.float32(1))]
    assert types == [(x + n).dtype for n in (1, 1, 1, True, 1.0, np.int64(1), np.float32(1))]


def test_one_array_twice_is_another_call_than_two_arrays():
    for _ in range(3):
        assert not dlvm.subtract(X, X).any()
    assert dlvm.subtract(X, X + 1).all()


def test_numbers_of_numpy_are_operands(written):
    for n in range(4):
        assert np.array_equal(dlvm.add(X, np.float32(n)), X + np.float32(n))
    written.clear()
    dlvm.add(X, np.float32(9))
    assert not written


def test_results_own_their_memory():
    for _ in range(4):
        out = dlvm.zeros((3, 4))
        assert not out.any()
        out += 1
        same = dlvm.positive(X)
        assert same.flags.writeable and not np.shares_memory(same, X)


def test_views_share_memory_as_before():
    for x in (X, X.T, X[:, ::-1]):
        for _ in range(4):
            assert np.shares_memory(dlvm.permute_dims(x, (1, 0)), x)
            assert not dlvm.broadcast_to(x, (2, *x.shape)).flags.writeable
            assert np.shares_memory(dlvm.reshape(x, -1), x) == x.flags.c_contiguous


def test_the_default_type_is_part_of_the_call():
    for kind in ("f32", "f32", "f32", "f64"):
        with dlvm.default_dtype(kind):
            assert dlvm.zeros(3).dtype == (np.float32 if kind == "f32" else np.float64)
            assert dlvm.add(X, np.float64(1)).dtype == dlvm.zeros(3).dtype


def test_checks_see_a_call_that_was_recorded():
    for _ in range(3):
        dlvm.log(X + 1)
    with dlvm.debug(nans=True), pytest.raises(dlvm.UserError, match="log"):
        dlvm.log(-X - 1)


def test_no_more_calls_are_kept_than_64_and_no_arrays():
    x = np.ones(3)
    gone = weakref.ref(x)
    for n in range(300):
        dlvm.sinh(x[:, None] * np.ones(n % 100)), dlvm.sinh(x)
    kept = next(c.cell_contents[0] for c in PUBLIC["sinh"].__closure__ if _holds_records(c))
    assert len(kept._kept) <= len(kept._seen) <= records.KEPT
    del x
    gc.collect()
    assert gone() is None


def test_long_lists_are_not_kept():
    values = [0.0] * (records.LONGEST + 1)
    for n in range(4):
        values[0] = float(n)
        assert dlvm.asarray(values)[0] == n
        assert dlvm.asarray([values])[0, 0] == n
    kept = next(c.cell_contents[0] for c in PUBLIC["asarray"].__closure__ if _holds_records(c))
    assert all(len(key) <= records.LONGEST + 3 for key in kept._seen)


def test_lists_are_told_apart_by_where_they_end():
    for rows in ([[1, 2], [3, 4]], [[1, 2, 3, 4]], [1, 2, 3, 4], [[1], [2], [3], [4]]) * 3:
        assert np.array_equal(dlvm.asarray(rows), np.asarray(rows))


def _holds_records(cell):
    held = cell.cell_contents
    return isinstance(held, list) and held and isinstance(held[0], records.Records)


def test_large_arrays_are_not_recorded(written):
    x = np.ones(records.LARGEST // 8 + 1)
    for n in range(1, 4):
        dlvm.negative(x)
        assert len(written) == n
