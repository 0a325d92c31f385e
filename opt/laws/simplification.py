"""Laws and arithmetic at compile time: an operation gives way to something better."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

import numpy as np

from dlvm.base.errors import UserError
from dlvm.ir import RULES, Array, Dim, Function, Module, Op, TensorType, Value, splat
from dlvm.ir.interpret import Interpreter
from dlvm.ir.numerics import LICENSED, Mode, current_mode
from dlvm.ir.rewrite import Law, settle
from dlvm.ir.sizes.dims import at_least, evaluate
from dlvm.ir.sizes.positions import groups
from dlvm.ops import Broadcast, Constant, DimSize, Permute, Reshape, Slice, scalar_value
from dlvm.ops.families import Contraction, Elementwise, Movement, Reduction
from dlvm.ops.literals import unread
from dlvm.passes import finite_function_pass, function_pass

FOLDED_ELEMENTS = 1024
COMPUTED = Elementwise | Reduction | Movement | Contraction
"""What a kernel computes where it is read, and stays in its shape."""
WIDE = 32
"""Columns of a product from which on what follows it, behind a reshape, is computed in it: with 6
columns LeNet's scores took 1.4 times as long."""
FOLLOWED = 16
"""Formulas of elements that are followed back to a product, at most."""


@function_pass
def simplify(fn: Function) -> Function:
    """Apply the laws that stand under the operations, ``dlvm.ir.rewrite.RULES``.

    Laws apply whose class the numerics mode of the compilation licenses and that change no special
    value. What is computed of repeated values only is computed before it is repeated. There is one
    sweep, operands first; what a law builds is simplified in its turn before anything that uses it,
    so no law fires on the result.
    """
    return settle(fn, _laws_of(current_mode(), True))


@finite_function_pass
def simplify_finite(fn: Function) -> Function:
    """Apply the other laws that always help, which suppose finite operands."""
    return settle(fn, _laws_of(current_mode(), False))


@cache
def _laws_of(mode: Mode, keeps: bool) -> Callable[[Op], Iterator[Law]]:
    """The laws that a mode licenses, those that keep special values or the others.

    There is one function for each mode, as ``settle`` remembers it.
    """
    classes = LICENSED[mode]

    def laws(op: Op) -> Iterator[Law]:
        """Those under the class of an operation, then those of every formula of elements."""
        for rule in RULES.get(type(op), ()):
            if rule.law_class in classes and not rule.weighed and rule.keeps == keeps:
                yield rule.apply
        if keeps and isinstance(op, Elementwise) and op.results == (op,) and op.shape_free:
            yield before_broadcast
            yield before_reshape

    return laws


def before_broadcast(op: Op) -> Value | None:
    """f(broadcast x, broadcast y) = broadcast f(x, y): compute before repeating."""
    found = [x for x in op.operands if isinstance(x, Broadcast) and scalar_value(x) is None]
    spread = [x for x in found if x.x.shape] or found  # one number goes with any of them
    if not spread:
        return None
    first = spread[0]
    if any(x.axes != first.axes for x in spread):
        return None
    narrow = [_narrowed(x, first) for x in op.operands]
    operands = [x for x in narrow if x is not None]
    if len(operands) < len(narrow):
        return None
    return Broadcast(op.rebuild(operands), op.shape, first.axes)


def _narrowed(x: Value, like: Broadcast) -> Value | None:
    """What an operand is before a broadcast, where it is one like another, or one number."""
    if (uniform := _uniform(x, like.x.shape)) is not None:
        return uniform
    return x.x if isinstance(x, Broadcast) else None


def _uniform(x: Value, shape: tuple[Dim, ...]) -> Value | None:
    """One number everywhere, known or not, in a shape; None of what differs."""
    if (number := scalar_value(x)) is not None:
        return splat(number, x.type.with_shape(shape))
    if isinstance(x, Broadcast) and not x.x.shape:
        return Broadcast(x.x, shape, ()) if shape else x.x
    return None


def before_reshape(op: Op) -> Value | None:
    """f(reshape x, reshape y) = reshape f(x, y): compute in the shape that was there before.

    So a row that a reduction kept as an axis of size 1 stays beside the reduction, and what follows
    a product beside the product.
    """
    before = [x.x for x in op.operands if isinstance(x, Reshape)]
    shapes = {x.shape for x in before}
    if len(shapes) != 1:
        return None
    (shape,) = shapes
    of_product = _is_wide(shape) and any(_is_of_product(x) for x in before)
    operands = [_in_shape(x, shape, of_product) for x in op.operands]
    known = [x for x in operands if x is not None]
    return Reshape(op.rebuild(known), op.shape) if len(known) == len(operands) else None


def _in_shape(x: Value, shape: tuple[Dim, ...], of_product: bool) -> Value | None:
    """What an operand is before a reshape, where it is one, or one number.

    Beside a product also what is repeated or in memory.
    """
    if (uniform := _uniform(x, shape)) is not None:
        return uniform
    if isinstance(x, Reshape):
        return x.x
    if not of_product:
        return None
    if isinstance(x, Broadcast):
        return _repeated_in(x, shape)
    return None if isinstance(x, COMPUTED) else Reshape(x, shape)


def _is_wide(shape: tuple[Dim, ...]) -> bool:
    """Whether what follows a product fills vectors along its columns."""
    return bool(shape) and at_least(shape[-1], WIDE)


def _is_of_product(x: Value) -> bool:
    """Whether a value is a product, or a formula of the elements of one."""
    for _ in range(FOLLOWED):
        if isinstance(x, Contraction):
            return True
        if not isinstance(x, Elementwise):
            return False
        whole = [y for y in x.operands if not isinstance(y, Broadcast)]
        if not whole:
            return False
        x = next((y for y in whole if isinstance(y, Elementwise | Contraction)), whole[0])
    return False


def _repeated_in(x: Broadcast, shape: tuple[Dim, ...]) -> Value | None:
    """The same repetition in another shape, where no axis is both repeated and not."""
    sizes: list[Dim] = []
    axes: list[int] = []
    if 0 in shape:
        return None
    for mine, theirs in groups(x.shape, shape):
        long = [a for a in range(len(x.shape))[mine] if x.shape[a] != 1]
        kept = [a for a in long if a in x.axes]
        if kept and kept == long:
            sizes += shape[theirs]
            axes += range(len(shape))[theirs]
        elif kept:
            return None
    inner = tuple(sizes)
    return Broadcast(x.x if x.x.shape == inner else Reshape(x.x, inner), shape, tuple(axes))


@function_pass
def fold_constants(fn: Function) -> Function:
    """Compute by the references what depends on small constants only.

    A tensor filled with one number stays that number broadcast, whatever its size; others
    are computed up to 1024 elements, and ``prepare`` computes what depends on larger ones. An
    operation that would raise is left to do so.
    """
    return settle(fn, _folding)


def constants(module: Module) -> Iterator[Array]:
    """The constants of a module."""
    for fn in module.functions:
        yield from (op.value for op in fn.walk() if isinstance(op, Constant))


def _folding(op: Op) -> tuple[Law]:
    return (known_result,)


def known_result(op: Op) -> Value | None:
    """f(constants) = constant."""
    match op:
        case DimSize(int(size)):
            return Constant(_frozen(np.int64(size)))
        case Permute(x) | Reshape(x) | Slice(x) if scalar_value(x) is not None:
            return splat(scalar_value(x), op.type)
        case Broadcast():
            return None
        case Elementwise() | Movement() | Reduction() | Contraction() if all(
            map(_known, op.operands)
        ) and op.results == (op,):
            return _splat_of_splats(op) or (_computed(op) if _same_everywhere(op) else None)
        case _:
            return None


def _known(x: Value) -> bool:
    return isinstance(x, Constant) or scalar_value(x) is not None


def _same_everywhere(op: Op) -> bool:
    """Whether every machine computes the same bits, so that this one may do it now."""
    if isinstance(op, Elementwise):
        return op.ulp <= 0.5
    return isinstance(op, Movement) or not op.dtype.is_float


def _splat_of_splats(op: Op) -> Value | None:
    if not isinstance(op, Elementwise) or not op.shape or not op.shape_free:
        return None
    numbers = [scalar_value(x) for x in op.operands]
    if any(n is None for n in numbers):
        return None
    scalars = [Constant(_frozen(n)) for n in numbers]
    return Broadcast(op.rebuild(scalars), op.shape, ())


def _computed(op: Op) -> Value | None:
    arrays = [_small_array(x) for x in op.operands]
    known = [a for a in arrays if a is not None]
    if len(known) < len(arrays) or not _small(op.type):
        return None
    try:
        with np.errstate(all="ignore"):
            (result,) = op.run(Interpreter(Module(())), *known)
    except UserError:
        return None
    return Constant(_frozen(result))


def _small_array(x: Value) -> Array | None:
    if isinstance(x, Constant):
        return x.value if x.value.size <= FOLDED_ELEMENTS and not unread(x) else None
    number = scalar_value(x)
    if number is None or not _small(x.type):
        return None
    return np.full([evaluate(d, {}) for d in x.shape], number, x.dtype.numpy)


def _small(t: TensorType) -> bool:
    return all(isinstance(d, int) for d in t.shape) and evaluate(t.size, {}) <= FOLDED_ELEMENTS


def _frozen(array: Array | np.generic) -> Array:
    out = np.array(array)
    out.setflags(write=False)
    return out
