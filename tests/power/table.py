"""The table of ``docs/bugs-found.md``: each fault, the test that found it, and what that took."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .running import ENDED, Result

HEAD = "| fault | found by | seconds | seeds |\n|---|---|---|---|"


def table(results: Sequence[Result]) -> str:
    """A row for each fault."""
    names = dict.fromkeys(r.name for r in results)
    return "\n".join([HEAD, *(row for name in names for row in _rows(name, results))])


def _rows(name: str, results: Sequence[Result]) -> Iterator[str]:
    """The rows of a fault: one, unless the seeds differ in what found it."""
    own = [r for r in results if r.name == name]
    for by in dict.fromkeys(_test(r.by) for r in own):
        same = [r for r in own if _test(r.by) == by]
        seconds = sum(r.seconds for r in same) / len(same)
        seeds = ", ".join(str(r.seed) for r in same)
        yield f"| {name} | {by} | {seconds:.0f} | {seeds} |"


def _test(by: str) -> str:
    """A test without its parameters, behind its file."""
    file, _, test = by.removesuffix(ENDED).partition("::")
    said = f"`{file.removeprefix('tests/')}` {test.partition('[')[0]}".strip()
    return said + (ENDED if by.endswith(ENDED) else "") if by else "**missed**"
