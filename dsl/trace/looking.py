"""``dlvm.debug(nans=True)`` after a call: finds the operation that made the first NaN
or infinity.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from dlvm.base.debugging import Looks
from dlvm.base.errors import NotFinite, UserError
from dlvm.ir import Array, Module, Value

if TYPE_CHECKING:
    from dlvm.trust.replay import Bad

Stops = Sequence[Callable[[], Module]]


def kept(arrays: Sequence[Array], donated: Sequence[int]) -> list[Array]:
    """Copies of the arguments before the call, because donated ones are overwritten."""
    return [np.array(a) if i in donated else a for i, a in enumerate(arrays)]


def look(
    stops: Stops,
    arrays: Sequence[Array],
    labels: Sequence[str],
    found: Sequence[Array],
    looks: Looks,
) -> None:
    """Raises the error that names the operation if a result has an element that is looked for.

    The first of ``stops`` is the traced program; the others are later stages of it that can run.
    """
    from dlvm.trust import replay  # with the first error

    wanted = (looks.nans, looks.infs)
    bad = {
        (True, False): replay.not_a_number,
        (False, True): replay.infinite,
        (True, True): replay.not_finite,
    }[wanted]
    if any(replay.shows(x, bad) for x in found):
        raise _explained(stops, arrays, labels, bad)


def _explained(stops: Stops, arrays: Sequence[Array], labels: Sequence[str], bad: Bad) -> UserError:
    """Runs the traced and the optimised program by the references of the operations, to explain."""
    from dlvm.trust import replay  # with the first error

    traced, *forms = stops
    for form in forms:
        module = form()
        shown, made = replay.culprit(module, traced(), arrays, bad)
        if made is not None:
            names = dict[Value, str](zip(module.main.params, labels, strict=False))
            _, first = replay.culprit(module, traced(), arrays, replay.not_finite)
            earlier = first if first is not None and first.op is not made.op else None
            return replay.accuse(made, bad, names, earlier if made.from_infinities else None)
        came = replay.given_bad(arrays, labels, bad) if shown else None
        if came is not None:
            return came
    return NotFinite(
        "a result is not finite by machine code, and is by the references",
        notes=tuple(f"{n}: {replay.described(a)}" for n, a in zip(labels, arrays, strict=True)),
        remedy="numbers are so large that the order of operations matters: scale them down",
    )
