"""Failures of dlvm as plain data, which all other files of this package produce or use.

``examine`` finds a failure, ``blame`` adds the responsible law, a reproducer stores it, and
``reduce`` shrinks the program as long as the failure remains the same.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from dlvm.base.errors import Origin

SECONDS = 60.0
"""Time limit for one examination, in seconds."""

KINDS = {
    "crash": "an exception in dlvm's own code",
    "refused": "a verifier rejects the program of a stage",
    "answer": "a wrong answer",
    "died": "the process dies or hangs",
}


@dataclass(frozen=True, slots=True)
class Law:
    """The responsible function: a rewrite or derivative rule, a pass, or what raised an error."""

    name: str
    file: str
    line: int

    @staticmethod
    def of(function: Callable[..., Any]) -> Law:
        """The law for one of dlvm's functions, with the line of its definition."""
        function = inspect.unwrap(getattr(function, "__func__", function))
        code = getattr(function, "__code__", None)
        name = function.__qualname__.split(".<locals>")[0]
        if code is None:
            return Law(name, "", 0)
        return Law(name, short(code.co_filename), code.co_firstlineno)

    def __str__(self) -> str:
        return f"{self.name}, {self.file}:{self.line}" if self.file else self.name


def short(file: str) -> str:
    """The path of a file within the package; for other files, the last two parts of the path."""
    file = file.replace(os.sep, "/")
    _, found, rest = file.rpartition("/dlvm/")
    if found:
        return f"dlvm/{rest}"
    parts = file.rsplit("/", 2)
    return "/".join(parts[-2:]) if len(parts) > 2 else file


@dataclass(frozen=True, slots=True)
class Failure:
    """One failure: its kind, the stage at which it occurred and, if known, the responsible law.

    ``stage`` is ``trace`` while Python runs, ``differentiate``, ``interpret`` if a reference fails,
    the name of a pass, or a stage after the last module: ``lower``, ``coalesce``, ``memory``,
    ``emit``, ``machine``. ``before`` and ``after`` are the operations that the law was given, and
    its result.
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
        """A key that is equal for failures that are one bug, seen through other programs."""
        thrown = self.law.name if self.kind == "crash" and self.law else ""
        return self.kind, self.stage, thrown

    def blamed(self, **facts: Any) -> Failure:
        """The same failure with more facts filled in."""
        return replace(self, **facts)

    def to_dict(self) -> dict[str, Any]:
        """The failure as data for JSON."""
        return asdict(self)

    @staticmethod
    def from_dict(found: Mapping[str, Any]) -> Failure:
        """The failure for the data that ``to_dict`` returned."""
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
