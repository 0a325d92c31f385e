"""The kinds of arguments that public functions declare, in one table.

A parameter declares its kind by its annotation, or by its name where the annotation says ``Any``.
A call that succeeds is not checked. When Python or NumPy fail inside of a public call, the
arguments are compared with their kinds: an argument of another kind is the caller's mistake, and if
all of them fit, the failure is a bug in dlvm.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dlvm.base.errors import CallError
from dlvm.ir import TAPE, Expr, dtype_of

from .operands import known_dtype, plain
from .scopes import is_array
from .sizes import Size
from .tensor import Tensor

LARGEST = 1 << 63


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of argument: its name in messages, an example, and a test for it."""

    said: str
    example: str
    holds: Callable[[Any], bool]

    def fits(self, x: Any) -> bool:
        """Whether something is of this kind; an object that fails when asked is not."""
        try:
            return self.holds(x)
        except Exception:
            return False


def _is_operand(x: Any) -> bool:
    given = plain(x)
    if isinstance(given, Tensor | Expr):
        return True
    if isinstance(given, int | float):
        return abs(given) < LARGEST or isinstance(given, float)
    return dtype_of(given) not in (None, TAPE) and given.dtype.isnative


def _is_index(x: Any) -> bool:
    if isinstance(x, Size | Expr):
        return True
    return not isinstance(x, bool | np.bool_ | Tensor) and abs(operator.index(x)) < LARGEST


def _are(holds: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """Whether something is a list or tuple whose elements all pass the test."""
    return lambda x: isinstance(x, list | tuple) and all(map(holds, x))  # pyright: ignore[reportUnknownArgumentType]


def _is_dtype(x: Any) -> bool:
    return known_dtype(x) is not None  # pyright: ignore[reportUnnecessaryComparison]


def _is_number(x: Any) -> bool:
    return isinstance(x, Tensor | Size | Expr) or float(x) == float(x) or True


def _is_known(x: Any, kinds: str) -> bool:
    if isinstance(x, Size | Expr):
        return True
    return isinstance(x, int | np.generic | list | tuple | np.ndarray) and (
        np.asarray(x).dtype.kind in kinds  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
    )


def _or(first: Kind, holds: Callable[[Any], bool], said: str) -> Kind:
    return Kind(f"{first.said}{said}", first.example, lambda x: first.fits(x) or holds(x))


OPERAND = Kind("an array or a number", "np.ones(3)", _is_operand)
INDEX = Kind("a whole number", "1", _is_index)
AXIS = _or(INDEX, _are(_is_index), " or a tuple of such")
PAIRED = _or(AXIS, _are(_are(_is_index)), ", or a pair of tuples")
AXES = Kind("a tuple of whole numbers", "(1, 0)", _are(_is_index))
SHAPE = Kind("a tuple of sizes", "(2, 3)", lambda x: INDEX.fits(x) or AXES.fits(x))
DTYPE = Kind("an element type", "dlvm.float32", _is_dtype)
DTYPES = Kind(
    "an element type, a name of a kind of them, or a tuple of such",
    '"real floating"',
    lambda x: isinstance(x, str | tuple) or (not isinstance(x, list) and DTYPE.fits(x)),
)
TRUTH = Kind("True or False", "True", lambda x: isinstance(x, bool | np.bool_))
TEXT = Kind("text", '"name"', lambda x: isinstance(x, str))
NUMBER = Kind("a number", "0.5", _is_number)
SCALES = _or(NUMBER, _are(_is_number), " or a tuple of such")
ORDER = _or(NUMBER, lambda x: isinstance(x, str), " or text")
CASTS = ("no", "equiv", "safe", "same_kind", "unsafe")
CASTING = Kind("one of NumPy's rules for casts", '"safe"', lambda x: x in CASTS)
STEPS = _or(INDEX, lambda x: isinstance(x, bool), ", or True or False")
COUNTS = Kind(
    "whole numbers or truths that are known while tracing",
    "2",
    lambda x: _is_known(x, "biu"),
)
WHOLE = Kind(
    "a whole number or whole numbers that are known while tracing",
    "2",
    lambda x: _is_known(x, "iu"),
)
PAIR = Kind("a pair of numbers", "(0.0, 1.0)", lambda x: len(x) == 2 and all(map(NUMBER.fits, x)))
TEXTS = _or(TEXT, _are(lambda n: isinstance(n, str)), " or a tuple of such")
SIZES = Kind(
    "a dict from names of axes to whole numbers",
    '{"data": 2}',
    lambda x: isinstance(x, Mapping) and all(map(_is_index, x.values())),  # pyright: ignore[reportUnknownArgumentType]
)
FUNCTION = Kind("a function", "lambda x: x", callable)
FUNCTIONS = Kind("a list of functions", "[f, g]", _are(callable))
COUNTED = (INDEX, AXIS, PAIRED, AXES, SHAPE, WHOLE, COUNTS)
OPERANDS = Kind(
    "a list of arrays",
    "[x, y]",
    lambda x: (
        _are(_is_operand)(x)
        or ((is_array(x) or isinstance(x, Tensor)) and x.ndim > 0 and _is_operand(x))
    ),
)
NAMES = Kind(
    "names or positions of parameters",
    '"x"',
    lambda x: isinstance(x, int | str) or _are(lambda n: isinstance(n, int | str))(x),
)
TREE = Kind(
    "a structure of tree.structure", "dlvm.tree.structure(x)", lambda x: hasattr(x, "unflatten")
)
TUPLE = Kind("a tuple, one for each argument", "(x,)", lambda x: isinstance(x, list | tuple))
STATE = _or(OPERAND, _are(_is_operand), " or a tuple of such")
FACTOR = Kind(
    "the pair that cho_factor gives",
    "dlvm.linalg.cho_factor(x)",
    lambda x: len(x) == 2 and _is_operand(x[0]) and bool(x[1]) in (True, False),
)
LAYOUT = Kind(
    "the name of a layout, or a tuple of orders of axes",
    '"channels_last"',
    lambda x: isinstance(x, str | tuple),
)
PADDING = _or(
    TEXT,
    lambda x: AXIS.fits(x) or _are(AXIS.fits)(x),
    ", a whole number, or a whole number or a pair of them for each axis",
)
LAST = Kind('"short" or "drop"', '"short"', lambda x: x in ("short", "drop"))
LIST = Kind("a list", "[x, y]", lambda x: iter(x) is not None)
LAYERS = Kind("a list of layers and functions", "[dlvm.nn.relu]", LIST.holds)
PARAMETERS = Kind(
    "a dict of parameters", '{"out": {"kernel": w}}', lambda x: isinstance(x, Mapping)
)

ANNOTATED = {
    "int": INDEX,
    "bool": TRUTH,
    "str": TEXT,
    "float": NUMBER,
    "Body": FUNCTION,
    "Fun": FUNCTION,
    **dict.fromkeys(("Callable[P, R]", "Callable[P, Any]"), FUNCTION),
    "Callable[..., Any]": FUNCTION,
    "Callable[[Any], Any]": FUNCTION,
    "Callable[[Any, Any], Any]": FUNCTION,
    "forms.IsLeaf": _or(FUNCTION, lambda x: x is None, ", or None"),
    "Sequence[Body]": FUNCTIONS,
    "Mapping[str, Callable[..., Any]]": Kind(
        "a dict of functions", '{"f": f}', lambda x: isinstance(x, Mapping)
    ),
    "Iterable[str]": Kind("names", '["w", "b"]', lambda x: iter(x) is not None),
    "Names": NAMES,
    "Sequence[str] | str": TEXTS,
    "Sequence[str]": TEXTS,
    "Literal['short', 'drop']": LAST,
    "Positions": NAMES,
    "Spec": TREE,
    "Mapping[str, Any]": PARAMETERS,
    "Sequence[int]": AXES,
    "float | str": ORDER,
    "int | Sequence[int]": AXIS,
    "int | bool": STEPS,
}
"""Kinds by annotation; ``| None`` after one of them allows None as well."""
NAMED = {
    **dict.fromkeys(("axis", "axes", "axis1", "axis2", "source", "destination", "shift"), AXIS),
    **dict.fromkeys(("shape", "shapes", "repetitions", "reps", "dims", "window_shape"), SHAPE),
    **dict.fromkeys(("dtype", "from_", "to"), DTYPE),
    **dict.fromkeys(("arrays", "condlist", "choicelist"), OPERANDS),
    **dict.fromkeys(("alpha", "negative_slope"), OPERAND),
    **dict.fromkeys(("a_min", "a_max", "min", "max", "nan", "posinf", "neginf"), OPERAND),
    **dict.fromkeys(("rtol", "atol", "rcond", "tol", "dx", "decimals", "constant_values"), OPERAND),
    **dict.fromkeys(("indices_or_sections", "pad_width", "repeats"), WHOLE),
    "obj": COUNTS,
    "histogram.range": PAIR,
    "mesh.axes": SIZES,
    "isdtype.kind": DTYPES,
    "tensordot.axes": PAIRED,
    **dict.fromkeys(("arange.start", "arange.stop", "arange.step"), NUMBER),
    **dict.fromkeys(("eye.m", "tri.m"), INDEX),
    "random.split.num": SHAPE,
    **dict.fromkeys(("random.truncated_normal.lower", "random.truncated_normal.upper"), OPERAND),
    **dict.fromkeys(("cov", "lam", "df"), OPERAND),
    "multi_index": OPERANDS,
    "casting": CASTING,
    "layout": LAYOUT,
    "layers": LAYERS,
    "leaves": LIST,
    **dict.fromkeys(("padding", "output_padding"), PADDING),
    **dict.fromkeys(("window", "stride", "dilation", "input_dilation"), AXIS),
    "ord": ORDER,
    "trans": ORDER,
    "linalg.cho_solve.factor": FACTOR,
    "linalg.spectral.f": FUNCTION,
    **dict.fromkeys(("wrt", "nondiff_args", "static", "donate"), NAMES),
    **dict.fromkeys(("jvp.primals", "jvp.tangents"), TUPLE),
    **dict.fromkeys(("x", "y", "a", "b", "v", "p", "q", "xp", "fp", "m", "values", "new"), OPERAND),
    **dict.fromkeys(("where", "condition", "elements", "indices", "weights", "bins"), OPERAND),
    **dict.fromkeys(("logits", "labels", "initial", "fill_value", "key", "pred"), OPERAND),
    **dict.fromkeys(("start", "stop", "step", "minval", "maxval", "left", "right"), OPERAND),
    **dict.fromkeys(("a1", "a2", "z", "append", "prepend", "default", "data"), OPERAND),
    **dict.fromkeys(("seed", "gradient.f", "spacing", "base", "switch.index"), OPERAND),
    **dict.fromkeys(("w", "scale", "bias", "mean", "var", "momentum", "rate", "mask"), OPERAND),
    **dict.fromkeys(("query", "value", "table", "ids", "positions", "h"), OPERAND),
    **dict.fromkeys(("w_ih", "w_hh", "b_ih", "b_hh", "weight", "pos_weight"), OPERAND),
    **dict.fromkeys(("predictions", "log_predictions", "targets"), OPERAND),
    **dict.fromkeys(("logit_paddings", "label_paddings", "class_weights"), OPERAND),
    "state": STATE,
    **dict.fromkeys(("lengths", "query_seq_lengths", "key_value_seq_lengths"), OPERAND),
    "local_window_size": AXIS,
    **dict.fromkeys(("output_size", "nn.interpolate.size"), AXIS),
    "scale_factor": SCALES,
    **dict.fromkeys(("num", "n", "k", "kth", "ddof", "correction", "lower", "upper"), INDEX),
    **dict.fromkeys(("length", "axis_size"), INDEX),
    "memory": ORDER,
    "arrays_and_dtypes": _or(OPERAND, DTYPE.holds, " or an element type"),
    "operands": _or(TEXT, OPERAND.holds, ", an array or a number"),
}
"""Kinds by name, of parameters whose annotation does not say one; None is allowed if it is the
default."""
TREES = frozenset(("batches", "checkpoint_name", "stop_gradient", "tap", "print", "summary"))
"""Functions whose arguments are trees of arrays."""


def unlike(
    name: str, fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> CallError | None:
    """The error for the first argument that is not of the kind that its parameter declares."""
    for parameter, x in _pairs(fn, args, kwargs):
        kind = kind_of(name, parameter)
        if kind is not None and x is not parameter.default and not kind.fits(x):
            return CallError(
                f"{name}: {parameter.name}: expected {kind.said}, found {shown(x)}",
                remedy=f"give {parameter.name} {kind.said}, such as {kind.example}",
            )
    return None


def _pairs(
    fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Iterator[tuple[inspect.Parameter, Any]]:
    """Each parameter with its argument; nothing of a call that does not fit the signature."""
    signature = inspect.signature(fn)
    try:
        bound = signature.bind(*args, **kwargs).arguments
    except TypeError:
        return
    for name, given in bound.items():
        parameter = signature.parameters[name]
        if parameter.kind is parameter.VAR_POSITIONAL:
            yield from ((parameter, x) for x in given)
        elif parameter.kind is not parameter.VAR_KEYWORD:
            yield parameter, given


def kind_of(name: str, parameter: inspect.Parameter) -> Kind | None:
    """The kind that a parameter declares, if it declares one."""
    kind, written = _declared(name, parameter), str(parameter.annotation)
    if kind is not None and written in (f"{known} | None" for known in ANNOTATED):
        return _or(kind, lambda x: x is None, ", or None")
    many = parameter.kind is parameter.VAR_POSITIONAL
    return OPERAND if kind is OPERANDS and many else kind  # each of them is compared


def _declared(name: str, parameter: inspect.Parameter) -> Kind | None:
    """The kind of a parameter by its annotation or name, leaving aside whether it may be None."""
    kind = ANNOTATED.get(str(parameter.annotation).removesuffix(" | None"))
    if kind is None and name not in TREES:
        kind = NAMED.get(f"{name}.{parameter.name}") or NAMED.get(parameter.name)
    return kind


@functools.cache
def counted(name: str, fn: Callable[..., Any]) -> Mapping[str | int, None]:
    """The names and positions of parameters that are axes, sizes or other whole numbers."""
    found = dict[str | int, None]()
    for i, parameter in enumerate(inspect.signature(fn).parameters.values()):
        if _declared(name, parameter) in COUNTED and parameter.kind not in VARIADIC:
            found[parameter.name] = found[i] = None
    return found


@functools.cache
def takes_numbers(name: str, fn: Callable[..., Any]) -> Mapping[str | int, None]:
    """The names and positions of parameters for which a number stands for an array without axes."""
    found = dict[str | int, None]()
    for i, parameter in enumerate(inspect.signature(fn).parameters.values()):
        if _declared(name, parameter) in (OPERAND, STATE) and parameter.kind not in VARIADIC:
            found[parameter.name] = found[i] = None
    return found


VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def as_int(x: Any) -> Any:
    """A count in which whole numbers and 0-d arrays of NumPy's are whole numbers of Python's."""
    if type(x) in (list, tuple):
        return type(x)(map(as_int, x))
    if type(x) is np.ndarray and x.ndim == 0 and x.dtype.kind in "iu":
        return int(x)
    return int(x) if isinstance(x, np.integer) else x  # pyright: ignore[reportUnknownArgumentType]


def shown(x: Any) -> str:
    """An argument as messages show it, in few words."""
    if isinstance(x, Tensor):
        return f"the staged {x.describe()}"
    if is_array(x):
        return f"an array {x.dtype}{list(x.shape)}"
    with contextlib.suppress(Exception):
        text = " ".join(f"{x!r:.60}".split())
        return f"{text} of type {type(x).__name__}"
    return f"a {type(x).__name__}"
