"""Public functions called without a decorator run kept programs, with the meaning of references."""

import gc
import threading
import warnings
import weakref

import numpy as np
import pytest

import dlvm
from dlvm import linalg, nn, optim, random
from dlvm.dsl.call import undecorated
from dlvm.dsl.elements import eager
from dlvm.dsl.elements.records import Record
from dlvm.ir.interpret import Interpreter

pytestmark = pytest.mark.undecorated
KEY = np.array([3, 7], np.uint32)
X = np.arange(12, dtype=np.float32).reshape(3, 4) / 7


@pytest.fixture
def interpreted(monkeypatch):
    """The number of calls that the references computed."""
    calls = []
    for cls, name in ((Interpreter, "call"), (Record, "__call__")):
        run = getattr(cls, name)
        monkeypatch.setattr(cls, name, lambda *a, run=run: calls.append(1) or run(*a))
    return calls


CALLS = {
    "key": lambda: random.key(3),
    "a negative key": lambda: random.key(-3),
    "split": lambda: random.split(KEY),
    "split into a shape": lambda: random.split(KEY, (2, 3)),
    "fold_in": lambda: random.fold_in(KEY, 5),
    "bits": lambda: random.bits(KEY, (5,), "u64"),
    "uniform": lambda: random.uniform(KEY, (4,), "f32"),
    "uniform between": lambda: random.uniform(KEY, shape=(4,), dtype="f32", minval=-1, maxval=X[0]),
    "randint": lambda: random.randint(KEY, (9,), 0, np.int64(10)),
    "permutation": lambda: random.permutation(KEY, X),
    "relu": lambda: nn.relu(X),
    "relu of a number": lambda: nn.relu(-0.5),
    "dense": lambda: nn.dense(X, X.T),
    "one_hot": lambda: nn.one_hot(np.array([0, 2]), 3),
    "embedding": lambda: nn.embedding(X, np.array([0, 2])),
    "max_pool": lambda: nn.max_pool(X.reshape(1, 3, 4, 1), 2),
    "multi_dot": lambda: linalg.multi_dot([X, X.T, X]),
    "batch_norm": lambda: nn.batch_norm(X, X[0], X[1], X[2], X[0]),
}


@pytest.mark.parametrize("name", CALLS)
def test_programs_give_what_the_references_give(name, interpreted):
    ran = [CALLS[name](), CALLS[name]()]
    assert not interpreted
    with dlvm.debug(references=True):
        expected = CALLS[name]()
    assert interpreted
    for found in ran:
        for x, y in zip(dlvm.tree.leaves(found), dlvm.tree.leaves(expected), strict=True):
            assert x.dtype == y.dtype and x.shape == y.shape
            np.testing.assert_allclose(x, y, rtol=1e-6)


def test_the_first_call_has_the_bits_of_later_ones():
    first = random.normal(KEY, (1000,), "f32")
    assert all(np.array_equal(random.normal(KEY, (1000,), "f32"), first) for _ in range(3))


def test_a_number_in_the_place_of_an_operand_is_no_part_of_the_code(caplog):
    caplog.set_level("INFO", "dlvm.compile")
    keys = [random.fold_in(np.array([1, 2], np.uint32), i) for i in range(20)]
    assert len({k.tobytes() for k in keys}) == 20
    assert len([r for r in caplog.records if "random_fold_in" in r.message]) <= 1


def test_configuration_is_part_of_the_code():
    assert [nn.one_hot(np.array([0]), n).shape for n in (2, 3, 2)] == [(1, 2), (1, 3), (1, 2)]


def test_the_sign_of_a_zero_is_part_of_the_code():
    for slope in (0.0, -0.0, 0.0):
        assert np.signbit(nn.leaky_relu(np.float32([-2]), slope)[0]) == (not np.signbit(slope))


PARAMS = {"w": X, "b": [X[0], X[1]]}


@pytest.mark.parametrize("optimizer", [optim.adam(0.1), optim.sgd(0.1, 0.9), optim.lion(0.1)])
def test_a_step_of_an_optimiser_is_a_program(optimizer, interpreted):
    def step():
        state = optimizer.init(PARAMS)
        updates, state = optimizer.update(PARAMS, state, PARAMS)
        return state, optim.apply(PARAMS, updates)

    ran = [step(), step()]
    assert not interpreted
    with dlvm.debug(references=True):
        expected = step()
    for found in ran:
        assert dlvm.tree.structure(found) == dlvm.tree.structure(expected)
        for x, y in zip(dlvm.tree.leaves(found), dlvm.tree.leaves(expected), strict=True):
            assert x.dtype == y.dtype
            np.testing.assert_allclose(x, y, rtol=1e-6)


def test_another_rate_of_an_optimiser_compiles_nothing(caplog):
    caplog.set_level("INFO", "dlvm.compile")
    state = optim.sgd(1.0).init(X)
    for rate in (0.1, 0.2, 0.4):
        updates, _ = optim.sgd(rate).update(X, state)
        np.testing.assert_allclose(updates, -np.float32(rate) * X, rtol=1e-6)
    assert len([r for r in caplog.records if "update: compiled" in r.message]) <= 1


def test_numbers_beside_arrays_stay_numbers():
    out = optim.apply({"w": X, "n": 3}, {"w": X, "n": None})
    assert type(out["n"]) is int


MISTAKES = {
    "a state of another optimiser": lambda: optim.adam(0.1).update(X, (), X),
    "an update of another structure": lambda: optim.apply({"w": X}, [X]),
    "a float as a seed": lambda: random.key(0.5),
    "integers of a normal distribution": lambda: random.normal(KEY, (3,), "i32"),
    "a missing argument": lambda: random.split(),
    "an unknown argument": lambda: random.split(KEY, nm=3),
    "shapes that do not fit": lambda: nn.dense(X, X),
    "an id out of range": lambda: nn.embedding(X, np.array([0, 9])),
    "an array of objects": lambda: nn.relu(np.array([None])),
    "an unknown axis": lambda: nn.softmax(X, axis=5),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_errors_are_those_of_the_references(name):
    def said():
        with pytest.raises(dlvm.UserError) as found:
            MISTAKES[name]()
        return type(found.value), str(found.value)

    ran = said()
    with dlvm.debug(references=True):
        assert said() == ran


def test_what_cannot_be_staged_is_computed_by_the_references(interpreted):
    assert np.array_equal(random.key(2**70 + 3), [0, 3])
    assert interpreted
    assert np.array_equal(linalg.cho_solve(linalg.cho_factor(np.eye(2)), np.ones(2)), np.ones(2))


def test_arrays_of_other_libraries_go_on_as_before():
    class Lent:
        def __array__(self, dtype=None, copy=None):
            return X

    assert np.array_equal(nn.relu(Lent()), X)


def test_results_are_never_arguments():
    for _ in range(2):
        out = nn.relu(X)
        assert not np.shares_memory(out, X) and out.flags.writeable


DOUBLED = {
    "a staged function": dlvm.function(lambda x: x * 2),
    "a derivative": dlvm.grad(lambda x: (x * x).sum()),
    "a derivative in a batch": dlvm.vmap(dlvm.grad(lambda x: (x * x).sum())),
}


@pytest.mark.parametrize("name", DOUBLED)
def test_functions_that_a_call_calls_are_computed_with_it(name):
    for _ in range(3):
        assert np.array_equal(nn.glu(X, activation=DOUBLED[name]), X[:, :2] * (2 * X[:, 2:]))


def test_what_has_a_derivative_of_its_own_runs_as_references():
    a = np.array([[0.0, 2.0], [-2.0, 0.0]])
    with dlvm.debug(references=True):
        t, z = linalg.schur(a)
    np.testing.assert_allclose(z @ t @ z.T, a, atol=1e-12)


def test_the_variable_gives_the_references(monkeypatch, interpreted):
    monkeypatch.setenv("DLVM_INTERPRET", "1")
    random.split(KEY)
    assert interpreted


def test_looking_for_nan_gives_the_references(interpreted):
    with dlvm.debug(nans=True):
        random.split(KEY)
    assert interpreted


def test_references_are_for_the_calls_of_one_thread():
    seen = []
    with dlvm.debug(references=True):
        thread = threading.Thread(target=lambda: seen.append(undecorated.runs_programs()))
        thread.start()
        thread.join()
        assert not undecorated.runs_programs()
        with dlvm.debug(bounds=True):
            assert not undecorated.runs_programs()
    assert seen == [True] and undecorated.runs_programs()


def test_references_leave_what_is_staged_alone(interpreted):
    f = dlvm.function(lambda x: x + 1)
    with dlvm.debug(references=True):
        f(X), f(X)
    assert not interpreted


def test_inside_of_a_trace_nothing_changes():
    text = str(dlvm.trace(lambda k: random.split(k), KEY))
    assert "concat" in text and "call @" not in text


@pytest.fixture
def squared():
    """A public function of its own, whose programs no other test has made."""

    @eager.exported("nn.squared_for_test")
    def squared(x, power: int = 2):
        out = x
        for _ in range(power - 1):
            out = out * x
        return out

    yield squared
    del eager.PUBLIC["nn.squared_for_test"]


def test_no_more_than_64_programs_are_kept_and_the_hundredth_compile_says_so(squared):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for n in range(1, 103):
            squared(np.ones(n))
    (only,) = told
    assert "nn_squared_for_test compiles for the hundredth time" in str(only.message)
    assert "dynamic=True" in str(only.message) and only.filename == __file__
    (programs,) = [o for o in gc.get_objects() if type(o).__name__ == "Programs" and _is(o)]
    assert len(programs._made) == 64


def _is(programs):
    return programs.source.label == "nn_squared_for_test"


def test_programs_do_not_keep_arguments(squared):
    x = np.ones(3)
    gone = weakref.ref(x)
    squared(x), squared(x)
    del x
    gc.collect()
    assert gone() is None
