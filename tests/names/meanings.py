"""What functions that NumPy lacks, or calls otherwise, mean: in NumPy's and mpmath's words alone.

The sweep calls them with extended precision, so that they tell which digits are right.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath as mp
import numpy as np

from tests import windows_by_loops

Call = Callable[..., Any]


def _exact(f: Callable[[Any], Any]) -> Call:
    """A function of one number, computed with 40 digits on each element."""

    def one(x: Any) -> Any:
        with mp.workdps(40):
            try:
                return np.longdouble(mp.nstr(mp.re(f(_number(x))), 25))
            except (ValueError, ZeroDivisionError, mp.libmp.NoConvergence):
                return np.longdouble("nan")

    def call(x: Any) -> Any:
        x = np.asarray(x)
        found = np.vectorize(one, otypes=[np.longdouble])(x)
        return found.astype(np.exp(np.zeros(0, x.dtype)).dtype)

    return call


def _number(x: Any) -> Any:
    return (
        mp.mpf(np.format_float_scientific(x, unique=False, precision=40))
        if np.isfinite(x)
        else mp.mpf(str(x))
    )


def _lgamma(x: Any) -> Any:
    pole = mp.isinf(x) or (x <= 0 and x == mp.floor(x))
    return mp.inf if pole else mp.log(abs(mp.gamma(x)))


def _digamma(x: Any) -> Any:
    return mp.inf if x == mp.inf else mp.psi(0, x) if x else mp.mpf("-inf")


def _erfinv(x: Any) -> Any:
    return mp.nan if abs(x) > 1 else mp.sign(x) * mp.inf if abs(x) == 1 else mp.erfinv(x)


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def _softplus(x: Any) -> Any:
    return np.logaddexp(x, np.zeros_like(x))


def _logsumexp(
    x: Any, axis: Any = None, keepdims: bool = False, initial: Any = None, where: Any = None
) -> Any:
    powers = (
        np.logaddexp.reduce(
            np.ravel(x) if axis is None else x,
            0 if axis is None else axis,
            keepdims=keepdims,
            initial=-np.inf,
            where=True if where is None else where,
        )
        if not isinstance(axis, tuple)
        else None
    )
    if powers is None:
        kept = [a for a in range(x.ndim) if a not in {b % x.ndim for b in axis}]
        powers = np.logaddexp.reduce(
            np.transpose(x, [*kept, *(b % x.ndim for b in axis)]).reshape(
                *(x.shape[a] for a in kept), -1
            ),
            -1,
            initial=-np.inf,
        )
    if axis is None and keepdims:
        powers = np.reshape(powers, (1,) * x.ndim)
    return powers if initial is None else np.logaddexp(powers, initial)


def _least(dtype: Any) -> Any:
    return False if dtype.kind == "b" else np.iinfo(dtype).min if dtype.kind in "iu" else -np.inf


def _most(dtype: Any) -> Any:
    return True if dtype.kind == "b" else np.iinfo(dtype).max if dtype.kind in "iu" else np.inf


def _running(ufunc: Any, start: Any) -> Call:
    def call(
        x: Any,
        axis: Any = None,
        reverse: bool = False,
        exclusive: bool = False,
        include_initial: bool = False,
    ) -> Any:
        axis = 0 if axis is None else axis
        x = np.flip(x, axis) if reverse else x
        x = np.asarray(
            x, x.dtype if ufunc in (np.maximum, np.minimum) else ufunc.accumulate(x[:0]).dtype
        )
        size = [1 if i == axis % x.ndim else d for i, d in enumerate(x.shape)]
        first = np.full(size, start(x.dtype) if callable(start) else start, x.dtype)
        found = ufunc.accumulate(np.concatenate([first, x], axis), axis)
        if not include_initial:
            keep = range(x.shape[axis]) if exclusive else range(1, x.shape[axis] + 1)
            found = np.take(found, keep, axis)
        return np.flip(found, axis) if reverse else found

    return call


def _recurrence(
    a: Any, b: Any, axis: int = -1, reverse: bool = False, exclusive: bool = False
) -> Any:
    a, b = (np.moveaxis(v, axis, 0) for v in np.broadcast_arrays(a, b))
    out, state = np.empty_like(b), np.zeros_like(b[0]) if len(b) else 0
    for i in reversed(range(len(b))) if reverse else range(len(b)):
        after = a[i] * state + b[i]
        out[i] = state if exclusive else after
        state = after
    return np.moveaxis(out, 0, axis)


def _top_k(x: Any, k: int, axis: int = -1) -> Any:
    axis = axis % x.ndim
    order = np.argsort(~x if x.dtype.kind in "biu" else -x, axis, kind="stable")
    places = np.take(order, range(k), axis)
    return np.take_along_axis(x, places, axis), places


def _sorted(call: Call) -> Call:
    def sort(x: Any, axis: Any = -1, descending: bool = False) -> Any:
        key = np.asarray(x)
        if descending:
            key = ~key if key.dtype.kind in "biu" else -key
        order = np.argsort(key, axis, kind="stable")
        return order if call is np.argsort else np.take_along_axis(x, order, axis)

    return sort


def _softmax(x: Any, axis: int = -1) -> Any:
    powers = np.exp(x - np.max(x, axis, keepdims=True))
    return powers / np.sum(powers, axis, keepdims=True)


def _log_softmax(x: Any, axis: int = -1) -> Any:
    rest = x - np.max(x, axis, keepdims=True)
    return rest - np.log(np.sum(np.exp(rest), axis, keepdims=True))


def _cross_entropy(x: Any, labels: Any, axis: int = -1) -> Any:
    picked = np.take_along_axis(_log_softmax(x, axis), np.expand_dims(labels, axis), axis)
    return -np.squeeze(picked, axis)


def _one_hot(x: Any, n: int, axis: int = -1) -> Any:
    return np.moveaxis((x[..., None] == np.arange(n)).astype(float), -1, axis)


def _elu(x: Any, alpha: float = 1.0) -> Any:
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))


def _gelu(x: Any, approximate: bool = True) -> Any:
    if not approximate:
        return _exact(lambda v: v * mp.ncdf(v) if mp.isfinite(v) else (v if v > 0 else mp.nan))(x)
    two = np.asarray(2, np.exp(x).dtype)
    inner = 2 * np.sqrt(two / np.pi) * (x + 0.044715 * x**3)
    return x * _sigmoid(inner)


def _transposed(x: Any, w: Any, transpose_kernel: bool = True, **options: Any) -> Any:
    return windows_by_loops.conv_transpose(x, w, **options)


def _relu6(x: Any) -> Any:
    return np.minimum(np.maximum(x, 0), 6)


def _unstack(x: Any, axis: int = 0) -> Any:
    return tuple(np.moveaxis(x, axis, 0))


def _norm(x: Any, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Any:
    return np.linalg.vector_norm(x, axis=axis, keepdims=keepdims, ord=ord)


def _multi_dot(arrays: Any) -> Any:
    found = arrays[0]
    for x in arrays[1:]:
        found = found @ x
    return found


def _matrix_power(x: Any, n: int) -> Any:
    x, n = (np.linalg.inv(x), -n) if n < 0 else (x, n)
    found = np.broadcast_to(np.eye(x.shape[-1], dtype=x.dtype), x.shape)
    for _ in range(n):
        found = found @ x
    return found


_digammas = _exact(_digamma)


def _polygamma(n: int, x: Any) -> Any:
    def one(v: Any) -> Any:
        if v <= 0 and v == mp.floor(v):
            return mp.inf if n % 2 else mp.nan
        return mp.nan if v == -mp.inf else mp.psi(n, v)

    return _digammas(x) if n == 0 else _exact(one)(x)


SELU = 1.0507009873554804934193349852946


def _quantile(numpys: Call) -> Call:
    """NumPy's place among the elements in order; an infinite neighbour decides what lies between.

    The places are what NumPy's function itself says of the numbers 0, 1, 2 and so on.
    """

    def call(
        x: Any, q: Any, axis: Any = None, method: str = "linear", keepdims: Any = False
    ) -> Any:
        found = numpys(x, q, axis=axis, method=method, keepdims=keepdims)
        rows = np.sort(np.ravel(x) if axis is None else np.moveaxis(np.asarray(x), axis, -1))
        if not rows.size or rows.dtype.kind not in "fV":
            return found
        rows = np.where(np.isnan(rows[..., -1:]), np.nan, rows)
        place = np.asarray(numpys(np.arange(rows.shape[-1]), q, method=method))
        ends = (np.floor(place).astype(int), np.ceil(place).astype(int))
        low, high = (np.take(rows.T, i, 0).transpose(_front(place.ndim, rows.ndim)) for i in ends)
        low, high = (np.reshape(e, np.shape(found)) for e in (low, high))
        wide = np.where(np.isinf(low) | np.isinf(high), low + high, found)
        return np.where(low == high, low, wide).astype(found.dtype)

    return call


def _front(places: int, rows: int) -> tuple[int, ...]:
    """The axes of the places as they are, then those of the rows, turned round again."""
    return (*range(places), *reversed(range(places, places + rows - 1)))


MEANINGS: dict[str, Call] = {
    "quantile": _quantile(np.quantile),
    "percentile": _quantile(np.percentile),
    "bitwise_left_shift": np.left_shift,
    "integer_power": np.power,
    "erf": _exact(mp.erf),
    "erfc": _exact(mp.erfc),
    "erfinv": _exact(_erfinv),
    "lgamma": _exact(_lgamma),
    "digamma": _digammas,
    "polygamma": _polygamma,
    "sigmoid": _sigmoid,
    "stop_gradient": np.copy,
    "logsumexp": _logsumexp,
    "cumulative_max": _running(np.maximum, _least),
    "cumulative_min": _running(np.minimum, _most),
    "cumulative_sum": _running(np.add, 0),
    "cumulative_prod": _running(np.multiply, 1),
    "cumulative_logsumexp": _running(np.logaddexp, -np.inf),
    "linear_recurrence": _recurrence,
    "top_k": _top_k,
    "sort": _sorted(np.sort),
    "argsort": _sorted(np.argsort),
    "partition": lambda x, kth, axis=-1: np.sort(x, axis),
    "argpartition": lambda x, kth, axis=-1: np.argsort(x, axis, kind="stable"),
    "bincount": lambda x, w=None, minlength=0, length=None: np.bincount(x, w, minlength),
    "sliding_window_view": np.lib.stride_tricks.sliding_window_view,
    "unstack": _unstack,
    "flatten": np.ravel,
    "expand_dims": lambda x, axis=0: np.expand_dims(x, axis),
    "clip": lambda x, min=None, max=None: np.clip(x, min, max),
    "tap": lambda x, name: x,
    "take": lambda x, i, axis=None, mode="raise": np.take(x, i, axis, mode=mode),
    "nn.conv": windows_by_loops.conv,
    "nn.conv_transpose": _transposed,
    "nn.max_pool": windows_by_loops.max_pool,
    "nn.avg_pool": windows_by_loops.avg_pool,
    "nn.adaptive_avg_pool": windows_by_loops.adaptive(np.mean),
    "nn.adaptive_max_pool": windows_by_loops.adaptive(np.max),
    "nn.interpolate": windows_by_loops.interpolate,
    "nn.relu": lambda x: np.maximum(x, 0),
    "nn.relu6": _relu6,
    "nn.leaky_relu": lambda x, slope=0.01: np.where(x < 0, x * slope, x),
    "nn.elu": _elu,
    "nn.celu": _elu,
    "nn.prelu": lambda x, w: np.where(x < 0, w * x, x),
    "nn.mish": lambda x: x * np.tanh(_softplus(x)),
    "nn.glu": lambda x, axis=-1: np.split(x, 2, axis)[0] * _sigmoid(np.split(x, 2, axis)[1]),
    "nn.selu": lambda x: SELU * _elu(x, 1.6732632423543772848170429916717),
    "nn.sigmoid": _sigmoid,
    "nn.log_sigmoid": lambda x: -_softplus(-x),
    "nn.softplus": _softplus,
    "nn.silu": lambda x: x * _sigmoid(x),
    "nn.swish": lambda x: x * _sigmoid(x),
    "nn.softsign": lambda x: x / (1 + np.abs(x)),
    "nn.gelu": _gelu,
    "nn.hard_tanh": lambda x: np.clip(x, -1, 1),
    "nn.hard_sigmoid": lambda x: _relu6(x + 3) / 6,
    "nn.hard_silu": lambda x: x * (_relu6(x + 3) / 6),
    "nn.softmax": _softmax,
    "nn.log_softmax": _log_softmax,
    "nn.cross_entropy": _cross_entropy,
    "nn.one_hot": _one_hot,
    "linalg.vector_norm": _norm,
    "linalg.multi_dot": _multi_dot,
    "linalg.matrix_power": _matrix_power,
}
