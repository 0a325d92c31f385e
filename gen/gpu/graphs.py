"""Calls of a program as one launch each: graphs of launches, which the device keeps.

A graph holds the addresses of all that its launches touch. Memory of a pool recurs, so calls of a
loop have the same few sets of addresses; a set that recurs is captured, and others are launched one
by one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from dlvm.gen.program.steps import Copy, For, Launch, Step, walk

from .devices.driver import DriverError
from .layout import Layout

LEAST, MOST_LAUNCHES = 2, 8192
"""Launches of a call that is captured: for one a graph saves nothing, and thousands take memory."""
KEPT = 16
"""Sets of addresses of a program that are remembered."""
log = logging.getLogger("dlvm.gpu")


@runtime_checkable
class Captures(Protocol):
    """A device that keeps what is asked of it, and asks it again by one launch."""

    def captured(self, ask: Callable[[], object], about: str) -> Callable[[], None]:
        """What launches all that ``ask`` asks for; nothing of it runs now."""
        ...


def is_straight(steps: Iterable[Step]) -> bool:
    """Whether nothing that the device computes decides what steps ask of it."""
    return all(isinstance(step, Launch | Copy | For) for step in steps)


@dataclass(slots=True)
class Seen:
    """A set of addresses that was seen: the layout of the call, which stays, and its graph."""

    layout: Layout
    launch: Callable[[], None] | None = None


class Graphs:
    """Calls of a straight program on a device, or of straight loops, by what they depend on.

    These are the addresses of their memory, and of a loop itself and the sizes around it.
    """

    def __init__(self, device: Captures, about: str) -> None:
        self.device, self.about = device, about
        self._seen: dict[tuple[Hashable, ...], Seen] = {}
        self._straight: dict[int, bool] = {}
        self._off = False

    def takes(self, loop: For) -> bool:
        """Whether nothing inside a loop of the program waits for the device."""
        if id(loop) not in self._straight:
            self._straight[id(loop)] = is_straight(walk(loop.body))
        return self._straight[id(loop)]

    def run(self, layout: Layout, on: Sequence[Hashable], ask: Callable[[], int]) -> None:
        """What depends on all this; ``ask`` gives the number of its launches."""
        key = id(layout), *on
        seen = self._seen.get(key)
        if seen is not None:
            launch = seen.launch or self._captured(seen, ask)
            launch()
        elif LEAST <= ask() <= MOST_LAUNCHES and not self._off:
            while len(self._seen) >= KEPT:
                self._seen.pop(next(iter(self._seen)), None)
            self._seen[key] = Seen(layout)

    def _captured(self, seen: Seen, ask: Callable[[], int]) -> Callable[[], object]:
        """The graph of a call, or its launches one by one where the driver gives none."""
        try:
            seen.launch = self.device.captured(ask, self.about)
        except (DriverError, AttributeError) as error:  # an old driver lacks the functions
            log.warning("calls are not captured as graphs: %s", error)
            self._off = True
            self._seen.clear()
        return seen.launch or ask
