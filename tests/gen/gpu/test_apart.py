"""What rows fold, and what they then write, in launches of their own: the bits of a CPU."""

import numpy as np
import pytest

import dlvm
from dlvm.base.errors import UserError
from dlvm.gen.schedule.transforms.gpu import apart

from .test_long_rows import FOLDS, TWO_AXES, loss_of
from .test_programs import assert_same_bits, emulated, machine_code
from .test_sums import compiled, launches


def centred(x, axis, where=False):
    """Over one standard deviation, from the mean."""
    found = (x - x.mean(axis=axis, keepdims=True)) / (x.std(axis=axis, keepdims=True) + 1)
    return dlvm.where(found > 0, found, x) if where else found


def both(x):
    """The sums, what they are told apart from, and what of them is open."""
    total = x.sum(axis=0)
    return total, x - total, (x > total) & (total > 0)


def updated(x, g):
    """A step along a gradient that is clipped by the norm of all of it."""
    norm = np.sqrt((g * g).sum())
    return x - g * np.minimum(1, 1 / norm)


COLUMNS = {
    "centred": lambda x: centred(x, 0),
    "centred, chosen": lambda x: centred(x, 0, where=True),
    "softmax": lambda x: dlvm.nn.softmax(x, axis=0),
    "sums as well": both,
    "where the largest is": lambda x: x - np.argmax(x, axis=0).astype(x.dtype),
    "of the transposed": lambda x: centred(x.T, 1),
    "transposed": lambda x: centred(x, 0).T,
    "of all": lambda x: x / x.sum(),
    "several": lambda x: (x - x.mean(axis=0)) * x.max(),
    "taken": lambda x: x - x[:, 0].mean() * x[::-1].sum(axis=0),
    "gradient": loss_of(lambda x: centred(x, 0)),
    "gradient of softmax": loss_of(lambda x: dlvm.nn.softmax(x, axis=0)),
    "two updates": lambda x: (updated(x, x * x), updated(x.T, x.T)),
}


@pytest.fixture
def always(monkeypatch):
    """Rows of any length are written by other blocks than those that fold them."""
    for name in ("LONG", "SHORT", "FEWEST"):
        monkeypatch.setattr(apart, name, 0)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("name", sorted(COLUMNS.keys() - {"of all", "two updates"}))
def test_columns_are_apart(name):
    """Otherwise the tests of bits would say nothing; a sum of everything is one chunk here."""
    assert "apart" in compiled(COLUMNS[name], "f32[33,4]").text("schedule")


@pytest.mark.usefixtures("always")
def test_arrays_without_elements():
    for shape in ((0, 3), (3, 0), (0, 0)):
        x = of("f4", *shape)
        for name in ("centred", "sums as well", "of all"):
            assert_same_bits(emulated(COLUMNS[name], x), machine_code(COLUMNS[name], x))


@pytest.mark.usefixtures("always")
def test_an_index_that_data_gives():
    def f(x, i):
        return (x - x.sum(axis=0)) * x[i] + x[:, i].mean() * i

    x = of("f4", 9, 5)
    for i in (0, 4, -2):
        given = x, np.array(i)
        assert_same_bits(emulated(f, *given), machine_code(f, *given))


@pytest.mark.usefixtures("always")
def test_the_schedule_can_be_read_back():
    f, x = dlvm.function(COLUMNS["softmax"], target="cuda:sm_90"), dlvm.spec("f32[33,4]")
    made = f.compile(x)
    again = f.compile(x, schedule=made.text("schedule"))
    assert again.text("loops") == made.text("loops")


def test_a_kernel_that_folds_nothing_is_refused():
    with pytest.raises(UserError, match="none of its rows folds, and then writes many elements"):
        text = "schedule 1\nkernel @k0\n  apart %kernel\n"
        dlvm.function(lambda x: x + 1, target="cuda").compile(of("f4", 4), schedule=text)


def of(dtype, *shape):
    return (3 * np.random.default_rng(1).standard_normal(shape)).astype(dtype)


@pytest.mark.usefixtures("always")
@pytest.mark.drawn(3)
@pytest.mark.parametrize("dtype", ["f4", "f8", "f2"])
@pytest.mark.parametrize("shape", [(1, 1), (7, 3), (33, 4), (2, 65), (4100, 3)], ids=str)
@pytest.mark.parametrize("name", COLUMNS)
def test_columns_have_the_bits_of_a_cpu(name, shape, dtype):
    x = of(dtype, *shape)
    assert_same_bits(emulated(COLUMNS[name], x), machine_code(COLUMNS[name], x))


@pytest.mark.usefixtures("always")
@pytest.mark.drawn(3)
@pytest.mark.parametrize("columns", [2, 33, 130, 4097])
@pytest.mark.parametrize("name", FOLDS)
def test_rows_have_the_bits_of_a_cpu(name, columns):
    x = of("f4", 3, columns)
    assert_same_bits(emulated(FOLDS[name], x), machine_code(FOLDS[name], x))


@pytest.mark.usefixtures("always")
@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", TWO_AXES)
def test_rows_of_two_axes(name):
    x = of("f8", 3, 7, 70)
    assert_same_bits(emulated(TWO_AXES[name], x), machine_code(TWO_AXES[name], x))


@pytest.mark.usefixtures("always")
def test_integers_and_special_values():
    x = np.array([[np.nan, np.inf, -0.0], [1.0, -np.inf, 0.0], [3.0, 2.0, -0.0]])
    whole = np.random.default_rng(0).integers(-(2**31), 2**31 - 1, (9, 5), "i4")
    for f, y in ((lambda x: x - x.max(axis=0), x), (lambda x: x - x.sum(axis=0), whole)):
        assert_same_bits(emulated(f, y), machine_code(f, y))


@pytest.mark.usefixtures("always")
def test_an_array_that_is_given_away_is_folded_before_it_is_overwritten():
    def f(x):
        return x - x.sum(axis=0)

    x = of("f4", 40, 6)
    want = machine_code(f, x)
    given = dlvm.function(f, donate=(0,))
    assert_same_bits(emulated(given, x.copy()), want)


WRITTEN_BY_ALL = {
    "a vector over its sum": (lambda x: x / x.sum(), "f32[1048576]"),
    "columns": (COLUMNS["centred"], "f32[100000,10]"),
    "a square": (COLUMNS["softmax"], "f32[1024,1024]"),
    "few long rows": (lambda x: dlvm.nn.softmax(x, axis=1), "f32[4,262144]"),
    "channels": (lambda x: centred(x, (0, 2)), "f32[32,64,4096]"),
}
WRITTEN_BY_ONE = {
    "many rows": (lambda x: dlvm.nn.softmax(x, axis=1), "f32[4096,8192]"),
    "few elements": (COLUMNS["centred"], "f32[100,10]"),
    "short columns": (COLUMNS["softmax"], "f32[8,65536]"),
    "sums alone": (lambda x: x.sum(axis=0), "f32[1024,1024]"),
}


@pytest.mark.parametrize("name", WRITTEN_BY_ALL)
def test_elements_are_written_by_as_many_lanes_as_there_are(name):
    made = compiled(*WRITTEN_BY_ALL[name])
    assert "apart" in made.text("schedule")
    assert max(blocks for blocks, _ in launches(made) if isinstance(blocks, int)) > 1000


@pytest.mark.parametrize("name", WRITTEN_BY_ONE)
def test_where_a_block_has_its_row_for_itself(name):
    assert "apart" not in compiled(*WRITTEN_BY_ONE[name]).text("schedule")
