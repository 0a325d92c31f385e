"""Public functions on arguments that nobody chose: any shape, any element, any type.

The calls are those of ``tests.names``; their sizes, elements and types are drawn. Staged and
unstaged values are judged by NumPy's, and derivatives, where elements are ordinary, by differences.
"""

from __future__ import annotations

import random
import warnings
from pathlib import Path

import numpy as np

import dlvm
from dlvm.base.errors import UserError
from dlvm.testing import gradcheck
from tests.names import zero_d
from tests.names.forms import FLOATS, Form, forms_of, leaves, public_names
from tests.names.judging import called, has_meaning, judged, may_refuse
from tests.names.slopes import has_slopes, is_float, of_floats
from tests.names.table import CONSTANT, FINITE, IN_ORDER, LAYERS, NO_SLOPE, RANDOM, SILENT

from .judge import Wrong

SIZES = (0, 1, 1, 2, 3, 5, 7, 13, 17)
SPECIAL = (0.0, -0.0, 1.0, 1.0, -1.0, 2.0, 0.5, 1e-30, -1e4, 3.0)
BEYOND = (np.inf, -np.inf, np.nan)
LEFT_OUT = {*SILENT, *RANDOM, *LAYERS, *IN_ORDER, "from_dlpack"}
NAMES = [n for n in public_names() if n not in LEFT_OUT]


def drawn(rng: random.Random) -> tuple[Form, bool]:
    """A call of some function, and whether its elements are ordinary."""
    form = rng.choice(forms_of(rng.choice(NAMES)))
    sizes = {d: rng.choice((d, *SIZES)) for a in form.arrays for d in a.shape}
    ordinary, dtype = rng.random() < 0.4, rng.choice((FLOATS[0], *FLOATS))
    dice = np.random.default_rng(rng.getrandbits(32))
    scale = rng.choice((1.0, 1.0, 1e-3, 0.1, 10.0, 1e3))
    special = SPECIAL if form.name in FINITE or rng.random() < 0.5 else (*SPECIAL, *BEYOND)

    def new(a: np.ndarray) -> np.ndarray:
        shape = tuple(sizes[d] for d in a.shape)
        if not is_float(a):
            return np.resize(a, shape) if a.size else np.zeros(shape, a.dtype)
        if ordinary:
            return np.asarray(dice.permutation(np.resize(a, shape).ravel()).reshape(shape) * scale)
        return np.asarray(dice.choice(special, shape))

    form = form.of([new(a) for a in form.arrays])
    inside = ordinary and dtype == np.float64 and scale == 1.0  # of every domain
    return form.each(lambda a: a.astype(dtype)), inside


def judge(seed: int, current: Path) -> None:
    """Raise where a call of this seed is wrong."""
    form, ordinary = drawn(random.Random(seed))
    current.write_text(f"names {seed}: {form}\n", "utf8")
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        if has_meaning(form):
            _values(form)
            if ordinary and form.name not in NO_SLOPE and form.name not in CONSTANT:
                _slopes(form)
    _without_axes(random.Random(seed))


def _without_axes(rng: random.Random) -> None:
    """One parameter of the call given as an array without axes, staged or not."""
    form = rng.choice(forms_of(rng.choice(NAMES)))
    every = list(zero_d.variants(form))
    if not every:  # its parameters are all operands
        return
    said, changed = rng.choice(every)
    if wrong := zero_d.fault(said, changed, staged=rng.random() < 0.5):
        raise Wrong(wrong)


def _values(form: Form) -> None:
    """Outside of a trace, and in machine code."""
    try:
        found = called(form)
    except UserError:
        if may_refuse(form):
            return
        raise
    staged = dlvm.function(lambda *arrays: form.on(form.call, arrays))
    compiled = [np.asarray(r) for r in leaves(staged(*form.arrays))] if form.arrays else found
    for how, results in (("unstaged", found), ("staged", compiled)):
        if faults := judged(form, results):
            raise Wrong(f"{how} {form}: {faults[0]}")


def _slopes(form: Form) -> None:
    """By differences, where there is something to see."""
    if not has_slopes(form) or any(not a.size for a in form.arrays):
        return
    call, floats = of_floats(form)
    if any(np.unique(a).size != a.size for a in floats):
        return  # a tie, which has a convention of its own
    try:
        gradcheck(call, *floats, order=1, elements=8)
    except dlvm.testing.GradientError as error:
        if "could be checked" not in str(error):
            raise
