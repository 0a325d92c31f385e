"""Kernels in sizes of their own: a layer of half an image is the layer of an image.

Sizes of a program that follow from one another, as ``floordiv(h-1,2)+1`` from ``h``, make every
offset of a kernel long. A symbol that a kernel needs in such expressions alone becomes a size of
the kernel's own, and each launch says what it is there. Equal layers of images of other sizes have
one code then.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from dlvm.ir import Dim, Function
from dlvm.ir.rewrite import sizes_in
from dlvm.ir.sizes.dims import (
    Atom,
    Call,
    atoms_of,
    bounds,
    canonical,
    divide_exactly,
    floordiv,
    names_of,
    symbol,
)


def own_sizes(body: Function) -> tuple[Mapping[Atom, Dim], Mapping[str, Dim]]:
    """What factors of the sizes of a kernel are in sizes of its own, and what these are here."""
    around: dict[str, set[Atom]] = {}
    for d in sizes_in(body):
        for atom in atoms_of(d):
            for name in names_of(atom):
                around.setdefault(name, set()).add(atom)
    values, here = dict[Atom, Dim](), dict[str, Dim]()
    for name, atoms in sorted(around.items()):
        if (found := _own(name, atoms)) is not None:
            own, here[name] = found
            values |= own
    return values, here


def _own(name: str, atoms: set[Atom]) -> tuple[dict[Atom, Dim], Dim] | None:
    """What calls of a symbol are of a size of the kernel's own, and what that is of the symbol.

    There is one call, or they are quotients by multiples of the smallest divisor. One that has a
    largest value stays, as a size of the kernel's own has none.
    """
    calls = sorted((a for a in atoms if isinstance(a, Call) and {*a.names()} == {name}), key=_size)
    if len(calls) < len(atoms):
        return None
    first = calls[0]
    least, most = bounds(whole := canonical({((first, 1),): 1}))
    if least == -math.inf or most < math.inf:
        return None
    own = [_of(symbol(name) + int(least), c, first) for c in calls]
    if None in own:
        return None
    return {c: d for c, d in zip(calls, own, strict=True) if d is not None}, whole - int(least)


def _size(call: Call) -> tuple[Any, ...]:
    return (call.rhs if isinstance(call.rhs, int) else 0), str(call)


def _of(first_is: Dim, call: Call, first: Call) -> Dim | None:
    """A call in terms of what the first one is: ``(n+3)//6`` is ``(n//3 + 1)//2``."""
    if call == first:
        return first_is
    by, apart = first.rhs, call.lhs - first.lhs
    quotients = call.function == first.function == "floordiv"
    if not quotients or not isinstance(by, int) or not isinstance(apart, int) or apart % by:
        return None
    ratio = divide_exactly(call.rhs, by)
    return None if ratio is None else floordiv(first_is + apart // by, ratio)
