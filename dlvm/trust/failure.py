"""What it means that dlvm failed on a program, as plain data; everything else here is a client.

``examine`` finds a failure, ``blame`` gives it a law, a reproducer keeps it, ``reduce`` shrinks the
program while it stays the same one.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from dlvm.base.errors import Origin

KINDS = {
    "crash": "an exception in dlvm's own code",
    "refused": "a verifier refuses what was made",
    "answer": "a wrong answer",
    "died": "the process ends, or never does",
}


@dataclass(frozen=True, slots=True)
class Law:
    """The function that did it: a law, a rule, a pass, or where an exception came from."""

    name: str
    file: str
    line: int

    @staticmethod
    def of(function: Callable[..., Any]) -> Law:
        """The law that a function of ours is, by the line where it is written."""
        function = inspect.unwrap(getattr(function, "__func__", function))
        code = getattr(function, "__code__", None)
        name = function.__qualname__.split(".<locals>")[0]
        if code is None:
            return Law(name, "", 0)
        return Law(name, short(code.co_filename), code.co_firstlineno)

    def __str__(self) -> str:
        return f"{self.name}, {self.file}:{self.line}" if self.file else self.name


def short(file: str) -> str:
    """The name of a file of ours with its folders in the package; of others as it is."""
    _, found, rest = file.rpartition("/dlvm/")
    if found:
        return f"dlvm/{rest}"
    parts = file.rsplit("/", 2)
    return "/".join(parts[-2:]) if len(parts) > 2 else file


@dataclass(frozen=True, slots=True)
class Failure:
    """One failure: of what kind, at which stage, and as far as it is known by whose fault.

    ``stage`` is ``trace`` while Python runs, ``differentiate``, ``interpret`` where a reference
    fails, the name of a pass, or a stop of the second half of the road: ``lower``, ``coalesce``,
    ``memory``, ``emit``, ``machine``. ``before`` and ``after`` are what the law was given and what
    it made of it.
    """

    kind: str
    stage: str
    message: str
    law: Law | None = None
    origin: Origin | None = None
    position: int | None = None
    before: str = ""
    after: str = ""
    note: str = ""

    @property
    def same(self) -> tuple[str, ...]:
        """Equal for failures that are the same fault seen through different programs."""
        thrown = self.law.name if self.kind == "crash" and self.law else ""
        return self.kind, self.stage, thrown

    def blamed(self, **facts: Any) -> Failure:
        """The same failure, with more known about it."""
        return replace(self, **facts)

    def to_dict(self) -> dict[str, Any]:
        """As JSON takes it."""
        return asdict(self)

    @staticmethod
    def from_dict(found: Mapping[str, Any]) -> Failure:
        """What ``to_dict`` gave."""
        facts = dict(found)
        facts["law"] = Law(**facts["law"]) if facts.get("law") else None
        facts["origin"] = Origin(**facts["origin"]) if facts.get("origin") else None
        return Failure(**facts)

    def __str__(self) -> str:
        lines = [f"{KINDS[self.kind]}: {self.message}", f"  stage  {self.stage}"]
        if self.position is not None:
            lines[-1] += f", step {self.position} of the pipeline"
        if self.law:
            lines.append(f"  law    {self.law}")
        if self.origin:
            lines.append(f"  line   {self.origin}   {self.origin.shown()}".rstrip())
        lines += _indented("before", self.before) + _indented("after", self.after)
        if self.note:
            lines.append(f"  note   {self.note}")
        return "\n".join(lines)


def _indented(name: str, text: str) -> list[str]:
    first, *rest = text.splitlines() or [""]
    return [f"  {name:6} {first}", *(f"         {line}" for line in rest)] if text else []
