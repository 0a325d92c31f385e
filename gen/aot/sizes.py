"""Open sizes of a call that no memory has room for: refused before anything is computed with them.

What an address or a number of bytes is computed of must not overflow, or it would lie inside of
memory that is someone else's. All of it is at most what the arguments, the results and the scratch
take together, which is added up here with every overflow noticed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dlvm.gen.text.module import FunctionWriter
from dlvm.ir import Dim
from dlvm.ir.sizes.dims import Call, terms_of

NEGATIVE = -4
"""The status of a call with an open size below zero: nothing is read or written."""
TOO_LARGE = -5
"""The status of a call whose arrays would be larger than memory can be."""


def refuse(
    w: FunctionWriter,
    sizes: Sequence[tuple[str, str]],
    bytes_: Iterable[Dim],
    word: int,
    kind: str,
    statuses: tuple[int, int] = (NEGATIVE, TOO_LARGE),
) -> None:
    """Returns at once where an open size is negative, or so large that ``bytes_`` are too many."""
    if not sizes:
        return
    signs = f"%s.{sizes[0][0]}"  # the highest bit is set where any size is negative
    for name, _ in sizes[1:]:
        signs = w.value(f"or i64 {signs}, %s.{name}", w.head)
    _refused(w, w.value(f"icmp slt i64 {signs}, 0", w.head), f"{kind} {statuses[0]}")
    bound = _Bound(w, {symbol: f"%s.{name}" for name, symbol in sizes})
    total = bound.sum(bytes_)
    room = (1 << 62) if word == 64 else (1 << 31)
    over = w.value(f"icmp ugt i64 {total}, {room}", w.head)
    for flag in bound.overflows:
        over = w.value(f"or i1 {over}, {flag}", w.head)
    _refused(w, over, f"{kind} {statuses[1]}")


def _refused(w: FunctionWriter, condition: str, status: str) -> None:
    refuse, accept = w.name("refuse"), w.name("accept")
    w.head.append(f"  br i1 {condition}, label %{refuse}, label %{accept}")
    w.head.append(f"{refuse}:\n  ret {status}\n{accept}:")


class _Bound:
    """Sums of products of sizes that are not negative, with factors taken without their signs."""

    def __init__(self, w: FunctionWriter, sizes: dict[str, str]) -> None:
        self.w, self.sizes = w, sizes
        self.overflows: list[str] = []
        self._known: dict[tuple[str, str, str], str] = {}

    def sum(self, dims: Iterable[Dim]) -> str:
        """An upper bound of a sum of sizes."""
        total = "0"
        for dim in dims:
            for monomial, factor in terms_of(dim):
                product = str(abs(factor))
                for atom, power in monomial:
                    x = self._atom(atom)
                    for _ in range(power):
                        product = self._of("mul", product, x)
                total = self._of("add", total, product)
        return total

    def _atom(self, atom: str | Call) -> str:
        """A size, or an upper bound of a minimum, a maximum or a quotient of sizes."""
        return self.sizes[atom] if isinstance(atom, str) else self.sum((atom.lhs, atom.rhs))

    def _of(self, name: str, a: str, b: str) -> str:
        if (name, a) == ("add", "0") or (name, a) == ("mul", "1"):
            return b
        key = (name, a, b)
        if key not in self._known:
            word, both = f"llvm.u{name}.with.overflow.i64", "{i64, i1}"
            self.w.text.declarations.setdefault(word, f"declare {both} @{word}(i64, i64)")
            pair = self.w.value(f"call {both} @{word}(i64 {a}, i64 {b})", self.w.head)
            self.overflows.append(self.w.value(f"extractvalue {both} {pair}, 1", self.w.head))
            self._known[key] = self.w.value(f"extractvalue {both} {pair}, 0", self.w.head)
        return self._known[key]
