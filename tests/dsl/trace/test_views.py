"""Assignment and aliases in a trace behave as NumPy's: random programs on both, and the edges."""

from __future__ import annotations

import numpy as np
import pytest

import dlvm
from dlvm.base.errors import TraceError, UserError


@pytest.fixture(autouse=True)
def by_the_interpreter(monkeypatch):
    """What is traced is at stake here, not machine code."""
    monkeypatch.setenv("DLVM_INTERPRET", "1")


def staged_and_plain(program, *arrays):
    """The results of one program on staged values and on NumPy arrays."""
    staged = dlvm.function(program)(*(a.copy() for a in arrays))
    plain = program(*(a.copy() for a in arrays))
    return staged, plain


def same(program, *arrays):
    for found, expected in zip(*staged_and_plain(program, *arrays), strict=True):
        assert np.array_equal(found, expected), (found, expected)
        assert found.dtype == np.asarray(expected).dtype


def test_the_example_of_the_documentation():
    def program(x):
        w = x.copy()
        w[1:3] *= 2
        w[0] = 7
        return w, x

    same(program, np.arange(5.0))


def test_aliases_see_each_other():
    def program(x):
        a = x * 1
        b = a
        c = a[1:]
        d = c[1:]
        b += 10
        d *= 3
        c[0] = -1
        return a, b, c, d

    same(program, np.arange(12.0).reshape(4, 3))


def test_an_element_is_a_value_and_a_row_is_a_view():
    def program(x):
        a = x.copy()
        e, r, last = a[0, 0], a[0], a[-1]
        a[0, 0] = 5
        e += 1
        last -= 1
        return a, e, r, last

    same(program, np.arange(6.0).reshape(2, 3))


def test_transposes_reshapes_and_new_axes_are_views():
    def program(x):
        a = x.copy()
        a.T[0] = 9
        a.reshape(-1)[2] = 4
        b = a[:, None, ::-1]
        b[1, 0, 0] = 8
        a[..., 1] += 100
        return a, b

    same(program, np.arange(6.0).reshape(2, 3))


def test_a_reshape_is_a_view_just_where_numpy_makes_one():
    def program(x):
        w = x.copy()
        columns, rows, turned = w[:, :2].reshape(-1), w[1:].reshape(-1), w.T.reshape(-1)
        columns[0], rows[0], turned[1] = 99, 7, -5
        split = w[:, 1:].reshape(2, 2, 2)
        split[1, 1] = 3
        return w, columns, rows, turned, split

    same(program, np.arange(12.0).reshape(4, 3))


def test_a_reshape_aliases_only_where_strides_reach():
    def program(x):
        a = x.copy()
        z = a.T.reshape(-1)
        z[0] = 9
        w = a[:, :2].reshape(-1)
        w[1] = 4
        r = np.ravel(a.T)
        r[2] = 7
        b = a[1:].reshape(-1)
        b[0] = 100
        c = a.T.reshape(3, 1, 2)
        c[0, 0, 1] = 50
        d = a[:, ::2].reshape(2, 1, 2, 1)
        d += 1000
        return a, z, w, r, b, c, d

    same(program, np.arange(6.0).reshape(2, 3))


def test_a_reshape_of_open_sizes_aliases_where_it_does_for_all():
    @dlvm.function(dynamic={"x": "B,4"})
    def f(x):
        a = x.copy()
        rows = a[1:].reshape(-1, 2)
        rows[0, 1] = 5
        columns = a[:, :2].reshape(-1)
        columns[0] = 7
        return a, rows, columns

    for n in (2, 3, 10):
        x = np.arange(n * 4.0).reshape(n, 4)
        expected = x.copy()
        expected[1, 1] = 5
        assert np.array_equal(f(x)[0], expected)


@pytest.mark.parametrize("cut", range(1, 10))
def test_a_reshape_of_part_of_an_open_axis_copies(cut):
    @dlvm.function(dynamic={"x": "4,N"})
    def f(x):
        a = x.copy()
        part = a[:, :cut].reshape(-1)
        part[0] = 7
        return a

    x = np.ones((4, 10))
    assert np.array_equal(f(x), x)


def test_arrays_as_indices_copy_when_read_and_write_in_place():
    def program(x, i, j):
        a = x.copy()
        picked = a[i]
        picked += 1
        a[i] = 7
        a[i, j] = 3
        a[:, j] -= 1
        return a, picked, x[i, j], x[:, i[:2]], x[i, 1:], x[0, i], x[i, :, None]

    same(program, np.arange(20.0).reshape(5, 4), np.array([0, 3, -1]), np.array([1, 1, 2]))


def test_masks_assign():
    def program(x):
        a = x.copy()
        a[a > 3] = 0
        rows = x[:, 0] > 2
        a[rows] = -1
        return (a,)

    same(program, np.arange(12.0).reshape(4, 3))


@pytest.mark.parametrize("shape", [(), (1,)])
def test_a_mask_takes_one_value_for_all_places(shape):
    def program(x, v):
        a = x.copy()
        a[a > 3] = v
        return (a,)

    same(program, np.arange(12.0).reshape(4, 3), np.zeros(shape))


@pytest.mark.parametrize("shape", [(8,), (3,), (4, 3), (12,)])
def test_a_mask_takes_no_value_for_each_place(shape):
    """How many places hold is not known in a trace, and only so many values does NumPy take."""

    @dlvm.function
    def f(x, v):
        a = x.copy()
        a[a > 3] = v
        return a

    with pytest.raises(UserError, match=r"help: .*dlvm\.where\(mask, v, x\)") as error:
        f(np.arange(12.0).reshape(4, 3), np.zeros(shape))
    assert "test_views.py" in str(error.value)


def test_a_mask_over_rows_takes_one_row():
    def program(x, v):
        a = x.copy()
        a[a[:, 0] > 2] = v
        a[np.array([True, False, False, False])] = 5
        return (a,)

    same(program, np.arange(12.0).reshape(4, 3), np.array([7.0, 8, 9]))


def test_a_mask_has_the_shape_of_the_axes_it_stands_for():
    @dlvm.function
    def f(x, mask):
        a = x.copy()
        a[mask] = 0
        return a

    with pytest.raises(UserError, match=r"the mask bool\[1,3\] does not fit .* f64\[4,3\]"):
        f(np.ones((4, 3)), np.ones((1, 3), bool))


def at_by_numpy(x, index, mode, add):
    """What is added at the places whose every index is inside, or made so, one axis at a time."""
    out = x.copy()
    for places in zip(*index, strict=True):
        wrapped = [int(i) + n if i < 0 else int(i) for i, n in zip(places, x.shape, strict=False)]
        inside = all(0 <= i < n for i, n in zip(wrapped, x.shape, strict=False))
        clipped = tuple(min(max(i, 0), n - 1) for i, n in zip(wrapped, x.shape, strict=False))
        if inside or mode == "clip":
            out[clipped] = (out[clipped] if add else 0) + 1.0
    return out


@pytest.mark.parametrize("mode", ["clip", "drop"])
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_each_axis_is_resolved_by_the_mode(mode, axes):
    rng = np.random.default_rng(axes)
    x = rng.normal(size=(2, 3, 2))
    index = tuple(rng.integers(-9, 9, size=12) for _ in range(axes))
    added = dlvm.function(lambda x, i: dlvm.at(x, i).add(1.0, mode=mode))
    placed = dlvm.function(lambda x, i: dlvm.at(x, i).set(1.0, mode=mode))
    assert np.allclose(added(x, index), at_by_numpy(x, index, mode, True))
    assert np.array_equal(placed(x, index), at_by_numpy(x, index, mode, False))
    assert np.allclose(dlvm.at(x, index).add(1.0, mode=mode), added(x, index))


def test_a_known_position_follows_the_mode():
    x = np.zeros((2, 3))
    clipped = dlvm.function(lambda x: dlvm.at(x, (7, -9)).add(1.0, mode="clip"))(x)
    assert clipped[1, 0] == 1 and clipped.sum() == 1
    dropped = dlvm.function(lambda x: dlvm.at(x, 7).add(1.0, mode="drop"))(x)
    assert not dropped.any()
    with pytest.raises(UserError, match="mode='wrap': expected one of 'error', 'clip', 'drop'"):
        dlvm.at(x, 0).add(1.0, mode="wrap")


def test_an_index_of_several_that_is_outside_is_named():
    f = dlvm.function(lambda x, i, j: dlvm.at(x, (i, j)).add(1.0))
    with pytest.raises(UserError, match=r"index -4 is out of range for an axis of size 3"):
        f(np.zeros((2, 3)), np.array([0, 1]), np.array([2, -4]))


def test_derivatives_flow_through_writes_along_several_axes():
    index = (np.array([-7, 1, 0]), np.array([0, 5, 0]))
    x, v = np.ones((2, 3)), np.arange(3.0)
    weights = np.arange(6.0).reshape(2, 3)

    def loss(v, x):
        return (dlvm.at(x, index).add(v, mode="clip") * weights).sum()

    assert np.array_equal(dlvm.grad(loss)(v, x), [0, 5, 0])


def test_what_is_assigned_is_cast_and_stretched():
    def program(x):
        a = x.astype(np.int32)
        a[0] = 3.9
        a[1:] = np.array([[1], [2], [3]])
        return (a,)

    same(program, np.arange(12.0).reshape(4, 3))


def random_program(seed):
    """A program of assignments through views, as source that both kinds of array understand."""
    rng = np.random.default_rng(seed)
    shape = tuple(int(n) for n in rng.integers(1, 5, size=rng.integers(1, 4)))
    names, shapes, lines = ["a"], {"a": shape}, ["a = x.copy()"]
    for k in range(12):
        source = str(rng.choice(names))
        index, part = random_index(rng, shapes[source])
        kind = rng.integers(0, 6)
        if kind == 5:
            new = f"v{k}"
            shapes[new] = random_shape(rng, int(np.prod(shapes[source])))
            lines.append(f"{new} = {source}.reshape{shapes[new]}")
            names.append(new)
        elif kind == 0:
            lines.append(f"{source}[{index}] = {k}.5")
        elif kind == 1 and part:
            lines.append(f"{source}[{index}] *= 2")
        elif kind == 2 and len(shapes[source]) > 1:
            new = f"v{k}"
            lines.append(f"{new} = {source}.T")
            names.append(new)
            shapes[new] = shapes[source][::-1]
        elif kind == 3 and part:
            new = f"v{k}"
            lines.append(f"{new} = {source}[{index}]")
            names.append(new)
            shapes[new] = part
        else:
            lines.append(f"{source} += {k}")
    body = "\n    ".join([*lines, f"return ({', '.join(names)},)"])
    space: dict = {}
    exec(f"def program(x):\n    {body}\n", space)
    return space["program"], shape, body


def random_shape(rng, size):
    """Sizes, a 1 among them perhaps, whose product is given."""
    out, rest = [], size
    while rest > 1:
        out.append(int(rng.choice([d for d in range(2, rest + 1) if rest % d == 0])))
        rest //= out[-1]
    out.insert(int(rng.integers(0, len(out) + 1)), 0 if size == 0 else 1)
    return tuple(out)


def random_index(rng, shape):
    items, part = [], []
    for size in shape:
        kind = rng.integers(0, 4)
        if kind == 0 and size:
            items.append(str(int(rng.integers(-size, size))))
        else:
            bounds = rng.integers(-size - 1, size + 2, size=2)
            step = int(rng.choice([1, 1, 2, -1, -2]))
            cut = slice(*(None if rng.random() < 0.4 else int(b) for b in bounds), step)
            items.append(":".join("" if v is None else str(v) for v in (cut.start, cut.stop, step)))
            part.append(len(range(size)[cut]))
    return ", ".join(items), tuple(part)


@pytest.mark.parametrize("seed", range(120))
def test_random_programs_do_as_numpy_does(seed):
    program, shape, body = random_program(seed)
    x = np.random.default_rng(seed).normal(size=shape)
    staged, plain = staged_and_plain(program, x)
    for found, expected in zip(staged, plain, strict=True):
        assert np.array_equal(found, expected), f"\n{body}\n{found}\n{expected}"


@pytest.mark.parametrize(
    "stencil",
    [
        lambda x, n: x[:-2] + x[1:-1] + x[2:],
        lambda x, n: x[0 : n - 2] + x[1 : n - 1] + x[2:n],
        lambda x, n: x[1:][:-1] * x[1:-1] - x[:-1][1:],
        lambda x, n: x[:-4] - 4 * x[1:-3] + 6 * x[2:-2] - 4 * x[3:-1] + x[4:],
        lambda x, n: x[1:-1:2],
        lambda x, n: x[::2][1:-1],
    ],
)
def test_slices_of_an_open_axis_meet(stencil):
    opened = dlvm.function(dynamic=True)(lambda x: stencil(x, x.shape[0]))
    for n in range(10):
        x = np.arange(float(n)) ** 2
        np.testing.assert_array_equal(opened(x), stencil(x, n))
    assert len(opened.explain().compiles) == 1


@pytest.mark.parametrize(
    "bounds",
    [
        *[lambda n, k=k: slice(0, n - k) for k in range(5)],
        *[lambda n, k=k: slice(n - k, None) for k in range(5)],
        *[lambda n, k=k: slice(n - k, None, -1) for k in range(1, 5)],
        *[lambda n, k=k: slice(None, n - k, -1) for k in range(1, 5)],
        lambda n: slice(-n, None),
        lambda n: slice(2, n - 3),
        lambda n: slice(1 - n, 5 - n),
        lambda n: slice(n // 2 - 2, n // 2 + 2),
        lambda n: slice(n // 2 - 2, 2 * n, 3),
        lambda n: slice(n - 1, 0, -2),
    ],
)
def test_bounds_made_of_an_open_size_mean_what_they_mean_to_numpy(bounds):
    opened = dlvm.function(dynamic=True)(lambda x: x[bounds(x.shape[0])])
    for n in range(10):
        x = np.arange(float(n))
        np.testing.assert_array_equal(opened(x), x[bounds(n)])
    two = dlvm.function(dynamic={"x": "N", "y": "M"})(lambda x, y: y[bounds(x.shape[0])])
    for n, m in ((0, 3), (1, 3), (2, 7), (4, 7), (7, 4)):
        y = np.arange(float(m))
        np.testing.assert_array_equal(two(np.ones(n), y), y[bounds(n)])


@pytest.mark.parametrize("n", [0, 1, 2, 5, 8])
@pytest.mark.parametrize(
    "cut",
    ["1:", ":-1", ":3", "1:3", "::2", "1::2", "::-1", "-2:", ":", "2:-1", "::-3", "1:4:2"],
)
def test_slices_of_an_open_axis_clip_as_numpy_does(cut, n):
    space: dict = {}
    exec(
        f"def program(x):\n    a = x.copy()\n    b = a[{cut}]\n    b += 1\n    return a, b\n", space
    )
    program = space["program"]
    opened = dlvm.function(dynamic={"x": "B"})(program)
    x = np.arange(float(n))
    for found, expected in zip(opened(x), program(x.copy()), strict=True):
        assert np.array_equal(found, expected)


def test_a_row_of_an_open_axis_is_checked_in_the_call():
    @dlvm.function(dynamic={"x": "B,3"})
    def f(x):
        a = x.copy()
        a[-1][0] = 9
        return a, a[1]

    a, row = f(np.zeros((2, 3)))
    assert a[1, 0] == 9
    assert row[0] == 9
    with pytest.raises(UserError, match=r"index 1 is out of range for an axis of size 1") as error:
        f(np.zeros((1, 3)))
    assert "test_views.py" in str(error.value)


def test_take_names_an_axis_that_is_not_there():
    with pytest.raises(UserError, match=r"axis 2 is out of range for f64\[2,3\]"):
        dlvm.take(np.zeros((2, 3)), np.array([0]), axis=2)


def test_an_argument_is_not_assigned_into():
    @dlvm.function
    def f(x):
        x[0] = 1
        return x

    with pytest.raises(TraceError, match=r"x = x\.copy\(\)"):
        f(np.zeros(3))


def test_a_box_from_outside_a_region_is_not_assigned_into():
    @dlvm.function
    def f(x):
        total = dlvm.zeros(3)

        def body(c, row):
            total[0] = c
            return c + row.sum(), None

        return dlvm.scan(body, 0.0, x)

    with pytest.raises(TraceError, match="outside this region"):
        f(np.ones((2, 3)))


def test_a_box_made_inside_a_region_is_assigned_into():
    @dlvm.function
    def f(x):
        def body(c, row):
            w = row.copy()
            w[0] = c
            return c + w.sum(), w

        return dlvm.scan(body, 0.0, x)

    last, rows = f(np.ones((3, 2)))
    assert last == 7
    assert np.array_equal(rows, [[0, 1], [1, 1], [3, 1]])
