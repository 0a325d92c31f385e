"""Where ranks run: how many there may be, and how the launcher is started for them."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from dlvm.target import cores

from .hydra import found

T = TypeVar("T")


class Place(Protocol):
    """Some machines on which ranks run."""

    def room(self) -> int:
        """How many ranks have a core each at the first start."""
        ...

    def left(self, count: int) -> int:
        """How many ranks may be started again after one of ``count`` was killed."""
        ...

    def threads(self, count: int) -> int:
        """How many threads each of so many ranks has."""
        ...

    def start(
        self, count: int, told: Sequence[str], env: Mapping[str, str], output: int | None
    ) -> subprocess.Popen[Any]:
        """Starts the launcher of so many ranks, with arguments that end with their command.

        Its standard output goes to ``output``, or where that of this process goes.
        """
        ...

    def close(self) -> None:
        """Gives back what was taken for all starts."""
        ...

    def each(self, asked: Callable[..., T], *given: Any) -> list[T]:
        """What a function gives on each machine, where it sees the ranks of that machine."""
        ...


class Here:
    """This machine.

    It loses no core where a rank is killed, often for want of memory, of which fewer ranks have
    more each.
    """

    def __init__(self) -> None:
        self.launcher = found()

    def room(self) -> int:
        """The cores that this process may use."""
        return cores()

    def left(self, count: int) -> int:
        """One rank fewer."""
        return count - 1

    def threads(self, count: int) -> int:
        """The share of a rank in the cores."""
        return max(1, cores() // count)

    def start(
        self, count: int, told: Sequence[str], env: Mapping[str, str], output: int | None
    ) -> subprocess.Popen[Any]:
        """Starts the launcher, which starts all ranks itself."""
        return subprocess.Popen([self.launcher, "-n", str(count), *told], env=env, stdout=output)

    def close(self) -> None:
        """Nothing was taken."""

    def each(self, asked: Callable[..., T], *given: Any) -> list[T]:
        """What a function gives here."""
        return [asked(*given)]
