"""Copies donated arrays that may not be overwritten, counts the copies, and warns of them once."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np

from dlvm.base.elsewhere import Elsewhere, Lent
from dlvm.base.errors import DonationError
from dlvm.dsl.trace.warned import warned

log = logging.getLogger("dlvm.compile")
MANY = 8
"""Number of calls that copied at which the user is warned, even if others came between."""
SHOWN = 3
"""Number of arrays that the warning names."""


class Copies:
    """The copies that calls of one program make of the arrays that are ``donated`` to it.

    ``labels`` are the names of all arguments. One call that copies is not worth a warning, as what
    a loop starts from often has another name; two in a row are, and ``MANY``.
    """

    def __init__(self, function: str, labels: Sequence[str], donated: Sequence[int]) -> None:
        self.function, self.labels, self.donated = function, labels, donated
        self.calls = 0
        """Number of calls that copied what others can reach."""
        self.in_a_row = 0
        """Number of such calls since one that copied nothing."""
        self._made: dict[tuple[str, str], tuple[int, int]] = {}
        self._warned = False

    def of_shared(self, arrays: list[Any], shared: Sequence[int], to_device: bool) -> None:
        """Puts copies in place of donated arrays that are ``shared`` with others.

        What another library owns may be, as nobody here knows its views. Arrays of the host that go
        ``to_device`` are copied anyway.
        """
        copied: list[int] = []
        for i in self.donated:
            array = arrays[i]
            elsewhere = isinstance(array, Elsewhere)
            if (i in shared or isinstance(array, Lent)) and (elsewhere or not to_device):
                arrays[i] = array.copied() if elsewhere else np.array(array)
                self._note(i, array.nbytes, "another name may reach it")
                copied.append(i)
        self.in_a_row = self.in_a_row + 1 if copied else 0
        self.calls += bool(copied)
        if copied and not self._warned and (self.in_a_row == 2 or self.calls == MANY):
            self._warned = True
            self._warn([self.labels[i] for i in copied], sum(arrays[i].nbytes for i in copied))

    def of_unwritable(self, arrays: list[Any]) -> None:
        """The same for arrays that can't be overwritten; refuses two of the same memory."""
        for i in self.donated:
            flags = None if isinstance(arrays[i], Elsewhere) else arrays[i].flags
            if flags and not (flags.owndata and flags.writeable and flags.c_contiguous):
                why = "a view of other memory" if flags.writeable else "read-only"
                if (self.labels[i], why) not in self._made:
                    text = "%s is donated but %s: a copy is overwritten instead"
                    log.warning(text, self.labels[i], why)
                self._note(i, arrays[i].nbytes, why)
                arrays[i] = np.array(arrays[i], order="C")
        _check_apart(arrays, self.donated, self.labels)

    def lines(self) -> list[str]:
        """What there is to tell."""
        return [
            f"{name} was copied in {count} calls, {total} bytes in all: {why}"
            for (name, why), (count, total) in self._made.items()
        ]

    def _note(self, i: int, size: int, why: str) -> None:
        count, total = self._made.get((self.labels[i], why), (0, 0))
        self._made[self.labels[i], why] = count + 1, total + size

    def _warn(self, names: Sequence[str], size: int) -> None:
        more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
        warned(
            f"{self.function} copies {', '.join(names[:SHOWN])}{more}, {size} bytes "
            f"({self.calls} calls copied so far): they are donated, but another name may reach "
            "them after the call. Assign the result to the variable that is passed, as in "
            "net = step(net, x), and keep copies, as in best = dlvm.tree.map(np.copy, net)",
            None,
        )


def _check_apart(arrays: Sequence[Any], donated: Sequence[int], labels: Sequence[str]) -> None:
    """Refuses a donated array that shares memory with another argument."""
    for i in donated:
        for j, other in enumerate(arrays):
            if i != j and _overlap(arrays[i], other):
                raise DonationError(
                    f"{labels[i]} is donated, but it overlaps with {labels[j]}",
                    remedy="donate an array of its own, such as a copy",
                )


def _overlap(x: Any, y: Any) -> bool:
    """Whether two arguments share memory."""
    if isinstance(x, Elsewhere) or isinstance(y, Elsewhere):
        return isinstance(x, Elsewhere) and isinstance(y, Elsewhere) and x.overlaps(y)
    return np.may_share_memory(x, y)
