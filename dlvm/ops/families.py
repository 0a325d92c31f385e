"""The families: what operations of one kind have in common, and how each kind becomes code.

An element-wise operation is a scalar formula, a reduction a monoid; both are stated in the
scalar functions of ``dlvm.ir.scalar``, so a target that has these has every such operation.
Movement and contraction are known to gen/ by class. Matters of one operation stay in its class.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, TypeGuard, cast

import numpy as np

from dlvm.base.errors import DTypeError, IRError, ShapeError
from dlvm.ir import Array, Builder, Dim, DType, Function, Op, Param, TensorType, Value, as_tuple
from dlvm.ir.interpret import Interpreter
from dlvm.ir.properties import Of, Properties
from dlvm.ir.recipe import Recipe
from dlvm.ir.scalar import S, Scalars
from dlvm.ir.sharding.factors import Factors, all_of
from dlvm.ir.sizes.dims import symbol, symbols
from dlvm.ir.sizes.equations import unequal
from dlvm.ir.sizes.positions import Index, valued

State = tuple[S, ...]


def wide(array: Array) -> Array:
    """Half precisions in the f32 that arithmetic on them is done in."""
    return array.astype(np.float32) if array.dtype.itemsize == 2 and _is_half(array) else array


def narrowed(result: Any, dtype: DType) -> Array:
    """A result that was computed on ``wide`` operands, in its type; any other is left as it is."""
    array = np.asarray(result)
    exact = dtype.numpy
    computed = array.dtype == np.float32 and exact.itemsize == 2 and dtype.kind == "f"
    return array.astype(exact) if computed else array


def _is_half(array: Array) -> bool:
    return array.dtype.kind not in "iub"


def _unstated(op: Op) -> IRError:
    return IRError(f"{op.name} does not state what its family demands")


class Elementwise(Op):
    """Each result element from one element of each operand, all of one shape.

    ``public`` is the users' name for it, if that is not its name in IR text. ``ulp`` is how far
    machine code may be from the exact result, in units of its last place; where ``cancels`` gives a
    reason for it, in those of the largest of the result, the operands and 1. ``exact`` is the exact
    result as a formula in mpmath's functions; it is needed only where ``reference`` is not made of
    NumPy's functions, from which tests take exact values otherwise. ``typed`` is the reason why the
    result is that of ``reference`` in the operands' own type, and of no function of real numbers.
    ``saturates`` is the reason why the error of its second derivative is small only beside 1.
    """

    kernel_rule = "scalar"
    public: ClassVar[str] = ""
    accepts: ClassVar[str] = "iuf"
    ulp: ClassVar[float] = 0.5
    cancels: ClassVar[str] = ""
    exact: ClassVar[str] = ""
    typed: ClassVar[str] = ""
    saturates: ClassVar[str] = ""
    domain: ClassVar[tuple[float, float]] = (-math.inf, math.inf)
    nonnegative: ClassVar[bool] = False
    """Whether no element of the result is negative; NaN may be one."""
    shape_free: ClassVar[bool] = True
    """Whether the operation means the same in any shape, so that it may move past a broadcast."""
    of_python: ClassVar[bool] = False
    """Whether Python has it for its own numbers; of these it gives a weak number, as they are."""

    def infer(self) -> TensorType | tuple[TensorType, ...]:
        """All operands have one type, which is the result's."""
        first, *rest = (v.type for v in self.operands)
        for other in rest:
            if other is first:
                continue
            if other.dtype != first.dtype:
                raise DTypeError(
                    f"{self.name}: expected one element type, found {first} and {other}"
                )
            if other.shape != first.shape:
                said = f"{self.name}: expected one shape, found {first} and {other}"
                raise ShapeError(said, sides=unequal(first.shape, other.shape))
        if first.dtype.kind not in self.accepts:
            raise DTypeError(f"{self.name}: not defined for elements of type {first.dtype}")
        return first

    def run(self, machine: Interpreter, *operands: Array) -> tuple[Any, ...]:
        """The reference on f32 where operands are half precision, rounded once."""
        if not self._has_halves:
            return as_tuple(self.reference(*operands))
        out = as_tuple(self.reference(*(wide(x) for x in operands)))
        types = self.result_types
        if len(out) != len(types):
            return out  # the interpreter says what was expected
        return tuple(narrowed(o, t.dtype) for o, t in zip(out, types, strict=True))

    @cached_property
    def _has_halves(self) -> bool:
        """Whether an operand or a result is computed in another type than its own."""
        types = (*(x.type for x in self.operands), *self.result_types)
        return any(t.dtype.compute != t.dtype for t in types)

    def batched(self, size: Dim) -> dict[str, Any]:
        """No attribute speaks of axes."""
        return {}

    def factors(self) -> Factors:
        """Each axis is one in all operands and results."""
        every = all_of(self.operands[0].type.rank)
        return Factors((every,) * len(self.operands), (every,) * len(self.result_types))

    def never_negative_zero(self, holds: Callable[[Value], bool]) -> bool:
        """Whether no element of the result is -0.0; ``holds`` says so of an operand."""
        return False

    def properties(self, of: Of) -> Properties:
        """A function of elements keeps the symmetry of what it is applied to."""
        kept = ("symmetric",) if all("symmetric" in of(x) for x in self.operands) else ()
        return frozenset(("nonnegative", *kept)) if self.nonnegative else frozenset(kept)

    def scalar(self, s: Scalars[S], *x: S) -> S | tuple[S, ...]:
        """The formula for one element; a tuple where there are several results."""
        raise _unstated(self)


class HasAxes:
    """What the fields of every reduction include; each class says where among its own."""

    axes: tuple[int, ...]


class Reduction(HasAxes, Op):
    """Folds the elements along ``axes`` with a monoid over tuples of scalars.

    ``widens`` says that users' bools and small integers are folded in 64 bits, as NumPy does;
    ``pairwise`` is the public name of the same of two elements, where there is one. Users' integers
    become floats where ``accepts`` has floats alone. ``identity_is_exact`` says of a monoid over
    several scalars that to combine a state with the identity gives that state, bit for bit.
    ``joined`` is how what ranks have folded is joined: by a word (``add``), or ``again`` where the
    same fold of partial results does it; with neither, ranks can't share what is folded.
    """

    kernel_rule = "lift"
    joined: ClassVar[str] = ""
    accepts: ClassVar[str] = "biuf"
    widens: ClassVar[bool] = False
    pairwise: ClassVar[str] = ""
    identity_is_exact: ClassVar[bool] = False

    def reduced(self, t: TensorType) -> tuple[Dim, ...]:
        """The shape that is left, after checking the axes."""
        if list(self.axes) != sorted(set(self.axes)) or any(not 0 <= a < t.rank for a in self.axes):
            raise ShapeError(f"{self.name}: axes {self.axes} do not fit {t}; ascending, each once")
        return tuple(d for i, d in enumerate(t.shape) if i not in self.axes)

    def batched(self, size: Dim) -> dict[str, Any]:
        """The same axes, one further."""
        return {"axes": tuple(a + 1 for a in self.axes)}

    def factors(self) -> Factors:
        """Axes that are kept pass; those that are folded are joined, where the class says how."""
        given = all_of(self.operands[0].type.rank, () if self.joined else self.axes)
        kept = tuple(f for axis, f in enumerate(given) if axis not in self.axes)
        folds = dict.fromkeys(self.axes, self.joined) if self.joined else {}
        fills = self.identity(NUMBERS)[: len(self.operands)] if self.joined else ()
        places = (given,) * len(self.operands)
        return Factors(places, (kept,) * len(self.result_types), folds, fills)

    def never_negative_zero(self, holds: Callable[[Value], bool]) -> bool:
        """Whether no element of the result is -0.0; ``holds`` says so of an operand."""
        return False

    def states(self) -> tuple[DType, ...]:
        """The types of the scalars that are folded."""
        raise _unstated(self)

    def identity(self, s: Scalars[S]) -> State[S]:
        """The state of an empty fold."""
        raise _unstated(self)

    def lift(self, s: Scalars[S], index: S, *x: S) -> State[S]:
        """The state of one element, given its position (i64) along the reduced axes."""
        raise _unstated(self)

    def combine(self, s: Scalars[S], a: State[S], b: State[S]) -> State[S]:
        """The associative operation, earlier elements on the left."""
        raise _unstated(self)

    def project(self, s: Scalars[S], state: State[S]) -> State[S]:
        """The results, from the state of all elements."""
        raise _unstated(self)


class RunningFields:
    """What the fields of every running scan include; each class says where among its own."""

    axis: int
    reverse: bool
    exclusive: bool


class Running(RunningFields, Op):
    """What a fold along ``axis`` has become at each element, in order.

    Element i of the result is the state after element i, or before it if ``exclusive``;
    ``reverse`` goes from the last element to the first. The order is part of the meaning: one
    step after the other from the identity on, with no tree.
    """

    def along(self, t: TensorType) -> TensorType:
        """The type of the result, after checking the axis."""
        if not 0 <= self.axis < t.rank:
            raise ShapeError(f"{self.name}: axis {self.axis} does not fit {t}")
        for other in self.operands:
            if other.type != t:
                said = f"{self.name}: expected one type, found {t} and {other.type}"
                raise ShapeError(said, sides=unequal(t.shape, other.shape))
        return t

    def batched(self, size: Dim) -> dict[str, Any]:
        """The same axis, one further."""
        return {"axis": self.axis + 1}

    def factors(self) -> Factors:
        """All axes but the one along which it goes."""
        every = all_of(self.operands[0].type.rank, (self.axis,))
        return Factors((every,) * len(self.operands), (every,) * len(self.result_types))

    def states(self) -> tuple[DType, ...]:
        """The types of the scalars that are carried along."""
        raise _unstated(self)

    def identity(self, s: Scalars[S]) -> State[S]:
        """The state before the first element."""
        raise _unstated(self)

    def step(self, s: Scalars[S], index: S, state: State[S], *x: S) -> State[S]:
        """The state after one more element, given its position (i64) along the axis."""
        raise _unstated(self)

    def project(self, s: Scalars[S], state: State[S]) -> S:
        """The result at a state."""
        raise _unstated(self)

    def over_chunks(self, xs: tuple[Value, ...], own: Value, axis: int) -> tuple[Value, ...]:
        """Operands of the same scan over chunks, at the end of each: from what ``xs`` are in chunks
        along ``axis``, and the scan of each chunk by itself.
        """
        return (own,)

    def joined(self, before: Value, own: Value, xs: tuple[Value, ...], axis: int) -> Value:
        """The scan in a chunk, from what chunks before it came to."""
        raise _unstated(self)


class Ordering(Op):
    """Compares the elements along the last axis with one another; a kernel has a row of them."""

    def batched(self, size: Dim) -> dict[str, Any]:
        """No attribute speaks of axes."""
        return {}

    def factors(self) -> Factors:
        """All axes but the last of the first operand, and what other operands have there."""
        last = self.operands[0].type.rank - 1
        own = all_of(last + 1, (last,))
        others = tuple(all_of(v.type.rank) for v in self.operands[1:])
        found = tuple(all_of(t.rank, () if others else (last,)) for t in self.result_types)
        return Factors((own, *others), found)


class Factorisation(Op):
    """Works on the matrices of the last two axes, each by itself; leading axes are batches.

    Halves are computed in f32 and rounded once. Each class states its ``flops``.
    """

    orthonormal_columns: ClassVar[tuple[int, ...]] = ()
    """The results whose columns are orthonormal, whatever their shape."""
    orthonormal_rows: ClassVar[tuple[int, ...]] = ()
    """Those whose rows are."""

    def batched(self, size: Dim) -> dict[str, Any]:
        """No attribute speaks of axes."""
        return {}

    def factors(self) -> Factors:
        """Leading axes, which are those of all operands and results; matrices are whole."""
        lead = self.operands[0].type.rank - 2
        ranks = (v.type.rank for v in self.operands), (t.rank for t in self.result_types)
        given, found = (tuple(all_of(r, range(lead, r)) for r in side) for side in ranks)
        return Factors(given, found)

    def run(self, machine: Interpreter, *operands: Array) -> tuple[Any, ...]:
        """The reference, on f32 where operands are half precision, without NumPy's warnings."""
        with np.errstate(all="ignore"):
            out = as_tuple(machine.concrete(self).reference(*map(wide, operands)))
        return tuple(narrowed(o, t.dtype) for o, t in zip(out, self.result_types, strict=True))

    def flops(self) -> Dim:
        """The floating-point operations of one execution."""
        raise _unstated(self)

    def in_blocks(self, size: int) -> tuple[Value, ...]:
        """The results by products, and by operations on blocks of ``size`` rows or columns at most.

        The number of columns of the first operand is known. A class may have no such form.
        """
        raise _unstated(self)

    def matrix(self, x: Value, square: bool = True) -> TensorType:
        """The type of an operand, after checking that it holds matrices of floats."""
        t = x.type
        if not t.dtype.is_float:
            raise DTypeError(f"{self.name}: expected elements of a float type, found {t}")
        if t.rank < 2 or (square and t.shape[-1] != t.shape[-2]):
            said = f"{self.name}: expected {'square ' if square else ''}matrices, found {t}"
            raise ShapeError(said, sides=unequal(t.shape[-2:-1], t.shape[-1:]))
        return t


def runs_reference(op: Op) -> bool:
    """Whether ``run`` gives what the reference gives, where all sizes are known: it does no more,
    or it widens half precisions and there are none.
    """
    types = (*(v.type for v in op.operands), *op.result_types)
    halves = any(t.dtype.compute is not t.dtype for t in types)
    run = type(op).run
    return run is Op.run or (run in (Elementwise.run, Factorisation.run) and not halves)


class Movement(Op):
    """Each result element is an operand's element, found by an index map."""

    def never_negative_zero(self, holds: Callable[[Value], bool]) -> bool:
        """Whether no element of the result is -0.0; ``holds`` says so of an operand."""
        return all(holds(x) for x in self.operands if x.dtype.is_float)


@dataclass(frozen=True, slots=True)
class Read:
    """An element of an operand, if all of ``where`` are at least 0."""

    operand: int
    index: Index
    where: tuple[Dim, ...] = ()


class IndexMap(Movement):
    """A movement whose index map is a formula in sizes, which each class states once: ``reads``.

    What it computes, its kernels, derivatives, batches, its cost and its form in other formats
    follow from that, where a class says no better. Of one that is read without conditions, kernels
    read the operand instead.
    """

    kernel_rule = "reads"
    rearranges: ClassVar[bool] = False
    """Whether its elements are all those of its one operand, reordered or repeated."""

    def reads(self, index: Index) -> tuple[Read, ...]:
        """Where the element at an index comes from: the first whose conditions hold; else it is 0.

        Of a map that ends with a read without conditions, every element is one of an operand.
        """
        raise _unstated(self)

    def factors(self) -> Factors:
        """An axis passes where the element at an index along it is one at this index."""
        index, reads = self.index, self.reads(self.index)
        given = [list[int | None]([None] * v.type.rank) for v in self.operands]
        found: list[int | None] = []
        for axis, name in enumerate(index):
            places = [_place_of(name, self.type.shape[axis], read, self) for read in reads]
            free = all(place is not None for place in places)
            found.append(axis if free else None)
            for read, place in zip(reads, places, strict=True):
                if free and place is not None and place >= 0:
                    given[read.operand][place] = axis
        return Factors(tuple(map(tuple, given)), (tuple(found),))

    @property
    def everywhere(self) -> bool:
        """Whether each element is one of the first operand's, without a condition."""
        (first, *more) = self.reads(self.index)
        return not more and not first.where

    @property
    def index(self) -> Index:
        """A symbol for the index along each axis of the result."""
        return tuple(symbol(f"%{axis}") for axis in range(self.result_types[0].rank))

    def reference(self, *operands: Array) -> Any:
        """Every element where the map says; what is read where conditions fail is not seen."""
        types = zip(operands, self.operands, strict=True)
        known = [Param(TensorType(x.dtype, array.shape)) for array, x in types]
        with Builder():  # so that no body that is being written gets it
            op = cast(IndexMap, self.rebuild(known))
        shape = tuple(int(n) for n in op.result_types[0].shape)
        grid = np.indices(shape, sparse=True)

        def at(d: Dim) -> Array:
            return valued(d, lambda name: grid[int(name[1:])], np.asarray, NUMPY)

        out = np.zeros(shape, operands[0].dtype)
        for read in reversed(op.reads(op.index)):
            x = operands[read.operand]
            if not x.size:
                continue
            ends = zip(read.index, x.shape, strict=True)
            found = x[tuple(np.clip(at(d), 0, n - 1) for d, n in ends)]
            inside = np.all(np.broadcast_arrays(*(at(d) >= 0 for d in read.where)), 0)
            out = np.where(inside, found, out) if read.where else found
        return np.broadcast_to(out, shape)


def _place_of(name: Dim, size: Dim, read: Read, op: Op) -> int | None:
    """The axis along which an operand is read at this index; -1 where none is, None if a part of
    it depends on the index otherwise.
    """
    (wanted,) = symbols(name)
    along = [a for a, d in enumerate(read.index) if wanted in symbols(d)]
    if any(wanted in symbols(d) for d in read.where) or len(along) > 1:
        return None
    if not along:
        return -1
    same = read.index[along[0]] == name and op.operands[read.operand].shape[along[0]] == size
    return along[0] if same else None


def rearranges(value: Value) -> TypeGuard[IndexMap]:
    """Whether a value has all the elements of another one, reordered or repeated, and no others."""
    return isinstance(value, IndexMap) and value.rearranges


NUMPY: dict[str, Callable[[Any, Any], Any]] = {
    "add": np.add,
    "mul": np.multiply,
    "floordiv": np.floor_divide,
    "mod": np.mod,
    "min": np.minimum,
    "max": np.maximum,
}


class Contraction(Op):
    """Sums of products over shared axes."""


class _Numbers:
    """Scalars that are numbers, as far as identities of folds need them."""

    def constant(self, value: Any, dtype: DType) -> Any:
        """The number."""
        return value


NUMBERS: Any = _Numbers()
"""What gives the identity of a fold in numbers."""


class Creation(Op):
    """A value from nothing but attributes."""

    recipe: ClassVar[Recipe | None] = None
    """How it was computed of other constants, if it was; never part of what it is."""


class Effect(Op):
    """Something that must be seen: kept, and kept in order."""

    has_effect: ClassVar[bool] = True


class Control(Op):
    """Holds regions; its derivative, batching and lowering are registered by ad/ and gen/."""


def region_mismatch(op: Op, region: str, expected: object, found: object) -> ShapeError:
    """The error for a region whose signature is not what its operation demands."""
    return ShapeError(f"{op.name}: {region} must have {expected}, found {found}")


def check_region(
    op: Op,
    name: str,
    region: Function,
    params: tuple[TensorType, ...],
    results: tuple[TensorType, ...] | None = None,
) -> tuple[TensorType, ...]:
    """Demand parameter and, if given, result types of a region; its result types."""
    found = region.signature
    if found.params != params:
        raise region_mismatch(op, name, f"parameters {_list(params)}", _list(found.params))
    if results is not None and found.results != results:
        raise region_mismatch(op, name, f"results {_list(results)}", _list(found.results))
    return found.results


def _list(types: tuple[TensorType, ...]) -> str:
    return f"({', '.join(map(str, types))})"
