"""Everything that a page shows of one program, as plain data."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from dlvm.compile import Road, interpreting
from dlvm.cost import typical
from dlvm.gen.profile.records import Part, Profile
from dlvm.gen.program.timed import entered_with
from dlvm.ir import Array
from dlvm.ir.interpret import bind
from dlvm.opt.kernels.borders import Border, borders

from . import below
from .groups import Groups
from .memory import Sizes, memory
from .stages import Passes


def model(
    road: Road,
    profile: Profile | None = None,
    arrays: Sequence[Array] = (),
    hidden: Collection[str] = (),
) -> Mapping[str, Any]:
    """The data of a page; with a ``profile`` also its times, and the sizes of its ``arrays``.
    Lines of ``hidden`` files are left out.

    A program that the interpreter runs has no stages below kernels.
    """
    groups = Groups(hidden)
    steps = Passes(road, groups)
    steps.run()
    code = None if interpreting() else below.Code.of(road)
    stages = [*steps.stages, *(() if code is None else below.stages(code, groups))]
    sizes: Sizes = {} if code is None or profile is None else _sizes(code, arrays)
    refused = borders(road.kernels)
    main = road.traced.main
    return {
        "name": main.name,
        "types": [f"{p.name}: {p.type}" for p in main.params],
        "stages": [stage.to_dict() for stage in stages],
        "laws": steps.laws(),
        "refused": [_refused(b, groups) for b in dict.fromkeys(refused)],
        "profile": None if profile is None else _profile(profile, groups),
        "memory": [] if code is None else memory(code, profile, sizes, groups),
        **groups.to_dict(),
    }


def _sizes(code: below.Code, arrays: Sequence[Array]) -> Sizes:
    """The sizes of every function's symbols in a call with these arrays."""
    params = code.program.params
    types, names = [v.type for v in params], [v.storage.name for v in params]
    return entered_with(code.program, bind(types, list(arrays), names))


def _refused(border: Border, groups: Groups) -> dict[str, Any]:
    return {
        "type": str(border.type),
        "source": str(border.source or ""),
        "reader": str(border.reader or ""),
        "why": border.why,
        "moved": border.moved,
        "bytes": typical(border.bytes),
        "group": groups.of((border.source, border.reader)),
    }


def _profile(profile: Profile, groups: Groups) -> dict[str, Any]:
    whole = profile.to_dict()
    parts = [_part(part, groups) for part in profile.parts]
    return {**whole, "parts": parts, "buffers": []}


def _part(part: Part, groups: Groups) -> dict[str, Any]:
    return {**part.to_dict(), "group": groups.of(part.lines)}


def texts_below(data: Mapping[str, Any]) -> dict[str, str]:
    """The stages below kernels of a model, by name."""
    return {
        stage["name"]: "".join(f"{line}\n" for line, _ in stage["lines"])
        for stage in data["stages"]
        if stage["kind"] != "ir"
    }
