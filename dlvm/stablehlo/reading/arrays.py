"""Movement, products, folds and sorts of StableHLO."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from dlvm import ops
from dlvm.ir import Array, Builder, Function, Op, Param, TensorType, Value, splat
from dlvm.ops import scalar_value

from .table import Place, Results, constant, permuted, reads, reshaped, root, simple
from .tree import Block, Node, unreadable

FOLDS: dict[str, tuple[Any, type[Op], Callable[[Any], float]]] = {
    "add": (ops.Sum, ops.Add, lambda d: 0),
    "multiply": (ops.Prod, ops.Mul, lambda d: 1),
    "maximum": (ops.Max, ops.Maximum, lambda d: d.lowest),
    "minimum": (ops.Min, ops.Minimum, lambda d: d.highest),
}
ON_BOOLS = {"or": "maximum", "and": "minimum", "add": "maximum", "multiply": "minimum"}
ARG = ("compare", "compare", "or", "compare", "compare", "and", "or", "select", "select")
ARG_OF_INTEGERS = ("compare", "compare", "compare", "and", "or", "select", "select")


@reads("stablehlo.constant")
def known(node: Node, xs: Sequence[Value], place: Place) -> Results:
    """An array; one number everywhere stays one number."""
    array: Array = node.attributes["value"]
    (t,) = node.types
    if array.size > 1 and not any(array.strides):
        return splat(array[(0,) * array.ndim], t)
    flat = array.reshape(-1)
    if flat.size > 1 and flat.tobytes() == flat[:1].tobytes() * flat.size:
        return splat(flat[0], t)
    return constant(array, t)


@reads("stablehlo.iota")
def iota(node: Node, xs: Sequence[Value], place: Place) -> Results:
    """Counting along an axis."""
    axis: int = node.attributes["iota_dimension"]
    (t,) = node.types
    return ops.Broadcast(ops.Iota(t.shape[axis], t.dtype), t.shape, (axis,))


@reads("stablehlo.reshape")
def reshape(node: Node, xs: Sequence[Value], place: Place) -> Results:
    """Another shape."""
    return reshaped(xs[0], node.types[0].shape)


@reads("stablehlo.transpose")
def transpose(node: Node, xs: Sequence[Value], place: Place) -> Results:
    """The axes in another order."""
    return permuted(xs[0], node.attributes["permutation"])


@reads("stablehlo.broadcast_in_dim")
def broadcast(node: Node, xs: Sequence[Value], place: Place) -> Results:
    """Repeats along new axes and along those of size 1."""
    (x,), (t,), axes = xs, node.types, node.attributes["broadcast_dimensions"]
    order = sorted(range(len(axes)), key=lambda i: axes[i])
    x, axes = permuted(x, order), [axes[i] for i in order]
    kept = [i for i, a in enumerate(axes) if x.shape[i] == t.shape[a]]
    x = reshaped(x, [x.shape[i] for i in kept])
    return ops.Broadcast(x, t.shape, tuple(axes[i] for i in kept))


@reads("stablehlo.concatenate")
def concatenate(node: Node, xs: Sequence[Value], place: Place) -> Results:
    """Joined along an axis."""
    return ops.Concat(tuple(xs), node.attributes["dimension"])


@reads("stablehlo.slice")
def cut(node: Node, xs: Sequence[Value], place: Place) -> Results:
    """A window with steps."""
    a = node.attributes
    return ops.Slice(xs[0], tuple(a["start_indices"]), node.types[0].shape, tuple(a["strides"]))


@reads("stablehlo.reverse")
def reverse(node: Node, xs: Sequence[Value], place: Place) -> Results:
    """Some axes backwards."""
    return backwards(xs[0], node.attributes["dimensions"])


def backwards(x: Value, axes: Sequence[int]) -> Value:
    """Some axes from the last element to the first."""
    turned = [i in axes and x.shape[i] != 0 for i in range(x.type.rank)]
    starts = tuple(n - 1 if t else 0 for n, t in zip(x.shape, turned, strict=True))
    return ops.Slice(x, starts, x.shape, tuple(-1 if t else 1 for t in turned))


@reads("stablehlo.optimization_barrier")
def barrier(node: Node, xs: Sequence[Value], place: Place) -> Results:
    """The operands themselves."""
    return tuple(xs)


@reads("stablehlo.dot_general", "stablehlo.dot")
def product(node: Node, xs: Sequence[Value], place: Place) -> Results:
    """A contraction, brought to one batched product of matrices."""
    (t,) = node.types
    x, y = (v if v.dtype == t.dtype else ops.Cast(v, t.dtype) for v in xs)
    numbers = node.attributes.get("dot_dimension_numbers", {})
    if node.name.endswith(".dot"):
        numbers = {
            "lhs_contracting_dimensions": [x.type.rank - 1],
            "rhs_contracting_dimensions": [0],
        }
    batch_x, batch_y, over_x, over_y = (
        numbers.get(f"{side}_{what}_dimensions", [])
        for what in ("batching", "contracting")
        for side in ("lhs", "rhs")
    )
    free_x = [i for i in range(x.type.rank) if i not in (*batch_x, *over_x)]
    free_y = [i for i in range(y.type.rank) if i not in (*batch_y, *over_y)]
    lead = [x.shape[i] for i in batch_x]
    count = math.prod(int(x.shape[i]) for i in over_x)
    m, n = (math.prod(int(v.shape[i]) for i in f) for v, f in ((x, free_x), (y, free_y)))
    left = reshaped(permuted(x, [*batch_x, *free_x, *over_x]), (*lead, m, count))
    right = reshaped(permuted(y, [*batch_y, *over_y, *free_y]), (*lead, count, n))
    return reshaped(ops.Matmul(left, right), t.shape)


# -- folds ----------------------------------------------------------------------------------------


@reads("stablehlo.reduce")
def reduce(node: Node, xs: Sequence[Value], place: Place) -> Results:
    """A fold: one of the language's reductions, an argmax, or a fold with a region."""
    half = len(xs) // 2
    values, starts = xs[:half], xs[half:]
    axes = tuple(sorted(node.attributes["dimensions"]))
    (block,) = node.regions
    if half == 1 and len(block.nodes) == 1:
        return folded(simple(block, node.name), values[0], starts[0], axes)
    if half == 2 and (found := _argument(block, values, axes)) is not None:
        return found
    return folded_by_region(node, values, starts, axes, place)


def folded(name: str, x: Value, start: Value, axes: tuple[int, ...]) -> Value:
    """A reduction of the language, and then the number that the fold starts from."""
    kind, pair, identity = fold_named(name, x)
    found = kind(x, axes)
    if scalar_value(start) is not None and scalar_value(start) == identity(x.dtype):
        return found
    both = ops.Broadcast(start, found.shape, ()) if found.shape else start
    if x.dtype.kind == "b":
        return ops.Or(found, both) if pair is ops.Maximum else ops.And(found, both)
    return pair(found, both)


def fold_named(name: str, x: Value) -> tuple[Any, type[Op], Callable[[Any], float]]:
    """The reduction, the operation of two numbers and the identity."""
    name = ON_BOOLS.get(name, name) if x.dtype.kind == "b" else name
    if name not in FOLDS:
        raise unreadable("stablehlo.reduce", f"its region is {name}")
    return FOLDS[name]


def _argument(
    block: Block, values: Sequence[Value], axes: tuple[int, ...]
) -> tuple[Value, ...] | None:
    """Where an extreme is, as JAX writes it: a fold of elements with their positions."""
    names = tuple(n.name.removeprefix("stablehlo.") for n in block.nodes)
    if names not in (ARG, ARG_OF_INTEGERS) or len(axes) != 1 or not _counts(values[1], axes[0]):
        return None
    largest = block.nodes[0].attributes["comparison_direction"] in ("GT", "GE")
    best, where = (ops.Max, ops.ArgMax) if largest else (ops.Min, ops.ArgMin)
    at = where(values[0], axes)
    place = at if at.dtype == values[1].dtype else ops.Cast(at, values[1].dtype)
    return best(values[0], axes), place


def _counts(x: Value, axis: int) -> bool:
    return isinstance(x, ops.Broadcast) and isinstance(x.x, ops.Iota) and x.axes == (axis,)


def folded_by_region(
    node: Node, xs: Sequence[Value], starts: Sequence[Value], axes: tuple[int, ...], place: Place
) -> Results:
    """A fold with the region of an operation, whose numbers to start from are known."""
    numbers = [scalar_value(v) for v in starts]
    if any(n is None for n in numbers):
        raise unreadable(node.name, "it starts from a value that is not known")
    (block,) = node.regions
    params = [Param(TensorType(x.dtype), f"p{i}") for i, x in enumerate((*xs, *xs))]
    with (builder := Builder()):
        out = place.blocks.run(block, params, place.env)
    if not all(isinstance(op, ops.Elementwise | ops.Constant) for op in builder.ops):
        raise unreadable(node.name, "its region is not element-wise")
    region = Function("combine", tuple(params), tuple(builder.ops), out)
    identities = tuple(n.item() if n.dtype.kind in "biu" else float(n) for n in numbers)
    return ops.Fold(tuple(xs), identities, region, axes).results


# -- sorts ----------------------------------------------------------------------------------------


@reads("stablehlo.sort")
def sort(node: Node, xs: Sequence[Value], place: Place) -> Results:
    """A sort by one of the operands; the others move along."""
    (block,), axis = node.regions, node.attributes["dimension"]
    key, descending = _key(block, node.name)
    last = xs[0].type.rank - 1
    order = [*(i for i in range(last + 1) if i != axis), axis]
    back = [order.index(i) for i in range(last + 1)]
    moved = [permuted(x, order) for x in xs]
    values, at = ops.Sort(moved[key], descending).results
    found = [
        values if i == key else ops.Gather(x, at, last, last, "clip") for i, x in enumerate(moved)
    ]
    return tuple(permuted(x, back) for x in found)


def _key(block: Block, name: str) -> tuple[int, bool]:
    """The operand that a comparison looks at, and whether the larger goes first."""
    node = _nan_last(block) or root(block)
    if node is None or node.name != "stablehlo.compare":
        raise unreadable(name, "it compares by several keys")
    left, right = (_params(block, v) for v in node.operands)
    direction = node.attributes["comparison_direction"]
    if len(left) != 1 or len(right) != 1 or direction not in ("LT", "GT"):
        raise unreadable(name, "its comparison is not that of two elements")
    (a,), (b,) = left, right
    if a // 2 != b // 2:
        raise unreadable(name, "it compares different operands")
    return a // 2, (direction == "GT") != (a > b)


def _nan_last(block: Block) -> Node | None:
    """The comparison in ``a < b or (b is NaN and a is not)``, as dlvm itself writes it."""
    less = next((n for n in block.nodes if n.name == "stablehlo.compare"), None)
    if len(block.nodes) != 6 or less is None or not block.returned:
        return None
    pair = max(_params(block, less.operands[0]), default=0) // 2 * 2
    a, b = block.params[pair : pair + 2]
    here = _formula(block, less.results[0])
    unlike = ("not", ("compare", "EQ", b, b))
    wanted = ("or", here, ("and", unlike, ("compare", "EQ", a, a)))
    return less if _formula(block, block.returned[0]) == wanted else None


def _formula(block: Block, value: int) -> Any:
    """How a value is computed: a parameter, or an operation with the formulas of its operands."""
    node = next((n for n in block.nodes if value in n.results), None)
    if node is None:
        return value
    direction = node.attributes.get("comparison_direction")
    words = [node.name.removeprefix("stablehlo."), *([direction] if direction else [])]
    return *words, *(_formula(block, v) for v in node.operands)


def _params(block: Block, value: int) -> set[int]:
    """The positions of the parameters that a value is computed from."""
    if value in block.params:
        return {block.params.index(value)}
    node = next((n for n in block.nodes if value in n.results), None)
    return set[int]().union(*(_params(block, v) for v in node.operands)) if node else set()


@reads("chlo.top_k")
def top_k(node: Node, xs: Sequence[Value], place: Place) -> Results:
    """The first of a descending sort."""
    (x,), last = xs, xs[0].type.rank - 1
    values, at = ops.Sort(x, True).results
    starts, ones = (0,) * (last + 1), (1,) * (last + 1)
    parts = [ops.Slice(v, starts, node.types[0].shape, ones) for v in (values, at)]
    return parts[0], ops.Cast(parts[1], node.types[1].dtype)
