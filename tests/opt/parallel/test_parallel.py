"""What a GPU does other than one after the other gives the same, but for roundings."""

from __future__ import annotations

import numpy as np
import pytest

import dlvm
from dlvm.gen.gpu.devices.choosing import using
from dlvm.gen.gpu.emulator.device import EmulatedDevice
from dlvm.gen.loops.statements import (
    Bind,
    Buffer,
    Define,
    Fill,
    Let,
    Load,
    Loop,
    Product,
    Sort,
    Store,
)
from dlvm.gen.program.steps import Launch
from dlvm.gen.schedule.transforms.interchange import Interchange, owns
from dlvm.ir import F32, TensorType
from dlvm.ir.sizes import dims
from dlvm.ir.sizes.dims import evaluate
from dlvm.opt.parallel import scans, scatters, sorts
from dlvm.viewing.model import model

RNG = np.random.default_rng(0)
PASSES = ["sort_scatters", "merge_sorts", "cut_scans"]
FLOATS = ("f4", "f8", "f2")
LONG = 1 << 20
TURNS = 4096
"""What one thread does one after the other, at most."""


@pytest.fixture
def small(monkeypatch):
    """Chunks of four, and nothing that is short enough for one thread."""
    for module, name, value in (
        (scans, "CHUNK", 4),
        (scans, "MOST", 8),
        (sorts, "SHORT", 0),
        (scatters, "ALONE", -1),
        (scatters, "MOST", 1 << 40),
    ):
        monkeypatch.setattr(module, name, value)
    monkeypatch.setattr(scatters, "FEW", 1 << 40)


def drawn(dtype, *shape):
    return (3 * RNG.normal(size=shape)).astype(dtype)


def compared(f, *arguments, specs=None):
    """Runs a function by the references, as it is and after the passes."""
    module = dlvm.trace(f, *(specs or arguments)).expanded()
    changed = module.optimize(PASSES)
    assert str(changed) != str(module)
    for a, b in zip(
        module.run(module.main.name, *arguments),
        changed.run(changed.main.name, *arguments),
        strict=True,
    ):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        if a.dtype.kind != "f":
            assert np.array_equal(a, b)
            continue
        rough = 3e-2 if a.dtype.itemsize == 2 else 2e-4
        np.testing.assert_allclose(a, b, rtol=rough, atol=rough)


# -- scans ----------------------------------------------------------------------------------------

SCANS = ("sum", "prod", "max", "min", "logsumexp")


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("name", SCANS)
def test_scans_in_chunks(small, name, reverse, exclusive):
    how = {"axis": 1, "reverse": reverse, "exclusive": exclusive}
    f = getattr(dlvm, f"cumulative_{name}")
    for n in (9, 12, 41):  # 41 has chunks of chunks
        for dtype in FLOATS if name == "logsumexp" else ("f4", "i4", "u1", "f8"):
            compared(lambda x, f=f: f(x, **how), drawn(dtype, 2, n, 3))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("exclusive", [False, True])
def test_recurrences_in_chunks(small, reverse, exclusive):
    def f(a, x):
        return dlvm.linear_recurrence(a, x, axis=0, reverse=reverse, exclusive=exclusive)

    for n in (9, 41):
        for dtype in ("f8", "i4"):
            compared(f, drawn(dtype, n, 2), drawn(dtype, n, 2))


def test_extremes_have_the_same_bits(small):
    many = np.array([0.0, -0.0, np.nan, 1, np.inf, -np.inf] * 5, "f4")
    for start in (0, 1, 3):
        x = many[start:]
        for f in (dlvm.cumulative_max, dlvm.cumulative_min):
            module = dlvm.trace(lambda x, f=f: f(x, axis=0), x)
            changed = module.optimize(PASSES)
            (a,), (b,) = (m.run(m.main.name, x) for m in (module, changed))
            assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize("name", SCANS)
def test_special_values_go_through_chunks(small, name):
    """An infinity, or NaN, in one chunk is seen by those after it, and in no other row."""
    f = getattr(dlvm, f"cumulative_{name}")
    for special in (np.inf, -np.inf, np.nan):
        for place in (0, 3, 4, 13):
            x = np.abs(drawn("f8", 2, 14)) + 0.5
            x[0, place] = special
            with np.errstate(all="ignore"):
                compared(lambda x: f(x, axis=1), x)
                compared(lambda x: f(x, axis=1, reverse=True), x)


def test_an_open_length(small):
    for n in (0, 1, 7, 30):
        compared(lambda x: dlvm.cumsum(x), drawn("f4", n), specs=[dlvm.spec("f32[n]")])


# -- sorts ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "i4", "u1", "i8", "u8", "?"])
def test_merged_rows_have_the_order_of_sort(small, dtype, descending):
    def f(x):
        return dlvm.sort(x, descending=descending), dlvm.argsort(x, descending=descending)

    for n in (0, 1, 2, 3, 8, 17, 32, 40, 70):
        x = drawn(dtype, 3, n)
        if x.dtype.kind == "f" and n > 3:
            x[0, ::3], x[1, ::2], x[1, 1::4], x[2, :2] = np.nan, 0, -0.0, (np.inf, -np.inf)
        module = dlvm.trace(f, x)
        changed = module.optimize(PASSES)
        found = changed.run(changed.main.name, x)
        for a, b in zip(module.run(module.main.name, x), found, strict=True):
            assert a.tobytes() == b.tobytes()


def test_how_often_runs_are_merged():
    n = dlvm.spec("f32[n]").shape[0]
    for k in (*range(20), 1023, 1024, 1025, LONG, LONG + 1):
        runs = -(-k // sorts.COUNTED)
        assert sorts.passes(k) == max(runs - 1, 0).bit_length()
        assert evaluate(sorts.passes(n), {"n": k}) == sorts.passes(k)


TABLES = (
    ((7, 3), (5,)),
    ((7,), (20,)),
    ((4, 3), (2, 6)),
    ((1, 2), (9,)),
    ((5, 0), (3,)),
    ((6, 2), (0,)),
)
"""Shapes of tables, and of indices of rows."""

# -- scatters -------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["clip", "drop", "error"])
@pytest.mark.parametrize("how", ["add", "set", "multiply", "min", "max"])
def test_sorted_updates(small, how, mode):
    def f(x, i, u):
        return getattr(dlvm.at(x)[i], how)(u, mode=mode)

    for shape, where in TABLES:
        for dtype in ("f4", "i4", "f2"):
            far = shape[0] if mode == "error" else 2 * shape[0]
            at = RNG.integers(-far, far, where)
            compared(f, drawn(dtype, *shape), at, drawn(dtype, *where, *shape[1:]))


def test_a_nan_stays_where_it_goes(small):
    x, at, u = drawn("f4", 5, 2), np.array([0, 3, 0, 3, 4]), drawn("f4", 5, 2)
    u[1, 0], u[2, 1] = np.nan, np.inf
    compared(lambda x, i, u: dlvm.at(x)[i].add(u), x, at, u)


def test_gradients_write_along_any_axis(small):
    x, i, u = drawn("f8", 3, 5, 4), RNG.integers(0, 5, (3, 7, 4)), drawn("f8", 9, 4)
    y, k = drawn("f8", 6, 4), RNG.integers(-6, 6, 9)

    def along(x, i):
        return dlvm.grad(lambda x: dlvm.sum(dlvm.take_along_axis(x, i, 1) ** 2))(x)

    def taken(x, i):
        return dlvm.grad(lambda x: dlvm.sum(dlvm.take(x, i, axis=1) ** 2))(x)

    compared(along, x, i)
    compared(taken, x, i[0, :, 0])
    for mode, at in (("error", k), ("clip", 2 * k), ("drop", 2 * k)):

        def put(y, u, k, mode=mode):
            def loss(y, u):
                return dlvm.sum(dlvm.at(y)[k].set(u, mode=mode) ** 3)

            return dlvm.grad(loss, wrt=(0, 1))(y, u)

        compared(put, y, u, at)


def test_an_index_out_of_range_is_told(small):
    module = dlvm.trace(lambda x, i: dlvm.at(x)[i].add(x), drawn("f4", 3), np.zeros(3, int))
    changed = module.optimize(PASSES)
    with pytest.raises(dlvm.IndexOutOfRange, match=r"index 5 .* size 3"):
        changed.run(changed.main.name, drawn("f4", 3), np.array([0, 5, 1]))


# -- loops in another order ------------------------------------------------------------------------

B = Buffer("b", TensorType(F32, (12, 8)), "inout")


def inner(read, write):
    """A loop over eight turns, each of which reads an element and writes one."""
    found = Load(F32, B, read)
    return Loop("%j", 8, "parallel", (Let(found), Store(B, write, found)))


def test_a_loop_comes_out_where_its_turns_own_what_they_write():
    i, j, at = (dims.symbol(n) for n in ("%i", "%j", "%at"))
    for read, write in ((8 * i + j, 8 * at + j), (j, j), (8 * at + j, 8 * i + j + 80)):
        assert owns(inner(read, write))
    for read, write in ((j, j + 1), (8 * i + j, i), (j, 7 * i + j), (2 * j, j), (8 * i, j)):
        assert not owns(inner(read, write))
    step = Interchange("%i")
    before = Loop("%i", 12, "serial", (inner(8 * i + j, 8 * i + j),))
    (outer,) = step.rewritten(before)
    assert (outer.var, outer.kind, outer.body[0].kind) == ("%j", "parallel", "serial")
    with pytest.raises(dlvm.base.errors.UserError, match="serial and parallel"):
        step.rewritten(Loop("%i", 12, "serial", (inner(j, j + 1),)))


# -- on a GPU -------------------------------------------------------------------------------------


def emulated(f, *arguments):
    with using(EmulatedDevice()):
        found = dlvm.function(f, target="cuda:sm_90")(*arguments)
        return [np.asarray(x) for x in (found if isinstance(found, tuple) else (found,))]


def test_on_a_gpu_they_give_the_same(small):
    x, i, u = drawn("f4", 13), RNG.integers(0, 9, 13), drawn("f4", 13, 3)

    def f(x, i, u):
        added = dlvm.at(dlvm.zeros((9, 3), "f4"))[i].add(u)
        return dlvm.argsort(x), added, dlvm.cumulative_max(x, axis=0)

    for a, b in zip(emulated(f, x, i, u), dlvm.function(f)(x, i, u), strict=True):
        np.testing.assert_allclose(a, np.asarray(b), rtol=1e-4, atol=1e-4)


def test_rows_of_updates_are_lanes_with_the_bits_of_a_cpu():
    x, i, u = drawn("f4", 9, 5, 7), RNG.integers(0, 9, 40), drawn("f4", 40, 5, 7)

    def f(x, i, u):
        return dlvm.at(x)[i].add(u)

    (found,) = emulated(f, x, i, u)
    assert np.array_equal(found, np.asarray(dlvm.function(f)(x, i, u)))
    schedule = dlvm.function(f, target="cuda").compile(x, i, u).text("schedule")
    assert schedule.count("interchange") == 2


def test_a_wrong_pass_of_a_gpu_is_named(small, monkeypatch):
    """The passes for a GPU are compared as all others are, by references."""
    x = drawn("f4", 20)
    monkeypatch.setenv("DLVM_VERIFY", "passes")
    dlvm.function(lambda x: (dlvm.sort(x), dlvm.cumsum(x)), target="cuda").compile(x)
    monkeypatch.setattr(sorts, "_key", lambda x, descending: x)
    with pytest.raises(dlvm.CompilerError, match="merge_sorts"):
        dlvm.function(lambda x: dlvm.sort(x, descending=True), target="cuda").compile(x)


def test_the_page_of_a_program_for_a_gpu_shows_its_passes(small):
    compiled = dlvm.function(dlvm.cumsum, target="cuda").compile(drawn("f4", 20))
    stages = model(compiled.road)["stages"]
    assert "cut_scans" in [s["name"] for s in stages]
    (kernels,) = [s for s in stages if s["known_as"] == "kernels"]
    assert "".join(f"{t}\n" for t, _ in kernels["lines"]) in compiled.text("kernels")


def f4(*shape):
    return dlvm.spec(f"f32[{','.join(map(str, shape))}]")


def i8(*shape):
    return dlvm.spec(f"i64[{','.join(map(str, shape))}]")


def gradient(f):
    return lambda x, *rest: dlvm.grad(lambda x: dlvm.sum(f(x, *rest) ** 2))(x)


PROGRAMS = {
    "cumsum": (dlvm.cumsum, f4(LONG)),
    "cumsum of rows": (lambda x: dlvm.cumsum(x, axis=1), f4(64, 1 << 14)),
    "recurrence": (dlvm.linear_recurrence, f4(LONG), f4(LONG)),
    "sort": (dlvm.sort, f4(LONG)),
    "median": (dlvm.median, f4(LONG)),
    "gradient of sort": (gradient(dlvm.sort), f4(1 << 14)),
    "add": (lambda t, i, u: dlvm.at(t)[i].add(u), f4(1000, 64), i8(1 << 14), f4(1 << 14, 64)),
    "add numbers": (lambda t, i, u: dlvm.at(t)[i].add(u), f4(1000), i8(LONG), f4(LONG)),
    "bincount": (lambda i: dlvm.bincount(i, length=1000), i8(LONG)),
    "gradient of rows": (gradient(lambda t, i: t[i]), f4(1 << 14, 64), i8(1 << 14)),
    "gradient along an axis": (
        gradient(lambda t, i: dlvm.take_along_axis(t, i, 1)),
        f4(1 << 10, 1 << 10),
        i8(1 << 10, 1 << 10),
    ),
    "gradient of set": (
        gradient(lambda t, i, u: dlvm.at(t)[i].set(u)),
        f4(1000),
        i8(1 << 14),
        f4(1 << 14),
    ),
    "sum": (dlvm.sum, f4(LONG)),
    "sum of columns": (lambda x: dlvm.sum(x, axis=0), f4(1 << 18, 4)),
    "argmax": (dlvm.argmax, f4(LONG)),
    "softmax": (dlvm.nn.softmax, f4(4, 1 << 18)),
    "softmax of columns": (lambda x: dlvm.nn.softmax(x, axis=0), f4(1 << 18, 4)),
    "over the norm": (lambda x: x / dlvm.sqrt(dlvm.sum(x * x)), f4(LONG)),
    "gradient of a norm": (gradient(lambda x: (x - x.mean()) / x.std()), f4(LONG)),
    "columns, centred": (lambda x: (x - x.mean(0)) / x.std(0), f4(1 << 18, 4)),
    "tall factors": (lambda x: dlvm.linalg.qr(x), f4(100000, 10)),
    "long product": (lambda x, y: x @ y, f4(64, 1 << 14), f4(1 << 14, 64)),
    "permutation": (lambda k: dlvm.random.permutation(k, 1 << 16), dlvm.random.key(0)),
    "open cumsum": (dlvm.cumsum, f4("n")),
    "open add": (lambda t, i, u: dlvm.at(t)[i].add(u), f4("v", 64), i8("n"), f4("n", 64)),
}


def turns(body, values):
    """What one thread does one after the other, for these sizes and in first turns of loops."""
    total = 0
    for s in body:
        if isinstance(s, Loop):
            count = 1 if s.kind in ("block", "lane", "vector") else evaluate(s.extent, values)
            total += count * max(1, turns(s.body, {**values, s.var: 0}))
        elif isinstance(s, Sort):
            total += evaluate(s.count, values) * max(1, evaluate(s.count, values).bit_length())
        elif isinstance(s, Product | Fill):
            total += turns(s.body, {**values, **dict.fromkeys(s.spot, 1)})
        elif isinstance(s, Bind | Define):
            values = {**values, s.name: 0}
    return total


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", PROGRAMS)
def test_no_thread_does_much_alone(name):
    f, *arguments = PROGRAMS[name]
    compiled = dlvm.function(f, target="cuda:sm_90").compile(*arguments)
    program = compiled.road.executable.code.program
    given = dict.fromkeys(program.symbols, LONG)
    for step in program.walk():
        if isinstance(step, Launch):
            sizes = zip(step.kernel.symbols, step.known, strict=True)
            values = {name: evaluate(d, given) for name, d in sizes}
            assert turns(step.kernel.body, values) <= TURNS, step.kernel.name
