"""A whole program from the disk: a process that traces what another has compiled runs no pass.

The key says all that a program depends on: the traced text, the target, dlvm's own sources, and
the versions of what they use. What is kept under it is what a call needs (``interface``), the
report, and the object files. Large constants are not kept, but where they come from (``origins``).
Code that no element of them decides is kept for all others of their types. Whatever else may be
asked of a program, such as its text at some stop of the road, is made anew then.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from dlvm import passes
from dlvm.base import environment
from dlvm.gen.call.executable import Executable, Texts
from dlvm.gen.call.interface import Interface, Placement, bytes_of
from dlvm.gen.llvm.binding import Library, version
from dlvm.gen.llvm.cache import store
from dlvm.gen.llvm.disk import digest
from dlvm.gen.loops.status import culprits
from dlvm.gen.program.report import Report
from dlvm.gen.schedule.plans import Plans
from dlvm.gen.schedule.text import parse_schedule
from dlvm.gen.schedule.transform import TRANSFORMS
from dlvm.ir import Array, Dim, Module
from dlvm.ir.core import OPS
from dlvm.ir.recipe import Recipe
from dlvm.ir.rewrite import RULES
from dlvm.ir.text.line import Line, parse_dim
from dlvm.ir.text.printer import told_apart
from dlvm.ir.types import contents
from dlvm.target import Target

from .build import Keep, build
from .origins import Known, Origin
from .tuned import Tuned, written

ROOMS = ("base", "ir", "ops", "ad", "opt", "gen")
"""Where the sources stand that decide what becomes of a trace."""
STAGES = ("nests", "schedule", "loops", "llvm", "asm")


def compiled(
    traced: Module,
    target: Target,
    kernels: Callable[[], Module],
    options: str = "",
    schedule: str | None = None,
    check: Callable[[Module, Plans], None] = lambda module, plans: None,
    prepared: Callable[[], Iterable[tuple[Array, Recipe]]] = tuple,
    placement: Callable[[], Placement | None] = lambda: None,
) -> Executable:
    """The program of a trace, from the disk or made of its kernels, as ``options`` say.

    ``prepared`` are the arrays that were computed of its constants, ``placement`` is for ranks.
    ``check`` is called for a schedule that was given or tuned, where passes are verified.
    """
    start = time.perf_counter()
    entries = b"" if schedule is not None else written(target)
    kept, of, known = store(), (traced, target, options, schedule, entries), Known(traced)
    key, general = key_of(*of), key_of(*of, known.told)

    if environment.verifying() == "passes" and (schedule is not None or entries):
        check(
            kernels(), Tuned.of(entries, target) if schedule is None else parse_schedule(schedule)
        )

    def made(keep: Keep | None = None) -> Executable:
        plans = Tuned.of(entries, target)
        return build(kernels(), target, keep, schedule=schedule, plans=plans, placement=placement())

    if kept is None or key is None or general is None:
        return made()

    def keep(interface: Interface, report: Report, objects: Sequence[bytes]) -> None:
        recipes = {id(array): recipe for array, recipe in prepared()}
        constants = interface.constants
        origins = [known.origin(a, recipes.get(id(a))) for a in constants]
        others = known.serves_others(kernels(), constants, recipes, origins)
        kept.put(general if others else key, packed(interface, report, objects, origins))

    found = None if environment.verifying() else kept.get(general) or kept.get(key)
    if found is None:
        return made(keep)
    interface, report, objects = unpacked(found, known)
    library = Library(objects[0], target, *objects[1:])
    cold = cache(lambda: made().texts)
    texts = Texts(**{stage: _later(cold, stage) for stage in STAGES})
    warm = {"load": time.perf_counter() - start}
    how = (target.threads, None, target.adaptive)
    return Executable(interface, library, traced, texts, report(warm), *how)


def _later(texts: Callable[[], Any], stage: str) -> Callable[[], str]:
    return lambda: texts()[stage]


# -- the key ---------------------------------------------------------------------------------------


def key_of(
    traced: Module,
    target: Target,
    options: str = "",
    schedule: str | None = None,
    entries: bytes = b"",
    told: Callable[[Array], bytes] = contents,
) -> str | None:
    """All that a program depends on, with the tuner's entries; None where that can't be known.

    ``told`` is what it depends on of large constants.
    """
    if (own := _sources()) is None or _extended() or _transformed(schedule, entries):
        return None
    versions = (version(), np.__version__, sys.version)
    ordinals = sorted(culprits(traced))  # they are in the code, and not in the text
    how = (repr(target), options, repr(schedule))
    text = told_apart(traced.entries, told)
    return digest("program", own, *versions, *how, entries, text, repr(ordinals))


@cache
def _sources() -> bytes | None:
    """Every line of ours that a program goes through; None where the files aren't there."""
    root = Path(passes.__file__).parent
    files = sorted(
        [*root.glob("*.py"), *(f for room in ROOMS for f in (root / room).rglob("*.py"))]
    )
    try:
        parts = [part for f in files for part in (str(f.relative_to(root)), f.read_bytes())]
    except OSError:
        return None
    return bytes.fromhex(digest(*parts)) if parts else None


def _extended() -> bool:
    """Whether operations, laws or passes are at work whose sources are not ours."""
    owners = {op.__module__ for op in OPS.values()}
    owners |= {rule.apply.__module__ for laws in RULES.values() for rule in laws}
    if passes.INSERTED:
        return True
    owners |= {known.run.__module__ for known in passes.PASSES.values()}
    return not all(name.startswith("dlvm.") for name in owners)


def _transformed(schedule: str | None, entries: bytes) -> bool:
    """Whether a schedule may name a transform whose sources are not ours."""
    said = (schedule or "").encode() + entries
    words = (w for w, kind in TRANSFORMS.items() if not kind.__module__.startswith("dlvm."))
    return any(word.encode() in said for word in words)


# -- the bytes -------------------------------------------------------------------------------------


def packed(
    interface: Interface, report: Report, objects: Sequence[bytes], origins: Sequence[Origin]
) -> bytes:
    """One line of JSON, then constants and object files, whose lengths it holds."""
    call, elements = interface.plain()
    figures: dict[str, Any] = {**report.to_dict(), "seconds": {}}
    blocks = [b"" if o else e for o, e in zip(origins, elements, strict=True)] + [*objects]
    lengths = [len(b) for b in blocks]
    head: dict[str, Any] = {
        "call": call,
        "report": figures,
        "origins": origins,
        "lengths": lengths,
    }
    return b"".join([json.dumps(head).encode(), b"\n", *blocks])


def unpacked(
    found: bytes, known: Known
) -> tuple[Interface, Callable[[dict[str, float]], Report], list[bytes]]:
    """What ``packed`` wrote; the report still lacks its seconds."""
    line, _, rest = found.partition(b"\n")
    head: dict[str, Any] = json.loads(line)
    blocks: list[bytes] = []
    start = 0
    for length in head["lengths"]:
        blocks.append(rest[start : start + length])
        start += length
    origins: list[Origin] = head["origins"]
    elements = [
        bytes_of(known.array(origin)) if origin else block
        for origin, block in zip(origins, blocks, strict=False)
    ]
    interface = Interface.from_plain(head["call"], elements)
    return interface, lambda seconds: _report(head["report"], seconds), blocks[len(origins) :]


def _report(figures: dict[str, Any], seconds: dict[str, float]) -> Report:
    names = ("flops", "bytes", "peak_bytes", "activation_bytes")
    sizes = {name: _dim(figures[name]) for name in names}
    estimates = {name: _dim(written) for name, written in figures["estimates"].items()}
    kernels, launches, target = (figures[name] for name in ("kernels", "launches", "target"))
    return Report(seconds, kernels, **sizes, estimates=estimates, target=target, launches=launches)


def _dim(written: int | str) -> Dim:
    return written if isinstance(written, int) else parse_dim(Line(written, 1))
