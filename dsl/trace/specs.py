"""Arguments of calls, and specifications that stand for them with a type alone."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from typing import Any

import numpy as np

from dlvm.base.elsewhere import Elsewhere
from dlvm.base.errors import CallError, IRError, NumberOutOfRange, ShapeError, TraceError, UserError
from dlvm.dsl.words.calling import BOUNDARIES, unfit
from dlvm.ir import BOOL, DTYPES, F64, I64, Array, Dim, TensorType, dtype_of
from dlvm.ir.sharding.mesh import Mesh, Sharding, shares
from dlvm.ir.sharding.sharded import Sharded
from dlvm.ir.text.line import Line, parse_sharded

from .configuration import exact_type
from .devices import on_a_device
from .facing import facing_users
from .scopes import is_array, ordinary, origin_in, type_of, user_origin
from .sharded import check_axes, check_mesh, shown_sharded
from .sizes import bare
from .tensor import Tensor
from .trees import Spec as Tree
from .trees import as_dataclass, labels, paths

EXAMPLE = 'write it as dlvm.spec("f32[B,784]")'


class Spec:
    """An argument given by its type alone: ``dlvm.spec("f32[B,784]")``.

    ``sharding`` is what shares its axes, of the mesh of the function.
    """

    __slots__ = ("sharding", "type")

    def __init__(self, t: TensorType, sharding: Sharding | None = None) -> None:
        self.type, self.sharding = t, sharding

    @property
    def shape(self) -> tuple[Dim, ...]:
        """The sizes along the axes."""
        return self.type.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's element type."""
        return self.type.dtype.numpy

    def __repr__(self) -> str:
        return f"spec({shown_sharded(self.type, self.sharding)!r})"


@facing_users
def spec(text: str) -> Spec:
    """The type of an argument as text, such as "f32[B,784]", for ``trace`` and ``compile``.

    In "f32[B@data,784]" the ranks along the axis ``data`` of a mesh share the rows, and those along
    two axes in "f32[B@data+model,784]"; ``dlvm.shard`` cuts an array like that.
    """
    if type(text) is not str:
        message = f"dlvm.spec takes a type as text, found {text!r:.40}"
        raise UserError(message, origin=user_origin(), remedy=EXAMPLE)
    line = Line(text, 1)
    try:
        found, sharding = parse_sharded(line)
        line.end()
    except IRError as error:
        raise unreadable(f"dlvm.spec({text!r}) is no type", text, error, EXAMPLE) from None
    return Spec(found, sharding)


def unreadable(said: str, text: str, error: IRError, remedy: str) -> UserError:
    """The mistake in a type or shape that a user wrote, in a few words."""
    reason = error.message.splitlines()[0].partition(": ")[2]
    word = text.partition("[")[0].strip() if said.startswith("dlvm.spec") else ""
    if text.count("[") > text.count("]"):
        reason = "the closing ] is missing"
    elif (meant := _abbreviated(word)) is not None:
        reason = f"there is no {word}; did you mean {meant}?"
        remedy = f'write dlvm.spec("{text.replace(word, meant)}")'
    return UserError(f"{said}: {reason}", origin=user_origin(), remedy=remedy)


def _abbreviated(word: str) -> str | None:
    """The element type that NumPy knows under a name."""
    try:
        known = word in DTYPES or not word.isidentifier()
        found = None if known else dtype_of(np.dtype(word))
    except TypeError:
        return None
    return None if found is None else str(found)


WEAK = {bool: BOOL, int: I64, float: F64}


def given(leaf: Any, label: str) -> Any:
    """A leaf of the arguments as a NumPy array, an array on a device, a Python scalar or a Spec."""
    if type(leaf) is np.ndarray or type(leaf) in WEAK or isinstance(leaf, Spec):
        return leaf
    if (there := on_a_device(leaf, label)) is not None:
        return there
    if hasattr(leaf, "__array__"):
        return np.asarray(ordinary(leaf, label))
    if hasattr(leaf, "__dlpack__"):
        return np.from_dlpack(leaf)
    try:
        return np.asarray(memoryview(leaf))
    except TypeError:
        name = label.partition("[")[0].partition(".")[0]
        raise TraceError(
            f"{label} is {leaf!r:.40} of type {type(leaf).__name__}, not an array or a number",
            origin=user_origin(),
            remedy=f"pass np.asarray(sorted({label}))"
            if isinstance(leaf, set | frozenset)
            else as_dataclass(leaf)
            or f"pass arrays, or make it part of the code: static=({name!r},)",
        ) from None


def concrete(what: str, leaf: Any, label: str) -> Array:
    """A leaf of a tree as a NumPy array, for a function that does not run in staged functions."""
    if isinstance(leaf, Tensor | Spec):
        kind = "staged value" if isinstance(leaf, Tensor) else "spec"
        raise TraceError(
            f"{what}: {label} is a {kind} of type {leaf.type}, whose elements are not known",
            origin=user_origin(),
            remedy=f"call dlvm.{what} on the results of a call, outside of staged functions",
        )
    try:
        return np.asarray(given(leaf, label))
    except TraceError as error:
        error.message = f"{what}: {error.message}"
        error.remedy = (
            as_dataclass(leaf) or "give a tree of arrays and numbers; None stands for nothing"
        )
        raise


def known_type(leaf: Any, label: str) -> TensorType:
    """The type of an argument."""
    if is_array(leaf) or isinstance(leaf, Elsewhere):
        return type_of(leaf, label)
    return leaf.type if isinstance(leaf, Spec) else TensorType(WEAK[type(leaf)])


def known_sharding(leaf: Any, label: str, mesh: Mesh | None) -> Sharding | None:
    """What shares the axes of an argument of a function of a mesh; None if it is whole."""
    if isinstance(leaf, Sharded):
        check_mesh(leaf, label, mesh)
        return shares(leaf.sharding)
    if not isinstance(leaf, Spec) or leaf.sharding is None:
        return None
    check_axes(leaf.sharding, label, mesh)
    return leaf.sharding


def as_array(leaf: Any, expected: TensorType, label: str) -> Any:
    """An argument of a call as an array of the type for which the code was made."""
    if is_array(leaf) or isinstance(leaf, Elsewhere):
        return leaf
    if isinstance(leaf, Spec):
        raise ShapeError(
            f"{label}: expected an array, found the spec {leaf.type}",
            origin=user_origin(),
            remedy="a spec stands for an array in f.compile and dlvm.trace only",
        )
    try:
        found = np.asarray(leaf, WEAK[type(leaf)].numpy)
    except OverflowError:
        raise NumberOutOfRange(
            f"{label}: the integer {leaf} does not fit in i64",
            origin=user_origin(),
            remedy="pass it as a float, or make it static",
        ) from None
    numeric = expected.dtype.is_float and dtype_of(found) is I64
    return found.astype(expected.dtype.numpy) if numeric else found


# -- parameters of Python functions --------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments of one call by name: those that are traced, and those that are static.

    Each element of ``*args`` and ``**options`` is an argument of its own, named as the function
    writes it: ``args[0]``, ``options['key']``.
    """

    names: tuple[str, ...]
    values: tuple[Any, ...]
    static: tuple[tuple[str, Any], ...]

    def static_key(self) -> tuple[Any, ...]:
        """Static values by exact type and value, as the cache keeps them."""
        for name, value in self.static:
            try:
                hash(bare(value))
            except TypeError:
                raise TraceError(
                    f"the static argument {name} is a {type(value).__name__}, which has no hash",
                    origin=user_origin(),
                    remedy="pass a tuple or a frozen dataclass, or don't make it static",
                ) from None
        return tuple((name, exact_type(x), x) for name, x in ((n, bare(v)) for n, v in self.static))

    def with_static(self, names: Collection[str]) -> Arguments:
        """The same call with some more static arguments."""
        pairs = [*zip(self.names, self.values, strict=True)]
        traced = {n: v for n, v in pairs if n not in names}
        static = (*self.static, *((n, v) for n, v in pairs if n in names))
        return Arguments(tuple(traced), tuple(traced.values()), static)

    def leaf_names(self, tree: Tree) -> list[tuple[str, str]]:
        """For each leaf the parameter to which it belongs, and its name in IR text."""
        children = zip(self.names, tree.children(), strict=True)
        return [(owner(name), path) for name, child in children for path in paths(child, name)]

    def leaf_labels(self, tree: Tree) -> list[str]:
        """What a user writes to reach each leaf."""
        children = zip(self.names, tree.children(), strict=True)
        return [label for name, child in children for label in labels(child, name)]


def owner(name: str) -> str:
    """The parameter to which an argument belongs."""
    return name.partition("[")[0]


def signature_of(fn: Callable[..., Any]) -> inspect.Signature:
    """The signature of a function; some functions written in C have none."""
    try:
        return inspect.signature(fn)
    except (TypeError, ValueError):
        name = getattr(fn, "__name__", "f")
        raise UserError(
            f"{fn!r:.60} does not say which arguments it takes",
            origin=user_origin(),
            remedy=f"give a function that does: lambda x: {name}(x)",
        ) from None


class Parameters:
    """The parameters of a Python function, and which of them are static."""

    def __init__(
        self, fn: Callable[..., Any], static: Sequence[str | int] | str | int = ()
    ) -> None:
        self.signature = signature_of(fn)
        self.name = getattr(fn, "__name__", "f")
        self.names = tuple(self.signature.parameters)
        kinds = {p.kind: p.name for p in self.signature.parameters.values()}
        self._rest = kinds.get(inspect.Parameter.VAR_POSITIONAL)
        self._options = kinds.get(inspect.Parameter.VAR_KEYWORD)
        self.static = frozenset(self.resolve(static, "static"))
        self._simple = set(kinds) <= {inspect.Parameter.POSITIONAL_OR_KEYWORD} and not self.static

    def resolve(self, given: Any, option: str) -> list[str]:
        """Parameters named by name or position."""
        if not isinstance(given, str | int | Collection):
            raise UserError(
                f"{option}={given!r:.40}: expected names or positions of parameters",
                origin=user_origin(),
                remedy="leave it out where there are none",
            )
        wanted: list[Any] = [given] if isinstance(given, str | int) else [*given]  # pyright: ignore[reportUnknownVariableType]
        out: list[str] = []
        for one in wanted:
            one = self._named(one) if isinstance(one, str | int) else one
            if owner(str(one)) not in self.names:
                raise UserError(
                    f"{option}={one!r}: there is no such parameter",
                    origin=user_origin(),
                    remedy=f"the parameters are {', '.join(self.names) or 'none'}",
                )
            out.append(str(one))
        return out

    def takes_many(self, name: str) -> bool:
        """Whether a parameter is ``*args`` or ``**options``."""
        return name in (self._rest, self._options)

    def _named(self, one: str | int) -> str | int:
        """The argument at a position, or of a name."""
        if isinstance(one, str):
            inside = self._options is not None and one not in self.names
            return f"{self._options}[{one!r}]" if inside else one
        if self._rest is not None and one >= (first := self.names.index(self._rest)):
            return f"{self._rest}[{one - first}]"
        return self.names[one] if -len(self.names) <= one < len(self.names) else one

    def bind(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any], defaults: bool = False
    ) -> Arguments:
        """The arguments of a call by parameter; defaults that are not passed stay in the code.

        With ``defaults`` they are arguments like others.
        """
        if self._simple and not kwargs and len(args) == len(self.names):
            return Arguments(self.names, args, ())
        found = dict(self._apart(self._bound(args, kwargs, defaults)))
        traced = {k: v for k, v in found.items() if k not in self.static}
        static = tuple((k, v) for k, v in found.items() if k in self.static)
        return Arguments(tuple(traced), tuple(traced.values()), static)

    def _apart(self, bound: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
        """Every argument by itself, including those of ``*args`` and ``**options``."""
        for name, value in bound.items():
            if name == self._rest and name not in self.static:
                yield from ((f"{name}[{i}]", x) for i, x in enumerate(value))
            elif name == self._options and name not in self.static:
                yield from ((f"{name}[{key!r}]", x) for key, x in value.items())
            else:
                yield name, value

    def _together(self, by_name: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments by parameter, in the order of parameters."""
        out: dict[str, Any] = {}
        for name in self.names:
            inside = {n: v for n, v in by_name.items() if owner(n) == name != n}
            if name in by_name:
                out[name] = by_name[name]
            elif name == self._rest:
                out[name] = tuple(inside.values())
            elif name == self._options:
                out[name] = {n[len(name) + 2 : -2]: v for n, v in inside.items()}
        return out

    def _bound(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any], defaults: bool
    ) -> dict[str, Any]:
        try:
            bound = self.signature.bind(*args, **kwargs)
            if defaults:
                bound.apply_defaults()
            return bound.arguments
        except TypeError:
            raise CallError(
                f"{self.name}: {unfit(self.signature, args, kwargs)}",
                origin=user_origin(),
                remedy=f"call it as {self.name}{self.signature}",
            ) from None

    def call(self, fn: Callable[..., Any], arguments: Arguments, values: Sequence[Any]) -> Any:
        """Calls the function with other values in the place of the traced arguments."""
        by_name = dict(zip(arguments.names, values, strict=True)) | dict(arguments.static)
        ordered: Any = self._together(by_name)
        bound = inspect.BoundArguments(self.signature, ordered)
        return fn(*bound.args, **bound.kwargs)


BOUNDARIES.add(Parameters.call.__code__)


def check_lists(name: str, value: Any) -> None:
    """Refuses a list of lists of numbers, in which each number would be an argument of its own."""
    if not isinstance(value, list):
        return
    rows = [v for v in value if isinstance(v, list | tuple) and v]  # pyright: ignore[reportUnknownVariableType]
    if rows and all(is_numbers(row) for row in rows):  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        raise TraceError(
            f"{name} is a list of lists of numbers, not an array",
            origin=user_origin(),
            remedy=f"pass np.asarray({name})",
        )


def is_numbers(value: Any) -> bool:
    """Whether something is a list of numbers, which is a tree of scalars and not an array."""
    return isinstance(value, list | tuple) and all(isinstance(n, int | float) for n in value)  # pyright: ignore[reportUnknownVariableType]


def no_field(error: AttributeError) -> TraceError | None:
    """Our error in the place of Python's for an attribute that a dataclass argument has lost.

    A staged function gets a dataclass with its fields, without what ``__post_init__`` adds.
    """
    x: Any = error.obj
    if isinstance(error, UserError) or not is_dataclass(x) or isinstance(x, type):
        return None
    kind = type(x).__name__
    return TraceError(
        f"{error.name} is no field of the dataclass {kind}, so staged functions are not given it",
        origin=origin_in(error.__traceback__),
        remedy=f"declare {error.name} in {kind}, as a property or as a field of init=False",
    )


def unlike_an_array(error: TypeError, arguments: Arguments) -> TraceError | None:
    """Our error in the place of Python's for a list of numbers in the place of an array."""
    pairs = zip(arguments.names, arguments.values, strict=True)
    lists = [name for name, value in pairs if is_numbers(value)]
    if isinstance(error, UserError) or not lists:
        return None
    return TraceError(
        f"{lists[0]} is a list of numbers, not an array: {error}",
        origin=origin_in(error.__traceback__),
        remedy=f"pass np.asarray({lists[0]})",
    )


def check_function(f: Any, name: str) -> None:
    """Refuses a value in the place of a function."""
    if not callable(f):
        what = f"an array of type {type_of(f)}" if is_array(f) else f"{f!r}".partition("\n")[0][:60]
        called = f"dlvm.{name}(f, x)" if name == "trace" else f"dlvm.{name}(f)(x)"
        also = ", or dlvm.linalg.trace(x) for the sum of a diagonal" if name == "trace" else ""
        raise UserError(
            f"dlvm.{name} takes a function, found {what}",
            origin=user_origin(),
            remedy=f"write {called}{also}",
        )
