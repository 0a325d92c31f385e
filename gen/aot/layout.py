"""What the C function of a program takes, in order, and what lies where in its regions.

Arguments come first, by value where they are single numbers, then results, then open sizes, then
``weights``, which are read only, and ``scratch``. An argument that a result overwrites is *state*,
as are captured arrays that the user names; what they start from is written beside the weights.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dlvm.base.errors import UserError
from dlvm.gen.call.interface import Interface
from dlvm.ir import Array, Dim, TensorType

from .names import argument_names

LINE = 64
"""Where arrays in a region start: at multiples of so many bytes."""


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
    def taken(self) -> list[Dim]:
        """The bytes of each argument and result."""
        return [s.type.size * s.type.dtype.bytes for s in (*self.arguments, *self.results)]

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
    called: Mapping[int, str],
) -> Layout:
    """The layout of a program whose last ``captured`` parameters are arrays that it captures.

    ``called`` are those of constants, by the identities of their arrays.
    """
    first = len(interface.params) - captured
    overwrites = [r.overwrites for r in interface.results]
    missing = [s for s in state if s not in labels[first:]]
    if missing:
        known = ", ".join(labels[first:]) or "nothing"
        raise UserError(
            f"state={tuple(state)!r}: {name} captures {known}, found {missing[0]!r}",
            remedy="name captured arrays as they are written in the function",
        )
    kept = [i for i in range(len(labels)) if i < first or labels[i] in state]
    fresh = [j for j, r in enumerate(interface.results) if r.overwrites is None]
    texts = [labels[i] for i in kept] + [results[j] for j in fresh] + [*interface.symbols]
    names = iter(argument_names(texts, name))
    arguments: list[Slot] = []
    weights: list[Weight] = []
    end = 0
    for i, p in enumerate(interface.params):
        own, array = i < first, arrays[i]
        if i in kept:
            changes = not own or i in overwrites or p.donated
            value = own and not changes and p.type.rank == 0
            slot = Slot(next(names), labels[i], p.type, i, changes, value, array)
            arguments.append(slot)
        else:
            assert array is not None
            weights.append(Weight(labels[i], array, end, i))
            end = up(end + array.nbytes)
    for j, constant in enumerate(interface.constants):
        weights.append(Weight(called.get(id(constant), f"constant {j}"), constant, end, None, j))
        end = up(end + constant.nbytes)
    made = tuple(Slot(next(names), results[j], interface.results[j].type, j) for j in fresh)
    sizes = tuple((next(names), s) for s in interface.symbols)
    return Layout(name, tuple(arguments), made, tuple(overwrites), sizes, tuple(weights))
