"""Hypothesis strategies: arrays with edge values among them, shapes, and whole random programs.

They shrink: shapes to small ones, elements to 0, programs to fewer operations.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, TypeVar, cast

import numpy as np

from dlvm.base.errors import UserError
from dlvm.dsl.trace.scopes import user_origin
from dlvm.ir import DTYPES, Array, DType, Op, dtype_of
from dlvm.testing.drawing.random_programs import TRACED, WEIGHTED, Program, random_program

try:
    from hypothesis import strategies as st
except ImportError:
    raise UserError(
        "the strategies of dlvm.testing need Hypothesis, which is not installed",
        origin=user_origin(),
        remedy="pip install hypothesis, or draw with dlvm.testing.random_program(seed)",
    ) from None

T = TypeVar("T")
SIZES = (0, 1, 2, 3, 5, 7, 16, 17)
"""Sizes at which loops begin and end in different ways."""


def shapes(
    min_dims: int = 0, max_dims: int = 3, sizes: Sequence[int] = SIZES, max_elements: int = 1024
) -> st.SearchStrategy[tuple[int, ...]]:
    """Shapes of such sizes, 0 and 1 among them, that are not too large."""
    drawn = st.lists(st.sampled_from(list(sizes)), min_size=min_dims, max_size=max_dims)
    return drawn.map(tuple).filter(lambda shape: int(np.prod(shape, dtype=int)) <= max_elements)


def elements(
    dtype: Any, edges: bool = True, low: float | None = None, high: float | None = None
) -> st.SearchStrategy[Any]:
    """Elements of a type from ``low`` to ``high``: moderate ones, and edge values among them."""
    t = _dtype(dtype)
    if t.kind == "b":
        return st.booleans()
    least = low if low is not None else (0 if t.kind == "u" else -10)
    most = high if high is not None else 10
    some: st.SearchStrategy[Any] = (
        st.integers(int(np.ceil(least)), int(np.floor(most)))
        if t.is_integer
        else st.floats(least, most, width=cast(Any, min(max(t.bits, 16), 64)))
    )
    found = [e for e in _edges(t) if (low is None or e >= low) and (high is None or e <= high)]
    return some | st.sampled_from(found) if edges and found else some


def arrays(
    dtype: Any = "f64",
    shape: Any = None,
    *,
    edges: bool = True,
    low: float | None = None,
    high: float | None = None,
) -> st.SearchStrategy[Array]:
    """Arrays of a type, in NumPy's words or dlvm's (``"f32"``), or of one drawn from several.

    ``shape`` is a shape or a strategy of shapes. With ``edges`` zeros of both signs, infinities,
    NaN, the largest and the smallest numbers are among the elements, within ``low`` and ``high``.
    """
    types = [_dtype(d) for d in dtype] if isinstance(dtype, list | tuple) else [_dtype(dtype)]  # pyright: ignore[reportUnknownVariableType]
    wanted: Any = shapes() if shape is None else shape
    if not hasattr(wanted, "map"):  # it is a shape, not a strategy of shapes
        wanted = st.just(tuple(wanted))

    @st.composite
    def drawn(draw: Callable[..., Any]) -> Array:
        t, of = draw(st.sampled_from(types)), draw(wanted)
        count = int(np.prod(of, dtype=int))
        each = elements(t, edges, low, high)
        flat = draw(st.lists(each, min_size=min(count, 64), max_size=min(count, 64)))
        repeated = np.resize(np.array(flat, np.float64 if t.is_float else None), count)
        with np.errstate(all="ignore"):
            return np.asarray(repeated.astype(t.numpy)).reshape(of)

    return drawn()


def programs(
    classes: Collection[type[Op]] = TRACED,
    dtypes: Sequence[DType] = WEIGHTED,
    symbolic: bool = True,
    max_ops: int = 10,
    loss: bool = False,
    sizes: Sequence[int] = (),
) -> st.SearchStrategy[Program]:
    """Random well-typed modules with arguments: operations of these classes on these types.

    With ``symbolic`` some sizes are open; with ``loss`` the only result is one scalar of the first
    type. A program runs by ``program.run()``.
    """

    @st.composite
    def drawn(draw: Callable[..., Any]) -> Program:
        return random_program(Drawn(draw), classes, dtypes, symbolic, max_ops, loss, sizes)

    return drawn()


class Drawn:
    """Choices of a Hypothesis test."""

    def __init__(self, draw: Callable[[Any], Any]) -> None:
        self.draw = draw

    def choose(self, items: Collection[T]) -> T:
        """One of several."""
        return self.draw(st.sampled_from(list(items)))

    def integer(self, low: int, high: int) -> int:
        """A whole number from ``low`` to ``high``."""
        return self.draw(st.integers(low, high))


def _dtype(given: Any) -> DType:
    """An element type by dlvm's name, by NumPy's, or as it is."""
    if isinstance(given, DType):
        return given
    dtype = DTYPES.get(given) if isinstance(given, str) else None
    try:
        dtype = dtype or dtype_of(np.dtype(given))
    except TypeError:
        dtype = None
    if dtype is None or dtype.kind == "t":
        raise UserError(
            f"there is no element type {given!r}",
            origin=user_origin(),
            remedy=f"it can be {', '.join(n for n in DTYPES if n != 'tape')}, or a NumPy dtype",
        )
    return dtype


def _edges(t: DType) -> list[float]:
    """Edge values of functions and of number formats."""
    if t.is_integer:
        return [0, 1, int(t.highest), int(t.lowest)]
    ends = {"f64": (2.0**-1022, 2.0**1023), "f32": (2.0**-126, 2.0**127)}
    ends |= {"f16": (2.0**-14, 2.0**15), "bf16": (2.0**-126, 2.0**127)}
    small, large = ends[t.name]
    inf = float("inf")
    return [0.0, -0.0, 1.0, -1.0, small, -small, small / 2, large, -large, inf, -inf, float("nan")]
