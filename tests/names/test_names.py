"""Every public name, as an operation is tried: nothing that users can call is left out.

The names are those of the registry. A new one needs a line in ``table``, or follows from the class
of its operation; it is left out of a part only for a reason that is mathematical.
"""

from __future__ import annotations

import inspect
import itertools
import os
from collections.abc import Iterator

import numpy as np
import pytest

import dlvm
from dlvm.base.errors import UserError
from dlvm.dsl.trace import kinds
from dlvm.ir import OPS
from dlvm.ops import Elementwise
from dlvm.testing import gradcheck

from . import slopes, values
from .forms import BF16, FLOATS, Form, forms_of, leaves, public_names
from .judging import called, has_meaning, judged, may_refuse
from .table import (
    BESIDE_ONE,
    CONSTANT,
    FACTORED,
    FINITE,
    IN_ORDER,
    LAYERS,
    NO_SLOPE,
    RANDOM,
    SILENT,
    SLOPES_BESIDE,
)

# Meanings in NumPy meet infinities; our own calls never warn, which other tests hold.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
LONG = os.environ.get("HYPOTHESIS_PROFILE") == "long"
CALLED = [n for n in public_names() if n not in SILENT]
KNOWN = [n for n in CALLED if n not in (RANDOM | LAYERS | FACTORED)]
SPECIAL = np.array([0.0, -0.0, 1, 1, -1, 2, -2, 0.5, -0.5, 3, 1e-30, -1e-30, 1e4, -1e4])
BEYOND = np.array([*SPECIAL[:8], np.inf, -np.inf, np.nan])
SEEDS = range(40 if LONG else 2)


@pytest.fixture
def interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Formulas are at stake, not machine code."""
    monkeypatch.setenv("DLVM_INTERPRET", "1")


def test_every_public_name_is_called_or_says_why_not():
    unknown = [n for n in CALLED if not forms_of(n)]
    assert not unknown, f"give {', '.join(unknown)} a line in tests/names/table.py"
    assert not [n for n in SILENT if n not in public_names()]


# -- values ---------------------------------------------------------------------------------------


def drawn_from(form: Form, numbers: np.ndarray, seed: int) -> Form:
    """The same call of some numbers, in order where its meaning asks for that."""
    dice = np.random.default_rng(seed)
    arrays = [dice.choice(numbers, a.shape) if slopes.is_float(a) else a for a in form.arrays]
    for k in IN_ORDER.get(form.name, ()):
        arrays[k] = np.sort(form.arrays[k] if seed == 0 else arrays[k])
    return form.of(arrays)


def special(form: Form, beyond: bool) -> np.ndarray:
    """Special elements; those beyond every finite number only where the meaning has them."""
    return BEYOND if beyond and form.name not in FINITE else SPECIAL


def variants(form: Form) -> Iterator[Form]:
    """The same call at ordinary and special elements, of every type, and of no elements."""
    yield form
    if not form.has_floats:
        return
    numbers = [SPECIAL] if form.name in FINITE else [SPECIAL, BEYOND]
    for seed, some in itertools.product(SEEDS, numbers):
        yield drawn_from(form, some, seed)
    for factor in (0.0, 1e-9, 1e3):
        yield form.each(lambda a, by=factor: a * by)
    yield from (form.each(lambda a, t=t: a.astype(t)) for t in FLOATS[1:])
    yield from whole(form)
    yield from small(form)


def whole(form: Form) -> Iterator[Form]:
    """Of integers and bools; of a byte where NumPy says what that gives."""
    types = [np.int32] if "." in form.name else [np.int32, np.int8, np.bool_]
    for t in types:
        yield form.each(lambda a, t=t: a > 0 if t is np.bool_ else np.round(a * 2).astype(t))


def small(form: Form) -> Iterator[Form]:
    """Of no elements along one axis or all, and of no axes."""
    if all(a.ndim for a in form.arrays):
        for cut in (np.s_[:0], np.s_[..., :0]):
            yield form.of([a[cut] for a in form.arrays])
        yield form.of([a[(slice(0),) * a.ndim] for a in form.arrays])
    yield form.of([a.reshape(-1)[0:1].reshape(()) for a in form.arrays])


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", KNOWN)
def test_values_of_all_kinds_are_those_of_its_meaning(name: str):
    wrong: list[str] = []
    for form in (v for f in forms_of(name) for v in variants(f)):
        if not has_meaning(form):
            continue
        try:
            found = called(form)
        except UserError as error:
            if not may_refuse(form):
                wrong.append(f"{form}: refused: {error}")
            continue
        wrong += [f"{form}: {fault}" for fault in judged(form, found)]
    assert not wrong, "\n".join(wrong[:12])


PIECES = 24


@pytest.mark.drawn(3)
@pytest.mark.parametrize("piece", range(PIECES))
def test_machine_code_gives_the_values_of_its_meaning(piece: int):
    """Many functions are one program, as compiling costs the most."""
    forms = [f for name in KNOWN[piece::PIECES] for f in forms_of(name)]
    forms = [f for f in forms if f.arrays and f.name not in ("from_dlpack",)]
    staged = dlvm.function(
        lambda operands: [f.on(f.call, a) for f, a in zip(forms, operands, strict=True)]
    )
    wrong: list[str] = []
    for seed, beyond in [(None, False), *itertools.product(SEEDS, (False, True))]:
        some = [f if seed is None else drawn_from(f, special(f, beyond), seed) for f in forms]
        for form, found in zip(some, staged([list(f.arrays) for f in some]), strict=True):
            if has_meaning(form):
                wrong += [
                    f"{form}: {x}" for x in judged(form, [np.asarray(r) for r in leaves(found)])
                ]
    assert not wrong, "\n".join(wrong[:12])


def as_numpy_counts(x: object) -> object:
    """Python's whole numbers, however deep, as NumPy computes them."""
    if isinstance(x, list | tuple):
        return type(x)(map(as_numpy_counts, x))
    return np.int64(x) if isinstance(x, int) and not isinstance(x, bool) else x


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", KNOWN)
def test_counts_may_be_whole_numbers_of_numpys(name: str, interpreted: None):
    """An axis, a size or a number of repetitions that NumPy has computed is one like any other."""
    for form in forms_of(name):
        given = inspect.signature(form.call).bind(*form.args, **form.options)
        parameters = inspect.signature(form.call).parameters
        plain = [np.asarray(r) for r in leaves(form.call(*given.args, **given.kwargs))]
        for key, value in given.arguments.items():
            kind = kinds._declared(name, parameters[key])
            if kind in kinds.COUNTED and parameters[key].kind not in kinds.VARIADIC:
                given.arguments[key] = as_numpy_counts(value)
        found = [np.asarray(r) for r in leaves(form.call(*given.args, **given.kwargs))]
        for a, b in zip(plain, found, strict=True):
            assert a.dtype == b.dtype and np.array_equal(a, b, equal_nan=a.dtype.kind == "f"), form


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", KNOWN)
@pytest.mark.filterwarnings("ignore:vmap_lambda compiles for the hundredth time")
def test_a_batch_is_its_rows(name: str, interpreted: None):
    for form in forms_of(name):
        if not form.has_floats or name in ("from_dlpack",):
            continue
        other = form.each(lambda a: a[..., ::-1] * 0.5 if a.ndim else a * 0.5)
        if name in IN_ORDER:
            other = form.each(lambda a: a * 0.5)
        batch = dlvm.vmap(lambda *a, f=form: f.on(f.call, a))
        found = leaves(batch(*(np.stack(p) for p in zip(form.arrays, other.arrays, strict=True))))
        rows = [called(form), called(other)]
        for k, x in enumerate(found):
            x = np.asarray(x)
            for i, row in enumerate(rows):
                np.testing.assert_allclose(x[i], row[k], rtol=1e-12, atol=1e-14, err_msg=str(form))


# -- derivatives ----------------------------------------------------------------------------------

LEAVES = {getattr(cls, "public", "") or name for name, cls in OPS.items()}
"""Names that are one operation, whose derivatives ``tests/ad/test_leaves.py`` tries as well."""
SLOPED = [
    pytest.param(n, marks=pytest.mark.drawn(9 if n in LEAVES else 3))
    for n in CALLED
    if n not in NO_SLOPE
]


def sloped(name: str) -> list[Form]:
    return [f for f in forms_of(name) if slopes.has_slopes(f)]


@pytest.mark.parametrize("name", SLOPED)
def test_derivatives_to_second_order_forwards_and_backwards(
    name: str, interpreted: None, in_depth: bool
):
    """To first order of all forms; the first form of a third of the names to second order."""
    forms = sloped(name)
    for form in forms:
        call, floats = slopes.of_floats(form)
        if not CONSTANT.isdisjoint((name, str(form))):
            assert not any(np.any(g) for g in slopes.gradient(form, 1)(form)), str(form)
        else:
            order = 2 if LONG or (in_depth and form is forms[0]) else 1
            gradcheck(call, *floats, order=order, compiled=LONG)


PLACES = ((1.0, FLOATS[1]), (1e-4, FLOATS[1]), (20.0, FLOATS[1]), (1.0, BF16))
PLACES += ((1e-4, BF16), (20.0, BF16)) if LONG else ()


def slope_beside(name: str) -> float:
    """Beside which number the error of a second derivative is small, as its class says or we do."""
    names = {cls.public or n: cls for n, cls in OPS.items() if issubclass(cls, Elementwise)}
    return SLOPES_BESIDE.get(name, bool(name in names and names[name].saturates))


@pytest.mark.filterwarnings("ignore:.*computes in f64:dlvm.TraceWarning")
@pytest.mark.parametrize("name", SLOPED)
def test_derivatives_keep_the_digits_of_their_type(name: str, interpreted: None, in_depth: bool):
    wrong: list[str] = []
    orders = (1, 2) if LONG or in_depth else (1,)
    for form, order in itertools.product(sloped(name)[: None if LONG else 1], orders):
        of = slopes.gradient(form, order)
        for factor, dtype in PLACES:
            near = form.each(lambda a, by=factor, t=dtype: (a * by).astype(t))
            wide = near.each(lambda a: a.astype(np.float64))
            middle = of(wide)
            if not all(np.all(np.isfinite(m)) for m in middle):
                continue
            allowed = values.bounds(wide, middle, of, dtype)
            beside = max(name in BESIDE_ONE, slope_beside(name) if order == 2 else 0)
            allowed = [slack(beside, a, middle, dtype) for a in allowed]
            found = of(near)
            wrong += [f"{near} order {order}: {x}" for x in values.faults(found, middle, allowed)]
    assert not wrong, "\n".join(wrong[:12])


def slack(
    beside: float, allowed: np.ndarray, middle: list[np.ndarray], dtype: np.dtype
) -> np.ndarray:
    """Cotangents are rounded where they are added, in units of the largest of them."""
    largest = max((float(np.max(np.abs(m), initial=0.0)) for m in middle), default=0.0)
    return allowed + 4 * values.last_place(dtype) * max(largest, beside)
