"""What the writers of all formats share: values by name, sizes that are open, functions in place.

A format has no calls of ours, so that each function and each body is written where it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from dlvm.base.errors import ShapeError
from dlvm.ir import Dim, Function, Op, TensorType, Value, as_tuple
from dlvm.ir.sizes import dims
from dlvm.ir.sizes.dims import Expr


@dataclass(frozen=True)
class TypedName:
    """A value in the text of a format, with its type."""

    name: str
    type: TensorType


Body = Callable[[tuple[TypedName, ...]], Sequence[TypedName]]
Inline = Callable[[Function, Sequence[TypedName]], tuple[TypedName, ...]]
Write = Callable[[Op, Sequence[TypedName]], TypedName | tuple[TypedName, ...]]


def inlined(fn: Function, arguments: Sequence[TypedName], write: Write) -> tuple[TypedName, ...]:
    """Writes the operations of a function on these arguments; returns its results."""
    env: dict[Value, TypedName] = dict(zip(fn.params, arguments, strict=True))
    for op in fn.ops:
        out = write(op, [env[v] for v in op.operands])
        env.update(zip(op.results, as_tuple(out), strict=True))
    return tuple(env[v] for v in fn.results)


class Sizes(dict[Dim, TypedName]):
    """The values of sizes that are open; a symbol is read from the shape of an argument."""

    def know(self, symbol: str, size: TypedName) -> None:
        """States the value of a symbol."""
        self[dims.symbol(symbol)] = size

    def symbol(self, name: str) -> TypedName:
        """The value of a symbol; refuses one that no argument has as a size of its own."""
        if (size := self.get(dims.symbol(name))) is None:
            raise ShapeError(
                f"the size {name} can't be read from the shape of an argument",
                remedy="add a parameter whose shape has this symbol as a size of its own",
            )
        return size


def symbols_of(param: TypedName) -> Iterator[tuple[int, str]]:
    """The axes of an argument whose size is a symbol, with that symbol."""
    for axis, size in enumerate(param.type.shape):
        if isinstance(size, Expr) and str(size).isidentifier():
            yield axis, str(size)
