"""Recurrent networks: one step each, and whole sequences as one loop.

Equations and the order of gates are PyTorch's. Weights are transposed as those of ``dense``:
``w_ih`` is (in, gates * H), ``w_hh`` (H, gates * H), and biases, of which None is 0, are
(gates * H). Sequences are (..., T, in), as ``batch_first`` of PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dlvm.base.errors import ShapeError, UserError
from dlvm.dsl.arrays.creation import below
from dlvm.dsl.elements.eager import exported
from dlvm.dsl.flow.loops import scan
from dlvm.dsl.trace.operands import plain, shape_of, shown_shape
from dlvm.dsl.trace.scopes import user_origin
from dlvm.dsl.words.namespace import xp
from dlvm.ir import Dim

from .activations import relu

Shape = tuple[Dim, ...]
Step = Callable[[Any, Any], Any]
"""From the input's share of all gates and the state: the next state."""
ACTIVATIONS: dict[str, Callable[[Any], Any]] = {"tanh": xp.tanh, "relu": relu}


@exported("nn.rnn_cell")
def rnn_cell(
    x: Any,
    h: Any,
    w_ih: Any,
    w_hh: Any,
    b_ih: Any = None,
    b_hh: Any = None,
    nonlinearity: str = "tanh",
) -> Any:
    """``tanh(x @ w_ih + b_ih + h @ w_hh + b_hh)``, or ``relu`` of it."""
    _check("rnn_cell", 1, x, w_ih, w_hh)
    return _rnn(w_hh, b_hh, nonlinearity)(_plus(xp.matmul(x, w_ih), b_ih), h)


@exported("nn.gru_cell")
def gru_cell(x: Any, h: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None) -> Any:
    """``(1 - z) * n + z * h`` of the gates r, z, n, with ``n = tanh(x_n + r * h_n)``.

    ``x_g`` and ``h_g`` are the shares of ``x @ w_ih + b_ih`` and ``h @ w_hh + b_hh`` for a gate g;
    r and z are ``sigmoid(x_g + h_g)``.
    """
    _check("gru_cell", 3, x, w_ih, w_hh)
    return _gru(w_hh, b_hh)(_plus(xp.matmul(x, w_ih), b_ih), h)


@exported("nn.lstm_cell")
def lstm_cell(
    x: Any, state: tuple[Any, Any], w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None
) -> tuple[Any, Any]:
    """The next ``(h, c)``: ``c = f * c + i * g`` and ``h = o * tanh(c)`` of the gates i, f, g, o.

    The gates are shares of ``x @ w_ih + b_ih + h @ w_hh + b_hh``: g by ``tanh``, others by
    ``sigmoid``.
    """
    _check("lstm_cell", 4, x, w_ih, w_hh)
    return _lstm(w_hh, b_hh)(_plus(xp.matmul(x, w_ih), b_ih), _pair("lstm_cell", state))


@exported("nn.rnn")
def rnn(
    xs: Any,
    w_ih: Any,
    w_hh: Any,
    b_ih: Any = None,
    b_hh: Any = None,
    state: Any = None,
    *,
    nonlinearity: str = "tanh",
    reverse: bool = False,
    lengths: Any = None,
) -> tuple[Any, Any]:
    """``rnn_cell`` at each step of sequences (..., T, in): all h, (..., T, H), and the last.

    ``state`` is the h to begin with, zeros if it is None; ``reverse`` begins at the end.
    Of each sequence the first ``lengths`` (...) steps count: the state stays as it is in the
    others, and their h are 0, as of PyTorch's packed sequences.
    """
    inputs = _inputs("rnn", 1, xs, w_ih, w_hh, b_ih)
    h = _zeros(inputs, w_hh) if state is None else state
    return _run(_rnn(w_hh, b_hh, nonlinearity), inputs, h, reverse, lengths)


@exported("nn.gru")
def gru(
    xs: Any,
    w_ih: Any,
    w_hh: Any,
    b_ih: Any = None,
    b_hh: Any = None,
    state: Any = None,
    *,
    reverse: bool = False,
    lengths: Any = None,
) -> tuple[Any, Any]:
    """``gru_cell`` at each step of sequences (..., T, in): all h, (..., T, H), and the last.

    ``state`` is the h to begin with, zeros if it is None; ``reverse`` begins at the end.
    Of each sequence the first ``lengths`` (...) steps count: the state stays as it is in the
    others, and their h are 0, as of PyTorch's packed sequences.
    """
    inputs = _inputs("gru", 3, xs, w_ih, w_hh, b_ih)
    h = _zeros(inputs, w_hh) if state is None else state
    return _run(_gru(w_hh, b_hh), inputs, h, reverse, lengths)


@exported("nn.lstm")
def lstm(
    xs: Any,
    w_ih: Any,
    w_hh: Any,
    b_ih: Any = None,
    b_hh: Any = None,
    state: Any = None,
    *,
    reverse: bool = False,
    lengths: Any = None,
) -> tuple[Any, tuple[Any, Any]]:
    """``lstm_cell`` at each step of sequences (..., T, in): all h, (..., T, H), and the last state.

    ``state`` is the ``(h, c)`` to begin with, zeros if it is None; ``reverse`` begins at the end.
    Of each sequence the first ``lengths`` (...) steps count: the state stays as it is in the
    others, and their h are 0, as of PyTorch's packed sequences.
    """
    inputs = _inputs("lstm", 4, xs, w_ih, w_hh, b_ih)
    start = (_zeros(inputs, w_hh),) * 2 if state is None else _pair("lstm", state)
    return _run(_lstm(w_hh, b_hh), inputs, start, reverse, lengths)


def _rnn(w_hh: Any, b_hh: Any, nonlinearity: str) -> Step:
    if nonlinearity not in ACTIVATIONS:
        raise UserError(
            f"rnn: expected a nonlinearity among {', '.join(ACTIVATIONS)}, found {nonlinearity!r}",
            origin=user_origin(),
            remedy='pass nonlinearity="tanh"',
        )
    activation = ACTIVATIONS[nonlinearity]
    return lambda inputs, h: activation(inputs + _plus(xp.matmul(h, w_hh), b_hh))


def _gru(w_hh: Any, b_hh: Any) -> Step:
    def step(inputs: Any, h: Any) -> Any:
        (xr, xz, xn), (hr, hz, hn) = (_gates(v, 3) for v in (inputs, _plus(h @ w_hh, b_hh)))
        z = xp.sigmoid(xz + hz)
        return (1 - z) * xp.tanh(xn + xp.sigmoid(xr + hr) * hn) + z * h

    w_hh = xp.asarray(w_hh)
    return lambda inputs, h: step(inputs, xp.asarray(h))


def _lstm(w_hh: Any, b_hh: Any) -> Step:
    def step(inputs: Any, state: tuple[Any, Any]) -> tuple[Any, Any]:
        h, c = state
        i, f, g, o = _gates(inputs + _plus(xp.matmul(h, w_hh), b_hh), 4)
        c = xp.sigmoid(f) * c + xp.sigmoid(i) * xp.tanh(g)
        return xp.sigmoid(o) * xp.tanh(c), c

    return step


def _run(step: Step, inputs: Any, state: Any, reverse: bool, lengths: Any) -> tuple[Any, Any]:
    """All h and the last state of a loop over the last axis but one of the inputs' shares."""
    paired = isinstance(state, tuple)

    def body(state: Any, now: Any) -> tuple[Any, Any]:
        after = step(now, state)
        return after, after[0] if paired else after

    def counted(state: Any, now: tuple[Any, Any]) -> tuple[Any, Any]:
        share, counts = now
        after, h = body(state, share)
        pairs = zip(after, state, strict=True) if paired else ((after, state),)
        kept = tuple(xp.where(counts, new, old) for new, old in pairs)
        return kept if paired else kept[0], xp.where(counts, h, 0)

    steps = xp.moveaxis(inputs, -2, 0)
    if lengths is None:
        last, all_h = scan(body, state, steps, reverse=reverse)
    else:
        counts = _counts(shape_of(plain(inputs)), lengths)
        last, all_h = scan(counted, state, (steps, counts), reverse=reverse)
    return xp.moveaxis(all_h, 0, -2), last


def _counts(shape: Shape, lengths: Any) -> Any:
    """Which steps of sequences (..., T, gates * H) count, as (T, ..., 1)."""
    given = shape_of(plain(lengths))
    if given != shape[:-2]:
        raise ShapeError(
            f"lengths: expected one for each sequence, of shape {shown_shape(shape[:-2])}, found "
            f"{shown_shape(given)}",
            origin=user_origin(),
            remedy="pass the number of steps of each sequence that count",
        )
    counts = xp.less(below(shape[-2]), xp.expand_dims(lengths, -1))
    return xp.expand_dims(xp.moveaxis(counts, -1, 0), -1)


def _inputs(name: str, gates: int, xs: Any, w_ih: Any, w_hh: Any, b_ih: Any) -> Any:
    """The inputs' share of the gates of all steps, as one product."""
    _check(name, gates, xs, w_ih, w_hh)
    if len(shape := shape_of(plain(xs))) < 2:
        raise ShapeError(
            f"{name}: expected sequences of shape (..., T, in), found {shown_shape(shape)}",
            origin=user_origin(),
            remedy=f"{name}_cell takes a single step",
        )
    return _plus(xp.matmul(xs, w_ih), b_ih)


def _zeros(inputs: Any, w_hh: Any) -> Any:
    """The first state: zeros of the type that the gates have."""
    shape = shape_of(plain(inputs))
    return xp.zeros((*shape[:-2], shape_of(plain(w_hh))[0]), dtype=inputs.dtype)


def _plus(x: Any, b: Any) -> Any:
    return x if b is None else xp.add(x, b)


def _gates(x: Any, count: int) -> Any:
    """The shares of each gate, along the last axis."""
    size = shape_of(plain(x))[-1] // count
    return [x[..., k * size : (k + 1) * size] for k in range(count)]


def _pair(name: str, state: Any) -> tuple[Any, Any]:
    try:
        h, c = state
    except (TypeError, ValueError):
        raise UserError(
            f"{name}: expected the state (h, c), found {state!r:.60}",
            origin=user_origin(),
            remedy="pass a tuple of two arrays",
        ) from None
    return h, c


def _check(name: str, gates: int, x: Any, w_ih: Any, w_hh: Any) -> None:
    """The weights are (in, gates * H) and (H, gates * H)."""
    given, taken, kept = (shape_of(plain(v)) for v in (x, w_ih, w_hh))
    fits = given and len(taken) == len(kept) == 2 and taken[1] == kept[1] == kept[0] * gates
    if not fits or given[-1] != taken[0]:
        raise ShapeError(
            f"{name}: expected x (..., in), w_ih (in, {gates} * H) and w_hh (H, {gates} * H), "
            f"found {shown_shape(given)}, {shown_shape(taken)} and {shown_shape(kept)}",
            origin=user_origin(),
            remedy="PyTorch's weights are transposed: pass weight_ih.T and weight_hh.T"
            if given[-1:] == taken[1:]
            else "give w_ih one row for each number of x, and w_hh one for each of h",
        )
