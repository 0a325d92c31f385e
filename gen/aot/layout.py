"""What the C function of a program takes, in order, and what lies where in its regions.

Arguments come first, by value where they are single numbers, then results, then open sizes, then
``weights``, which are read only, and ``scratch``. An argument that a result overwrites is *state*,
as are captured arrays that the user names; what they start from is written beside the weights.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from dlvm.base.errors import UserError
from dlvm.gen.call.interface import Interface
from dlvm.ir import Array, TensorType

LINE = 64
"""Where arrays in a region start: at multiples of so many bytes."""
WORDS = """
    alignas alignof and asm auto bool break case catch char class const constexpr continue
    default delete do double else enum explicit export extern false float for friend goto if
    inline int long mutable namespace new not nullptr operator or private protected public
    register restrict return short signed sizeof static struct switch template this throw true
    try typedef typeid typename union unsigned using virtual void volatile while xor weights
    scratch
"""
KEYWORDS = frozenset(WORDS.split())
"""What no argument may be called in C and C++, and our own."""


@dataclass(frozen=True, slots=True)
class Slot:
    """An argument of the C function: its name there, what it is called in Python, and its type.

    ``index`` counts parameters of the program, or its results. ``start`` is what it starts from.
    """

    name: str
    label: str
    type: TensorType
    index: int
    state: bool = False
    by_value: bool = False
    start: Array | None = None


@dataclass(frozen=True, slots=True)
class Weight:
    """An array that lies in the region of weights: a parameter, or a constant of the program."""

    label: str
    array: Array
    offset: int
    param: int | None
    constant: int | None = None


@dataclass(frozen=True, slots=True)
class Layout:
    """All of it; ``overwritten`` tells for each result which argument it is, if it is one."""

    name: str
    arguments: tuple[Slot, ...]
    results: tuple[Slot, ...]
    overwritten: tuple[int | None, ...]
    sizes: tuple[tuple[str, str], ...]
    """Open sizes: their names in C and in the program."""
    weights: tuple[Weight, ...]

    @property
    def weight_bytes(self) -> int:
        """How large the region of weights is."""
        return max((up(w.offset + w.array.nbytes) for w in self.weights), default=0)

    @property
    def states(self) -> list[tuple[Slot, int]]:
        """What a program starts from, and where that lies in the file of the state."""
        found: list[tuple[Slot, int]] = []
        at = 0
        for slot in self.arguments:
            if slot.state and slot.start is not None:
                found.append((slot, at))
                at = up(at + slot.start.nbytes)
        return found


def up(size: int) -> int:
    """The next place where an array may start."""
    return -(-size // LINE) * LINE


def image(arrays: Iterable[tuple[Array, int]]) -> bytes:
    """Arrays at their places, with zeros between."""
    out = bytearray()
    for array, offset in arrays:
        out.extend(bytes(offset - len(out)))
        out.extend(np.ascontiguousarray(array).tobytes())
    out.extend(bytes(up(len(out)) - len(out)))
    return bytes(out)


def layout(
    name: str,
    interface: Interface,
    labels: Sequence[str],
    arrays: Sequence[Array | None],
    captured: int,
    results: Sequence[str],
    state: Sequence[str],
) -> Layout:
    """The layout of a program whose last ``captured`` parameters are arrays that it captures."""
    names = _Names()
    first = len(interface.params) - captured
    overwrites = [r.overwrites for r in interface.results]
    missing = [s for s in state if s not in labels[first:]]
    if missing:
        known = ", ".join(labels[first:]) or "nothing"
        raise UserError(
            f"state={tuple(state)!r}: {name} captures {known}, found {missing[0]!r}",
            remedy="name captured arrays as they are written in the function",
        )
    arguments: list[Slot] = []
    weights: list[Weight] = []
    end = 0
    for i, p in enumerate(interface.params):
        own, array = i < first, arrays[i]
        if own or labels[i] in state:
            changes = not own or i in overwrites or p.donated
            value = own and not changes and p.type.rank == 0
            slot = Slot(names.of(labels[i]), labels[i], p.type, i, changes, value, array)
            arguments.append(slot)
        else:
            assert array is not None
            weights.append(Weight(labels[i], array, end, i))
            end = up(end + array.nbytes)
    for j, constant in enumerate(interface.constants):
        weights.append(Weight(f"constant {j}", constant, end, None, j))
        end = up(end + constant.nbytes)
    made = tuple(
        Slot(names.of(results[j]), results[j], r.type, j)
        for j, r in enumerate(interface.results)
        if r.overwrites is None
    )
    sizes = tuple((names.of(s), s) for s in interface.symbols)
    return Layout(name, tuple(arguments), made, tuple(overwrites), sizes, tuple(weights))


class _Names:
    """C names for what Python writes, each once."""

    def __init__(self) -> None:
        self._used: set[str] = set(KEYWORDS)

    def of(self, label: str) -> str:
        """``params['w'][0]`` is ``params_w_0``."""
        plain = re.sub(r"\W+", "_", label.encode("ascii", "ignore").decode()).strip("_") or "x"
        plain = f"_{plain}" if plain[0].isdigit() else plain
        found, count = plain, 2
        while found in self._used:
            found, count = f"{plain}_{count}", count + 1
        self._used.add(found)
        return found
