"""What depends on known arrays alone is computed when the program is made, not at each call.

The arrays of a loaded model, and those that ``f.bind`` fixed, are constants of a program. This pass
splits what is computed of them from the rest: values that the rest reads become constants
themselves, each with the ``Recipe`` by which it was computed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dlvm.cost import Work, size_in_bytes, work
from dlvm.ir import Array, Builder, Function, Module, Op, Param, Value
from dlvm.ir.recipe import Recipe
from dlvm.ir.rewrite import Env, place, transform
from dlvm.ir.sizes.dims import evaluate
from dlvm.ops import Constant
from dlvm.ops.families import Creation, IndexMap
from dlvm.ops.literals import LOOKED_AT, TOLD, constant_array, unread
from dlvm.ops.patterns import is_transpose
from dlvm.opt.beforehand import same_everywhere
from dlvm.passes import function_pass


@function_pass
def prepare(fn: Function) -> Function:
    """Compute what depends on large constants only, where keeping it is worth its memory.

    Such are the weights of a convolution in the order in which its product reads them, and weights
    that are cast or scaled. A value is kept if computing it in each call takes longer than reading
    what it is larger by than the constants that it is computed of; so repetitions are not kept.
    Parts and transposed matrices are read where they are. Only what every machine computes to the
    same bits is computed here.
    """
    known = _Known(fn)
    kept = known.kept()
    if not kept:
        return fn

    def visit(op: Op, env: Env) -> Iterable[Value] | None:
        return (_computed(known.recipe(op)),) if op in kept else None

    return transform(fn, visit)


def recipes(module: Module) -> Iterator[tuple[Array, Recipe]]:
    """The prepared arrays of a module, each with how it was computed."""
    for fn in module.functions:
        for op in fn.walk():
            array = constant_array(op)
            if array is not None and isinstance(op, Creation) and op.recipe is not None:
                yield array, op.recipe


def _computed(recipe: Recipe) -> Op:
    made = Constant(recipe(), known=True)
    made.__dict__["recipe"] = recipe  # which is no attribute: it is not in its text
    return made


class _Known:
    """The operations of a function whose results depend on constants only."""

    def __init__(self, fn: Function) -> None:
        self.fn = fn
        self._places = {op: i for i, op in enumerate(fn.ops)}
        self.ops: set[Value] = set()
        self._unread: set[Value] = set()
        """Those that depend on constants whose elements may be others."""
        self._large: set[Value] = set()
        """Those that depend on these, or on other large constants."""
        for op in fn.ops:
            if same_everywhere(op) and self.ops.issuperset(op.operands):
                self.ops.add(op)
                if unread(op) or not self._unread.isdisjoint(op.operands):
                    self._unread.add(op)
                if _source(op) is not None or not self._large.isdisjoint(op.operands):
                    self._large.add(op)

    def kept(self) -> set[Op]:
        """The operations whose results become constants."""
        kept: set[Op] = set()
        wanted = set(self.fn.results)
        for op in reversed(self.fn.ops):
            if op not in self.ops:
                wanted.update(op.operands)
            elif op in wanted and op in self._large and constant_array(op) is None:
                if self._is_worth(op):
                    kept.add(op)
                else:
                    wanted.update(op.operands)
        return kept

    def _is_worth(self, op: Op) -> bool:
        if is_transpose(op) or _is_a_part(op):
            return False
        if op in self._unread and not (op.dtype.is_float and evaluate(op.type.size, {}) > TOLD):
            return False  # code may depend on the elements of such a constant
        cone = self._cone(op)
        sources = sum(_bytes(o) for o in cone if constant_array(o) is not None)
        more = Work(bytes=_bytes(op) - sources)
        return Work.sum(map(work, cone)).time >= more.time

    def _cone(self, op: Op) -> list[Op]:
        """All that a result is computed of, itself last."""
        found: set[Op] = {op}
        pending = [op]
        while pending:
            more = [x for x in pending.pop().operands if isinstance(x, Op) and x not in found]
            found.update(more)
            pending += more
        return sorted(found, key=self._places.__getitem__)

    def recipe(self, op: Op) -> Recipe:
        """How a result is computed of large constants."""
        params, arrays = list[Param](), list[Array]()
        env: Env = {}
        builder = Builder()
        for o in self._cone(op):
            if (array := _source(o)) is not None:
                params.append(Param(o.type, f"known{len(params)}"))
                arrays.append(array)
                env[o] = params[-1]
            else:
                place(builder, o, env)
        fn = Function("prepared", tuple(params), tuple(builder.ops), (env.get(op, op),))
        return Recipe(Module((fn,)), tuple(arrays))


def _is_a_part(op: Op) -> bool:
    """Whether a result is some of the elements of its operand, which kernels read in place."""
    if not isinstance(op, IndexMap) or not op.everywhere:
        return False
    return _bytes(op) < sum(evaluate(size_in_bytes(x.type), {}) for x in op.operands)


def _source(op: Op) -> Array | None:
    """The array of a constant with which no law computes."""
    array = constant_array(op)
    return array if array is not None and (unread(op) or array.size > LOOKED_AT) else None


def _bytes(op: Op) -> int:
    return evaluate(size_in_bytes(op.type), {})
