"""The data model of the language: values, operations, functions and declarations.

A value is a parameter, an operation with one result, or a ``Part``: one result of an operation with
several. Operands are direct references, and values compare by identity. A function is parameters, a
tuple of operations in which operands precede their uses, and results. An operation that is
constructed inside ``with Builder()`` is appended to that builder; tracing, adjoint formulas and
rewrite rules write code that way. No function here recurses over the length of a program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, TypeAlias, dataclass_transform

import numpy as np

from dlvm.base.errors import IRError, Origin

from .dataflow import Dataflow
from .layout import Shown, Spec, constructor_of, layout_of
from .properties import NONE, Of, Properties
from .sharding.factors import Factors, none_of, stated
from .sharding.mesh import Sharding
from .sizes.dims import Dim
from .types import Array, DType, TensorType, contents

Form: TypeAlias = tuple[tuple[Dim, ...], "np.dtype[Any]"]
MAX_NESTING = 100  # levels of regions within regions; passes recurse into them


class Value:
    """A typed value that operations can use; Python arithmetic on it builds operations."""

    type: TensorType
    origin: Origin | None = None
    sharding: Sharding | None = None
    """What shares each axis among the ranks of a mesh, where that is known; beside the type."""
    sharded_by: tuple[str, ...] = ()
    """For each axis the annotation from which that follows, in words."""
    found_properties: Properties | None = None
    """What is known of it as a matrix, once somebody asked; see ``knowledge``."""

    @property
    def shape(self) -> tuple[Dim, ...]:
        """The shape of the value's type."""
        return self.type.shape

    @property
    def dtype(self) -> DType:
        """The element type of the value's type."""
        return self.type.dtype

    def properties(self, of: Of) -> Properties:
        """The properties of the value as a matrix; ``of`` tells those of another value."""
        return NONE

    def _build(self, name: str, *operands: Value | float) -> Value:
        return OPS[name](*(o if isinstance(o, Value) else splat(o, self.type) for o in operands))

    def __add__(self, other: Value | float) -> Value:
        return self._build("add", self, other)

    def __sub__(self, other: Value | float) -> Value:
        return self._build("sub", self, other)

    def __rsub__(self, other: float) -> Value:
        return self._build("sub", other, self)

    def __mul__(self, other: Value | float) -> Value:
        return self._build("mul", self, other)

    def __truediv__(self, other: Value | float) -> Value:
        return self._build("div", self, other)

    def __rtruediv__(self, other: float) -> Value:
        return self._build("div", other, self)

    def __neg__(self) -> Value:
        return self._build("neg", self)

    __radd__ = __add__
    __rmul__ = __mul__


def splat(number: float, like: TensorType) -> Value:
    """A tensor of the given type with the same number in every element."""
    scalar = OPS["constant"](literal(number, like.dtype))
    if not like.shape:
        return scalar
    return OPS["broadcast"](scalar, shape_to=like.shape, axes=())


def zeros(like: TensorType) -> Value:
    """The zero of a type: the cotangent of an unused value; of a tape, the empty tape."""
    return OPS["empty_tape"]() if like.dtype.kind == "t" else splat(0, like)


def literal(number: Any, dtype: DType) -> Array:
    """A read-only array of the given type, for use in a constant."""
    with np.errstate(all="ignore"):  # a float that overflows becomes infinite
        array = np.array(number, dtype.numpy)
    array.setflags(write=False)
    return array


@dataclass(eq=False)
class Param(Value):
    """An input of a function; the results may overwrite a ``donated`` one."""

    type: TensorType
    name: str = ""
    donated: bool = False
    origin: Origin | None = None

    def __repr__(self) -> str:
        return f"<%{self.name} : {self.type}>"


@dataclass(eq=False)
class Part(Value):
    """One of several results of an operation."""

    op: Op
    index: int
    type: TensorType

    def __repr__(self) -> str:
        return f"<{self.op.name}#{self.index} : {self.type}>"

    @property
    def origin(self) -> Origin | None:  # type: ignore[override]
        """Where the operation was written."""
        return self.op.origin

    def properties(self, of: Of) -> Properties:
        """Those that the operation states of this result."""
        return self.op.properties_of_result(self.index, of)


OPS: dict[str, type[Op]] = {}


@dataclass_transform(eq_default=False)
class Op(Value):
    """Base class of every operation; a subclass is the one place that describes its operation.

    Annotated fields are its operands (``Value``, ``tuple[Value, ...]``), regions (``Function``),
    declared result types (``types``) and attributes (all others); those of a base class come
    first. The class's docstring is its documentation, and its methods are its rules.
    """

    name: ClassVar[str]
    layout: ClassVar[tuple[Spec, ...]] = ()
    __signature__: ClassVar[Any] = Shown()
    _named: ClassVar[dict[str, tuple[str, ...]]] = {}
    _operands_only: ClassVar[bool] = False
    commutes: ClassVar[bool] = False
    """Whether its two operands may be exchanged, with the same bits for any."""
    holds_regions: ClassVar[bool] = False
    has_effect: ClassVar[bool] = False
    can_raise: ClassVar[bool] = False
    kernel_rule: ClassVar[str] = ""
    """The method by which a class gives its operations a kernel; a family's base class names it."""
    lowered_late: ClassVar[bool] = False
    """Whether laws speak of it, so that it is replaced by its lowering only after them."""
    alias: ClassVar[bool] = False
    """Whether its result is its operand, as it lies in memory, in another shape."""
    searched: ClassVar[tuple[int, ...]] = ()
    """Operands that are read again and again: rows that are searched, a triangle to solve with."""
    stage: ClassVar[str] = ""
    """The first stage whose programs may have it, where that is not the first of all."""
    ends: ClassVar[str] = ""
    """The first stage whose programs no longer have it, if there is one."""
    from_passes: ClassVar[bool] = False
    """Whether passes alone write it, so that no program of a user has it."""
    asks_python: ClassVar[bool] = False
    """Whether machine code calls ``reference`` in Python, as the class says no other way."""
    nondifferentiable: ClassVar[str] = ""
    dataflow: ClassVar[Dataflow | None] = None
    enters: ClassVar[str] = ""
    """The attribute that names the function of the module that the operation enters, if any."""
    one_nest: ClassVar[bool] = False
    """Whether its regions are part of one nest of loops, which passes over bodies leave alone."""
    operands: tuple[Value, ...]
    result_types: tuple[TensorType, ...]
    results: tuple[Value, ...]
    asked: str = ""
    """Why ranks exchange something here, for whoever asks; never part of what it is."""
    refused: tuple[Any, ...] = ()
    """Rewrite sweeps for which this operation was already a fixed point; see ``rewrite.settle``."""

    def __init_subclass__(cls) -> None:
        cls.layout = layout_of(cls, cls.layout)
        if "name" not in cls.__dict__:
            return
        cls.__match_args__ = tuple(s.name for s in cls.layout)
        if "__init__" not in cls.__dict__:
            cls.__init__ = constructor_of(cls.__qualname__, cls.layout)
        cls._named = {
            "attributes": tuple(s.name for s in cls.layout if s.kind in ("attribute", "array")),
            "regions": tuple(s.name for s in cls.layout if s.kind == "region"),
            "groups": tuple(s.name for s in cls.layout if s.kind == "operands"),
            "types": tuple(s.name for s in cls.layout if s.kind == "types"),
        }
        cls.holds_regions = bool(cls._named["regions"])
        cls.asks_python = cls.asks_python or _asks_python(cls)
        cls.can_raise = cls.can_raise or cls.asks_python
        if isinstance(rule := cls.__dict__.get("sharding"), str):
            del cls.sharding  # of an operation it is a rule, of a value where it lies
            setattr(cls, "factors", stated(rule, cls.name))  # noqa: B010  # a method for any class
        cls._operands_only = all(s.kind == "operand" for s in cls.layout)
        if cls.name in OPS:
            other = f"{OPS[cls.name].__module__}.{OPS[cls.name].__name__}"
            raise IRError(
                f"{cls.__module__}.{cls.__name__} and {other} are both called {cls.name!r}",
                remedy="give the new operation a name of its own",
            )
        OPS[cls.name] = cls

    def __init__(self, *args: Any, **kwargs: Any) -> None: ...

    def __post_init__(self) -> None:
        inferred = self.infer()
        if isinstance(inferred, TensorType):
            self.type = inferred
            self.result_types = (inferred,)
            self.results = (self,)
        else:
            self.result_types = inferred
            self.results = tuple(Part(self, i, t) for i, t in enumerate(inferred))
        if (builder := _builder.get()) is not None:
            builder.append(self)

    @cached_property
    def forms(self) -> list[Form]:
        """The shapes and NumPy types of the results, which the interpreter compares each time."""
        return [(t.shape, t.dtype.numpy) for t in self.result_types]

    def __repr__(self) -> str:
        types = self.__dict__.get("result_types", ())
        return f"<{self.name} : {', '.join(map(str, types))}>"

    # -- rules that an operation's class states ---------------------------------------------

    def infer(self) -> TensorType | tuple[TensorType, ...]:
        """The result type, or a tuple of types for several; raises the user's shape errors."""
        raise IRError(f"{self.name} has no shape rule")

    def reference(self, *operands: Any) -> Any:
        """The meaning of the operation, in NumPy."""
        raise IRError(f"{self.name} has no reference")

    def run(self, machine: Any, *operands: Any) -> tuple[Any, ...]:
        """Runs the reference with symbolic sizes replaced; the interpreter calls this."""
        return as_tuple(machine.concrete(self).reference(*operands))

    def misfit(self, signature: Callable[[str], Signature]) -> str | None:
        """What is wrong with the functions that the operation names besides its callee, or None."""
        return None

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        """The cotangents of the operands from those of the results; None stands for zero."""
        raise IRError(f"{self.name} has no adjoint: {self.nondifferentiable}")

    def properties_of_result(self, index: int, of: Of) -> Properties:
        """The same as ``properties`` for one of several results."""
        return NONE

    def lowering(self) -> Any:
        """The results in other operations, for an operation that has no kernels of its own."""
        raise IRError(f"{self.name} has no lowering")

    def batched(self, size: Dim) -> dict[str, Any]:
        """The attributes that change if every operand gets a new first axis of this size."""
        raise IRError(f"{self.name} does not say how it is batched")

    def factors(self) -> Factors:
        """Which axes ranks may share: none, where neither class nor family says more.

        A class may state it as an einsum: ``sharding = "ij,jk->ik"``.
        """
        whole = none_of([v.type.rank for v in self.operands])
        return Factors(whole, none_of([t.rank for t in self.result_types]))

    def resized(self, *shapes: tuple[Dim, ...]) -> dict[str, Any]:
        """The attributes that change if results have these shapes, and operands as fits them."""
        return {}

    # -- properties that follow from the fields and rules ------------------------------------

    @property
    def attributes(self) -> dict[str, Any]:
        """The fields that are neither operands, regions nor declared types, by name."""
        return {name: getattr(self, name) for name in self._named["attributes"]}

    @property
    def regions(self) -> dict[str, Function]:
        """The closed functions that a control operation holds, by name."""
        return {name: getattr(self, name) for name in self._named["regions"]}

    @property
    def is_effect(self) -> bool:
        """Whether the operation, or a region of it, has an effect that must be kept."""
        if not self.holds_regions:
            return self.has_effect
        return self.has_effect or any(r.has_effect for r in self.regions.values())

    @property
    def may_raise(self) -> bool:
        """Whether the operation, or a region of it, can end the call with an error."""
        if not self.holds_regions:
            return self.can_raise
        return self.can_raise or any(r.may_raise for r in self.regions.values())

    @property
    def called(self) -> FunctionRef | None:
        """The function of the module that the operation enters, or None."""
        return getattr(self, self.enters) if self.enters else None

    @property
    def ruled(self) -> tuple[Value, ...] | None:
        """The operands whose derivative a rule of the user states; None without such a rule."""
        return None

    def rebuild(self, operands: Sequence[Value], **changes: Any) -> Op:
        """The same operation on other operands, with the given attributes or regions changed."""
        if self._operands_only:
            new = type(self)(*operands)
            new.origin = self.origin
            return new
        rest = iter(operands)
        values: dict[str, Any] = {}
        for spec in self.layout:
            old = getattr(self, spec.name)
            if spec.name in changes:
                values[spec.name] = changes[spec.name]
            elif spec.kind == "operand":
                values[spec.name] = next(rest)
            elif spec.kind == "operands":
                values[spec.name] = tuple(next(rest) for _ in old)
            else:
                values[spec.name] = old
        new = type(self)(**values)
        new.origin = self.origin
        return new

    def facts(self) -> tuple[Any, ...]:
        """What the operation is, apart from operands and regions.

        That is its class, attributes, group sizes and declared types; result types follow from
        these, the operands and the regions.
        """
        if self._operands_only:
            return (type(self),)
        attributes = tuple(_hashable(getattr(self, n)) for n in self._named["attributes"])
        groups = tuple(len(getattr(self, n)) for n in self._named["groups"])
        types = tuple(getattr(self, n) for n in self._named["types"])
        return (type(self), attributes, groups, types)

    def key(self) -> tuple[Any, ...]:
        """A key that is equal for operations that compute the same from the same operands."""
        regions = tuple(id(getattr(self, n)) for n in self._named["regions"])
        return (*self.facts(), regions, tuple(map(id, self.operands)))


def _asks_python(cls: type[Op]) -> bool:
    """Whether an operation from outside of dlvm has neither a kernel nor a lowering."""
    known = any("name" in base.__dict__ for base in cls.__mro__[1:])
    stated = cls.holds_regions or cls.dataflow is not None
    if cls.__module__.startswith("dlvm.") or stated or known:
        return False
    family = next(base for base in cls.__mro__ if "kernel_rule" in base.__dict__)
    rule = cls.kernel_rule
    stated = bool(rule) and getattr(cls, rule) is not getattr(family, rule)
    return cls.lowering is Op.lowering and not stated


def as_tuple(out: Any) -> tuple[Any, ...]:
    """The results of a rule as a tuple; a rule with one result may return it bare."""
    return out if isinstance(out, tuple) else (out,)  # pyright: ignore[reportUnknownVariableType]


def _hashable(value: Any) -> Any:
    """A key equal only for attribute values that mean the same: 1, 1.0, True, -0.0 differ."""
    if isinstance(value, tuple):
        items: tuple[Any, ...] = value  # pyright: ignore[reportUnknownVariableType]
        return tuple(map(_hashable, items))
    if isinstance(value, np.ndarray):
        array: Array = value  # pyright: ignore[reportUnknownVariableType]
        return (array.dtype.str, array.shape, contents(array))
    return (type(value), repr(value) if isinstance(value, float) else value)


class Builder:
    """Collects the operations that are constructed while it is active, and sets their origin."""

    def __init__(self, ops: Sequence[Op] = ()) -> None:
        self.ops: list[Op] = list(ops)
        self.origin: Origin | None = None
        self._tokens: list[Token[Builder | None]] = []

    def append(self, op: Op) -> None:
        """Appends an operation; the constructor of an operation calls this."""
        if op.origin is None:
            op.origin = self.origin
        self.ops.append(op)

    def __enter__(self) -> Builder:
        self._tokens.append(_builder.set(self))
        return self

    def __exit__(self, *_: object) -> None:
        _builder.reset(self._tokens.pop())


_builder: ContextVar[Builder | None] = ContextVar("dlvm_builder", default=None)


def current_builder() -> Builder | None:
    """The active builder, or None."""
    return _builder.get()


@dataclass(frozen=True, eq=False, slots=True)
class Function:
    """Parameters, operations in order, and results; a function used as a region is closed."""

    name: str
    params: tuple[Param, ...]
    ops: tuple[Op, ...]
    results: tuple[Value, ...]
    _kinds: list[frozenset[type[Op]]] = field(default_factory=lambda: [], init=False, repr=False)

    @property
    def kinds(self) -> frozenset[type[Op]]:
        """The classes of its operations, nested regions included."""
        if not self._kinds:
            found: frozenset[type[Op]] = frozenset(type(op) for op in self.ops)
            if any(kind.holds_regions for kind in found):
                inner = (r.kinds for op in self.ops for r in op.regions.values())
                found = found.union(*inner)
            self._kinds.append(found)
        return self._kinds[0]

    @property
    def signature(self) -> Signature:
        """The types of the parameters and of the results."""
        return Signature(tuple(p.type for p in self.params), tuple(r.type for r in self.results))

    @property
    def has_effect(self) -> bool:
        """Whether any operation inside has an effect, so it must be kept in order."""
        return any(kind.has_effect for kind in self.kinds)

    @property
    def may_raise(self) -> bool:
        """Whether any operation inside can end the call with an error."""
        return any(op.may_raise for op in self.ops)

    def donations(self) -> dict[int, int]:
        """The donated parameter that each overwriting result overwrites, by the result's position.

        A donated parameter is assigned to the first result of its type that is not taken yet.
        """
        found: dict[int, int] = {}
        for i, param in enumerate(self.params):
            free = (
                j for j, r in enumerate(self.results) if r.type == param.type and j not in found
            )
            if param.donated and (j := next(free, None)) is not None:
                found[j] = i
        return found

    def walk(self) -> Iterator[Op]:
        """Every operation; those of a region directly follow the operation that holds it."""
        pending: list[Iterator[Op]] = [iter(self.ops)]
        while pending:
            op = next(pending[-1], None)
            if op is None:
                pending.pop()
                continue
            yield op
            pending.extend(iter(r.ops) for r in reversed(list(op.regions.values())))

    def __repr__(self) -> str:
        return f"<func @{self.name}, {len(self.ops)} ops>"


@dataclass(frozen=True, slots=True)
class Signature:
    """The types of a function's parameters and results, which are all that a caller must know."""

    params: tuple[TensorType, ...]
    results: tuple[TensorType, ...]


@dataclass(frozen=True, slots=True)
class FunctionRef:
    """A reference to a function of the module by name, written ``@f``."""

    name: str

    def __str__(self) -> str:
        return f"@{self.name}"


@dataclass(frozen=True, eq=False, slots=True)
class Declaration:
    """A derived function that is declared but not expanded into code yet.

    ``adjoint @name of @of wrt (1, 2) keep (0) seeded`` has the parameters of ``of``, followed by
    one seed for each float result if ``seeded``. Its results are the gradients in the order of
    ``wrt``, then the kept results. ``tangent`` has the parameters of ``of``, then a tangent for
    each of ``wrt``; its results are the kept results, then a tangent for each float result.
    ``batched`` has ``axes``, one for each parameter (None: not batched), all of length ``size``;
    every result is batched along its first axis, except for the kept ones, which must be the same
    in all lanes.
    """

    kind: str
    name: str
    of: str
    wrt: tuple[int, ...] = ()
    keep: tuple[int, ...] = ()
    seeded: bool = False
    axes: tuple[int | None, ...] = ()
    size: Dim = 1


Entry = Function | Declaration
