"""A few operations and programs on each device that is here, others with each seed of the suite.

``python -m tests.gen.printed.registry`` runs all of them.
"""

import random
import time

import numpy as np
import pytest

import dlvm
from dlvm.ir import F32, NUMBERS, OPS
from dlvm.ops.families import Factorisation
from tests.gen.values import same_bits
from tests.running import seed

from . import registry
from .registry import DEVICES, LIMIT, NAMED, REFUSED, Outcome, absent, fitting, outcome

SECONDS = 2.0
"""Processor time after which no further program begins."""
FOUND = (39, 69)
"""Seeds of a constant that is shared by ranks, and of an empty array behind all memory."""
QUICK = tuple(c for c in OPS.values() if not issubclass(c, Factorisation))
"""A driver takes seconds for what is left out."""


@pytest.fixture(params=DEVICES)
def device(request):
    """A device, or no test at all, said loudly."""
    if why := absent(request.param):
        pytest.skip(f"nothing was run on {request.param}: {why}")
    return request.param


def assert_right(device, names):
    """As many as there is time for, and one at least."""
    begin = time.process_time()
    for i, name in enumerate(names):
        if i and time.process_time() - begin > SECONDS:
            break
        found = outcome(device, name)
        assert found.state in ("right", "refused"), (name, found)


def test_some_operations_give_what_the_interpreter_gives(device):
    dice = random.Random(seed())
    drawn = ((cls, dice.choice(NUMBERS)) for cls in dice.sample(QUICK, len(QUICK)))
    assert_right(device, (f"{c.name} {t} {s}" for c, t in drawn for s in fitting(c, t, 1)))


def test_some_programs_give_what_a_cpu_gives(device):
    dice = random.Random(seed())
    names = [f"{NAMED} {name} 0" for name in ("int8", "collatz", "softmax", "gathered")]
    assert_right(device, [dice.choice(names), f"{registry.DRAWN} all {seed()}"])


@pytest.mark.parametrize("seed", FOUND)
def test_random_programs_that_were_wrong(device, seed):
    program = registry.drawn("webgpu", seed)  # of types that every device has
    assert not registry.check(device, program)


WITH_ZERO = (
    *(lambda x: x * 0, lambda x: x * np.float32(-0.0), lambda x: x * x * 0, lambda x: 0 - x),
    *(lambda x: x + 0, lambda x: x - 0, lambda x: 0 / x, lambda x: x / 0, lambda x: x - x),
)


def test_constants_of_zero_forget_no_infinity_nan_or_sign(device):
    x = np.array([np.inf, -np.inf, np.nan, 1, -1, 0, -0.0, 1e-42], "f4")
    found, expected = (
        dlvm.function(lambda x: tuple(f(x) for f in WITH_ZERO), target=target)(x)
        for target in (device, "host")
    )
    for i, (a, b) in enumerate(zip(found, expected, strict=True)):
        a, b = np.asarray(a), np.asarray(b)
        assert same_bits(np.where(np.isnan(a), 0, a), np.where(np.isnan(b), 0, b)), i
        assert np.array_equal(np.isnan(a), np.isnan(b)), i


@pytest.mark.parametrize("index", [2**32 + 1, -(2**32) + 2, 2**31])
def test_an_index_of_more_than_32_bits_is_out_of_range(device, index):
    x, at = np.arange(5, dtype="f4"), np.array([0, index])
    clipped = dlvm.function(lambda x, i: dlvm.take(x, i, axis=0, mode="clip"), target=device)
    assert np.asarray(clipped(x, at)).tolist() == [0, 4 if index > 0 else 0]
    with pytest.raises(dlvm.errors.IndexOutOfRange, match=f"index {index} "):
        dlvm.function(lambda x, i: x[i], target=device)(x, at)


def test_a_size_as_a_number_may_be_larger_than_any_index(device):
    """A product of open sizes is no size of an array here."""

    def sizes(x):
        n = x.shape[0]
        square = n * n
        told = square, 3 * square * n + 7, square // 7, square % 1_000_003, (square - 5) // n
        return dlvm.stack([dlvm.asarray(d) for d in told]) + dlvm.sum(x).astype("i64")

    compiled = dlvm.function(sizes, target=device).compile(dlvm.spec("f32[N]"))
    for n in (1, 3, 100_003):
        found = np.asarray(compiled(np.zeros(n, "f4"))).tolist()
        assert found == [n * n, 3 * n**3 + 7, n * n // 7, n * n % 1_000_003, (n * n - 5) // n]


def test_what_is_wrong_or_not_in_the_table_is_told(device, monkeypatch):
    (first,) = fitting(OPS["neg"], F32, 1)
    name = f"neg f32 {first}"
    monkeypatch.setattr(registry, "differ", lambda *_: "wrong")
    assert outcome(device, name) == Outcome("wrong", "wrong")

    def refused(*_):
        raise registry.UserError("there is no such thing")

    monkeypatch.setattr(registry, "built", refused)
    assert outcome(device, name).reason.endswith("no table holds: there is no such thing")
    monkeypatch.setitem(REFUSED, (device, "things"), "no such thing")
    assert outcome(device, name) == Outcome("refused", "things")


def test_each_program_has_a_process_and_a_limit(monkeypatch):
    """A child that never answers is killed, and the next one goes on."""
    assert LIMIT <= 20
    script = "import sys, time; print('ready', flush=True); input(); time.sleep(60)"
    monkeypatch.setattr(registry, "COMMAND", ("-c", script))
    monkeypatch.setattr(registry, "LIMIT", 0.2)
    assert [found.state for _, found in registry.outcomes("any", ["a"])] == ["slow"]
    script = "print('ready', flush=True); input(); print('right ', flush=True)"
    monkeypatch.setattr(registry, "COMMAND", ("-c", script))
    found = [found.state for _, found in registry.outcomes("any", ["a", "b", "c"])]
    assert found == ["right", "wrong", "right"]
