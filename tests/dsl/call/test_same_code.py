"""Transformations of functions that are made again and again of one code keep their programs."""

import copy
import functools
import gc
import pickle
import threading
import weakref

import numpy as np
import pytest

import dlvm
from dlvm.dsl.call import same_code
from dlvm.dsl.call.traces import Traces
from dlvm.dsl.derive import linear

X = np.linspace(0.0, 1.0, 4)


@pytest.fixture
def traces(monkeypatch):
    """The functions that were traced."""
    found = []
    settled = Traces.settled
    monkeypatch.setattr(
        Traces, "settled", lambda self, *a: found.append(self.source.label) or settled(self, *a)
    )
    return found


def test_a_lambda_that_captures_nothing_is_traced_for_its_first_two_objects(traces):
    for k in range(5):
        value, slope = dlvm.value_and_grad(lambda x: (x * x).sum())(X + k)
        assert np.array_equal(slope, 2 * (X + k)) and value == ((X + k) ** 2).sum()
    assert len(traces) == 2


def test_captured_arrays_are_read_at_each_call(traces):
    def slope(y):
        return dlvm.grad(lambda x: (x * y).sum())(X)

    for k in range(5):
        assert np.array_equal(slope(X + k), X + k)
    assert len(traces) == 2


def test_functions_of_one_code_that_live_together_do_not_mix(traces):
    def made(y):
        return dlvm.grad(lambda x: (x * y).sum())

    slopes = [made(X + k) for k in range(4)]
    for _ in range(2):
        assert all(np.array_equal(f(X), X + k) for k, f in enumerate(slopes))
    assert len(traces) == 2


def test_captured_numbers_are_part_of_the_code(traces):
    def slope(scale):
        return dlvm.grad(lambda x: (x * scale).sum())(X)

    assert [slope(k)[0] for k in (1.0, 2.0, 3.0, 2.0, 3.0)] == [1.0, 2.0, 3.0, 2.0, 3.0]
    assert len(traces) == 3


def test_defaults_are_captured(traces):
    for k in range(5):
        assert np.array_equal(dlvm.grad(lambda x, y=X + k: (x * y).sum())(X), X + k)
        assert dlvm.grad(lambda x, *, n=float(k % 2): (x * n).sum())(X)[0] == k % 2
    assert len(traces) == 2 + 3


def weighted(w, x, scale=1.0):
    return (w * x).sum() * scale


PARTIALS = {
    "by place": lambda y: functools.partial(weighted, y),
    "by name": lambda y: functools.partial(weighted, x=y),
    "of a new lambda": lambda y: functools.partial(lambda z, w: (w * y + w * z).sum(), y),
    "of a partial": lambda y: functools.partial(functools.partial(weighted, y), scale=1.0),
}


@pytest.mark.parametrize("name", PARTIALS)
def test_partials_of_one_code_share_programs(name, traces):
    made, times = PARTIALS[name], 2.0 if name == "of a new lambda" else 1.0
    kept = [dlvm.grad(made(X + k)) for k in range(4)]
    for _ in range(2):
        assert all(np.array_equal(f(X), times * (X + k)) for k, f in enumerate(kept))
    assert len(traces) == 2


def test_partials_of_other_numbers_or_other_names_have_programs_of_their_own():
    def slope(*args, **named):
        return dlvm.grad(functools.partial(weighted, *args, **named))(X)

    for _ in range(2):
        for scale in (1.0, 2.0):
            np.testing.assert_array_equal(slope(X, scale=scale), scale * X)
            np.testing.assert_array_equal(slope(x=X + 1, scale=scale), scale * (X + 1))


def test_a_partial_stays_as_it_is_and_can_be_pickled_and_copied():
    for k in range(3):
        f = functools.partial(weighted, X + k)
        dlvm.grad(f)(X)
        assert np.array_equal(f.args[0], X + k) and f.func is weighted
        for other in (pickle.loads(pickle.dumps(f)), copy.deepcopy(f), copy.copy(f)):
            assert np.array_equal(dlvm.grad(other)(X), X + k)


def test_the_function_of_a_line_search_may_be_made_anew(traces):
    optimizer = dlvm.optim.lbfgs()
    params, state = X.copy(), optimizer.init(X)
    for k in range(5):
        y = X + k

        def loss(p, y=y):
            return ((p - y) ** 2).sum()

        value, grads = dlvm.value_and_grad(loss)(params)
        updates, state = optimizer.update(grads, state, params, value=value, value_fn=loss)
        params = dlvm.optim.apply(params, updates)
    np.testing.assert_allclose(params, X + 4, atol=1e-6)
    assert traces.count("value_and_grad_loss") == 2


def test_one_function_keeps_its_own_programs(traces):
    def loss(x):
        return (x * x).sum()

    for _ in range(3):
        dlvm.grad(loss)(X)
    assert len(traces) == 1
    assert dlvm.grad(loss) is dlvm.grad(loss)


TRANSFORMED = {
    "vmap": lambda y: dlvm.vmap(lambda x, i: x * dlvm.asarray(y)[i])(X, np.arange(4)),
    "jvp": lambda y: dlvm.jvp(lambda x: x * y, (X,), (X,))[1],
    "vjp": lambda y: dlvm.vjp(lambda x: (x * x * y).sum(), X)[1](0.5)[0],
    "linearize": lambda y: dlvm.linearize(lambda x: x * y, X)[1](X),
    "jacobian": lambda y: dlvm.jacobian(lambda x: x * y)(X).sum(0),
    "hessian": lambda y: dlvm.hessian(lambda x: (x * x * y).sum())(X).sum(0),
    "checkpoint": lambda y: dlvm.checkpoint(lambda x: x * y)(X),
    "vmap of grad": lambda y: dlvm.vmap(dlvm.grad(lambda x, i: x * x * dlvm.asarray(y)[i] / 2))(
        X, np.arange(4)
    ),
}
SCALES = {"jacobian": 1, "hessian": 2}


@pytest.mark.parametrize("name", TRANSFORMED)
def test_every_transformation_and_those_of_transformations(name, traces):
    transformed = TRANSFORMED[name]
    for _ in range(2):
        transformed(X + 2)
    traces.clear()
    for k in (2, 3):
        np.testing.assert_allclose(transformed(X + k), (X + k) * SCALES.get(name, X))
    assert not traces


def test_in_a_trace_the_function_itself_is_transformed():
    def made(y):
        return dlvm.grad(lambda x: (x * y).sum())

    slopes = [made(X + k) for k in range(3)]
    both = dlvm.function(lambda x: slopes[1](x) + slopes[2](x))
    np.testing.assert_allclose(both(X), 2 * X + 3)
    assert "adjoint" in str(slopes[2].trace(X)) and np.array_equal(slopes[2].compile(X)(X), X + 2)


def test_it_is_a_staged_function_like_others():
    def made(y):
        return dlvm.grad(lambda x: (x * y).sum())

    _, f = made(X), made(X + 1)
    assert copy.copy(f) is f and f == f and hash(f) == hash(f)
    assert f.__name__ == "grad_lambda" and "grad_lambda" in repr(f)
    assert np.array_equal(dlvm.vmap(f, in_axes=0)(np.stack([X, X])), np.stack([X + 1, X + 1]))
    with pytest.raises(dlvm.UserError, match="cloudpickle"):
        pickle.dumps(f)


def test_explain_tells_what_was_compiled_for_the_code():
    def made(y):
        return dlvm.grad(lambda x: (x * y).sum())

    slopes = [made(X + k) for k in range(3)]
    for f in slopes:
        f(X)
    assert "1 compiled" in str(slopes[2].explain())


def test_each_function_is_told_by_its_own_name():
    def made(name):
        def loss(x):
            return (x @ np.ones(3)).sum()

        loss.__name__ = name
        return loss

    for name in ("first", "second", "third", "second"):
        with pytest.raises(dlvm.UserError, match=f"an argument of {name}"):
            dlvm.grad(made(name))(X)


def test_compiles_of_derivatives_are_told_by_the_function(caplog):
    caplog.set_level("INFO", "dlvm.compile")

    def loss(x):
        return (x * x).sum()

    dlvm.jvp(loss, (X,), (X,)), dlvm.vjp(loss, X), dlvm.linearize(loss, X)
    labels = [r.message.partition(":")[0] for r in caplog.records if "compiled for" in r.message]
    assert labels == ["jvp_loss", "vjp_loss", "linearize_loss"]


def test_the_room_of_a_loop_is_kept_by_the_code(monkeypatch):
    asked = []
    program = linear._program
    monkeypatch.setattr(linear, "_program", lambda *a: asked.append(a[-1]) or program(*a))

    def slope(y):
        def loss(x):
            return dlvm.while_loop(lambda c: c[0] < 99, lambda c: (c[0] + 1, c[1] * y), (0, x))[1]

        return dlvm.vjp(loss, 1.0)[1](1.0)[0]

    for k in range(4):
        asked.clear()
        assert slope(np.array(1.0 + k / 100)) == pytest.approx((1.0 + k / 100) ** 99)
    assert len(asked) == 1


def test_what_a_function_assigns_is_its_own():
    def made():
        seen = None

        def loss(x):
            nonlocal seen
            seen = seen or 1.0
            return (x * seen).sum()

        return loss, lambda: seen

    for _ in range(3):
        loss, seen = made()
        assert dlvm.grad(loss)(X)[0] == 1.0 and seen() == 1.0


def test_a_function_that_calls_itself_is_its_own():
    def made(n):
        def power(x, k=3):
            return x if k == 0 else power(x, k - 1) * n

        return power

    assert [dlvm.grad(made(n))(1.0) for n in (1.0, 2.0, 3.0)] == [1.0, 8.0, 27.0]


def test_calls_in_other_threads_at_the_same_time():
    def work(k, out):
        y = X + k
        for _ in range(20):
            out.append(np.array_equal(dlvm.grad(lambda x: (x * y).sum())(X), y))

    found = []
    threads = [threading.Thread(target=work, args=(k, found)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(found) == 80 and all(found)


def test_threads_share_the_programs_of_a_code(traces, monkeypatch):
    monkeypatch.setattr(same_code, "PATIENCE", 60)
    w = np.linspace(0, 1, 40_000).reshape(200, 200)

    found = []

    def call(y):
        found.append((dlvm.grad(lambda x: dlvm.sin(x @ y).sum())(w), np.cos(w @ y) @ y.T))

    def work(k):
        for i in range(10):
            call(w + 10 * k + i)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(found) == 40 and len(traces) <= 2
    for slope, expected in found:
        np.testing.assert_allclose(slope, expected, atol=1e-6)


def test_a_call_inside_of_a_call_has_its_own_captures():
    def made(y):
        return lambda x: (x * y).sum()

    class Asking:
        def __array__(self, dtype=None, copy=None):
            assert np.array_equal(dlvm.grad(made(X + 5))(X), X + 5)
            return X

    for k in range(4):
        assert np.array_equal(dlvm.grad(made(X + k))(Asking()), X + k)


@pytest.mark.parametrize("captured", [(), (1.0,)])
def test_a_function_that_is_given_other_code_computes_that(captured):
    def made(scale):
        return (lambda x: (x * scale).sum()) if captured else (lambda x: x.sum())

    losses = [made(*captured or (0.0,)) for _ in range(3)]
    slopes = [dlvm.grad(f) for f in losses]
    for k in range(3):
        assert slopes[k](X)[0] == 1.0
    other = (lambda scale: lambda x: (x * scale * 9.0).sum())(1.0)
    losses[2].__code__ = (other if captured else (lambda x: x.sum() * 9.0)).__code__
    assert [f(X)[0] for f in slopes] == [1.0, 1.0, 9.0]


def test_a_forked_process_waits_for_no_thread_of_its_parent():
    def slope(k):
        return dlvm.grad(lambda x: (x * k).sum())(X)[0]

    assert [slope(1.0), slope(2.0)] == [1.0, 2.0]
    codes = [s for s in same_code._known.values() if s.stand_in]
    (same,) = [s for s in codes if _named(s.stand_in, "waits_for_no_thread")]
    same._lock.acquire()
    same._holder = -1
    same_code._renew()  # what a fork calls in the child
    assert slope(3.0) == 3.0 and not same._lock.locked()


def test_what_was_captured_is_let_go():
    def slope(y):
        return dlvm.grad(lambda x, z=y: (x * y * z).sum())(X)

    def of_partial(y):
        return dlvm.grad(functools.partial(weighted, y))(X)

    for f in (slope, of_partial) * 3:
        y = np.ones(4)
        gone = weakref.ref(y)
        f(y)
        del y
        gc.collect()
        assert gone() is None


def test_errors_have_the_line_of_the_user():
    for _ in range(3):
        with pytest.raises(dlvm.UserError) as found:
            dlvm.grad(lambda x: x * 2)(X)
        assert "dlvm.grad(lambda x: x * 2)(X)" in str(found.value)
        with pytest.raises(dlvm.UserError, match="lambda") as found:
            dlvm.grad(lambda x: (x @ np.ones(3)).sum())(X)
        assert "x @ np.ones(3)" in str(found.value)


def test_codes_that_are_remembered_are_bounded():
    for k in range(same_code.KEPT + 20):
        space = {"dlvm": dlvm}
        exec(f"def f(): return dlvm.grad(lambda x: (x * {k}.0).sum())", space)
        space["f"](), space["f"]()
    assert len(same_code._known) <= same_code.KEPT


def test_no_more_than_64_programs_are_kept_of_a_stand_in():
    def slope(x):
        return dlvm.grad(lambda x: (x * x).sum())(x)

    slope(X)
    for n in range(1, 70):
        slope(np.ones(n))
    (kept,) = [
        s.stand_in
        for s in same_code._known.values()
        if s.stand_in and _named(s.stand_in, "no_more_than_64")
    ]
    (staged,) = kept.__dlvm_made__.values()
    assert len(staged.programs._made) == 64


def test_the_hundredth_compile_for_another_captured_number_advises_an_argument(monkeypatch):
    monkeypatch.setenv("DLVM_INTERPRET", "1")

    def slope(x, scale):
        return dlvm.grad(lambda x: (x * scale).sum())(x)

    with pytest.warns(dlvm.TraceWarning, match="hundredth time.*pass what changes as an array"):
        for k in range(102):
            slope(np.ones(1 + k % 2), float(k))


COMPUTED = {
    "captured": (
        lambda y: dlvm.grad(lambda x: (x * np.sin(y)).sum())(X),
        lambda y: dlvm.grad(lambda x: (x * np.sin(dlvm.asarray(y))).sum())(X),
    ),
    "a default": (
        lambda y: dlvm.grad(lambda x, y=y: (x * np.cos(y)).sum())(X),
        lambda y: dlvm.grad(lambda x, y=y: (x * np.cos(dlvm.asarray(y))).sum())(X),
    ),
    "that is fixed": (
        lambda y: (lambda y: dlvm.grad(lambda x: (x * y.sum()).sum())(X))(_fixed(y)),
        lambda y: (lambda y: dlvm.grad(lambda x: (x * dlvm.asarray(y).sum()).sum())(X))(_fixed(y)),
    ),
}


@pytest.mark.parametrize("name", COMPUTED)
def test_the_tenth_compile_for_other_elements_of_an_array_says_how_to_avoid_it(name, monkeypatch):
    monkeypatch.setenv("DLVM_INTERPRET", "1")
    slope, mended = COMPUTED[name]
    for k in range(11):
        slope(X + k)
    with pytest.warns(dlvm.TraceWarning, match=r"grad_lambda .* tenth time .* of y.*asarray\(y\)"):
        slope(X + 11)
    for k in range(14):
        np.testing.assert_allclose(mended(X + k), slope(X + k))


@pytest.mark.parametrize("name", COMPUTED)
def test_what_is_advised_there_compiles_once(name, traces):
    for k in range(5):
        COMPUTED[name][1](X + k)
    assert len(traces) <= 2


def _fixed(y):
    """A large array that nobody can write to, with which code may compute."""
    fixed = np.full(1 << 18, y[-1])
    fixed.setflags(write=False)
    return fixed


def _named(f, name):
    return name in getattr(f, "__qualname__", "")
