"""The files of a function: ``NAME.o``, ``NAME.h``, weights, state and a description.

``export`` makes them in memory, ``write`` puts them into a folder: each file is whole or absent.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dlvm.base.errors import UserError
from dlvm.base.html import escape, table
from dlvm.base.units import size
from dlvm.gen.build import Made
from dlvm.gen.gpu.executable import DeviceExecutable
from dlvm.gen.text.module import Text
from dlvm.ir import Array, Dim, Module, TensorType

from .archive import archive
from .entry import emit_entry, emit_messages, emit_scratch, messages, told_of_sizes
from .header import c_type, header
from .joined import joined
from .layout import Layout, Slot, image, layout
from .linking import shared
from .page import page
from .scratch import region, start_of_region, whole
from .wasm import module
from .webgpu import device_file, device_table
from .writing import json_file

LOADER = Path(__file__).parent / "loader.js"
"""What runs a module in a page or in Node; it goes along with the module."""
EITHER = Path(__file__).parent / "webgpu.js"
"""What runs a module by WebGPU, or else by the loader."""


@dataclass(frozen=True, slots=True)
class Wishes:
    """How a function is to be written: see ``dlvm.aot``."""

    name: str
    target: str
    state: tuple[str, ...] = ()
    small: bool = False
    growing: int | None = None
    weights: str = "bin"
    shared: bool = False
    page: bool = False


@dataclass(frozen=True, slots=True, repr=False)
class Bundle:
    """Files by name, and what the description holds."""

    files: Mapping[str, bytes]
    description: Mapping[str, Any]

    def __repr__(self) -> str:
        """The files and their sizes, in a line each."""
        rows = self._rows()
        wide = max(len(name) for name, _ in rows)
        listed = "".join(f"\n  {name.ljust(wide)}  {taken}" for name, taken in rows)
        return f"{self.description['name']} for {self.description['target']}:{listed}"

    def _repr_html_(self) -> str:
        """The same as a table, as notebooks show it."""
        said = f"{self.description['name']} for {self.description['target']}"
        return f"<p>{escape(said)}</p>{table(self._rows())}"

    def _rows(self) -> list[tuple[str, str]]:
        scratch, stack = self.description["scratch"], self.description["stack_bytes"]
        return [
            *((name, size(len(content))) for name, content in self.files.items()),
            ("scratch", "depends on the sizes" if scratch is None else size(scratch)),
            ("stack", f"at most {size(stack)}"),
        ]

    def write(self, folder: str | os.PathLike[str]) -> list[Path]:
        """Write the files into a folder, which is made; each replaces an older one in one step.

        A link in the place of a file is replaced, and not followed. Several threads and processes
        may write into one folder: each file is then one of those that they write, and whole.
        """
        to = Path(folder)
        to.mkdir(parents=True, exist_ok=True)
        for name, content in self.files.items():
            _replace(to / name, content)
        return [to / name for name in self.files]


def _replace(path: Path, content: bytes) -> None:
    """Write one file, or leave what was there: by a file of a name that nobody can foresee."""
    part = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    with part.open("xb") as file:
        try:
            file.write(content)
            file.close()
            part.replace(path)
        except BaseException:
            file.close()
            part.unlink(missing_ok=True)
            raise


def export(
    made: Made,
    traced: Module,
    labels: Sequence[str],
    arrays: Sequence[Array | None],
    captured: int,
    results: Sequence[str],
    wishes: Wishes,
    version: str,
    names: Mapping[int, str] | None = None,
    device: DeviceExecutable | None = None,
) -> Bundle:
    """All files of a program; ``labels`` and ``arrays`` are of parameters, captured ones last.

    ``names`` are those of constants, by the identities of their arrays; ``device`` is the program
    for WebGPU, where that is written as well.
    """
    _refuse(made)
    name, names = wishes.name, names or {}
    plan = layout(name, made.interface, labels, arrays, captured, results, wishes.state, names)
    table = None
    if device is not None:
        plan, table = device_table(device, plan)
    taken = region(made.program, made.target, wishes.growing)
    scratch = whole(made.arena.bytes, taken)
    told = messages(traced) | told_of_sizes(plan)
    text, word = Text.of(made.target), made.target.word
    text.include(made.text)
    emit_entry(text, plan, made.program.symbols, start_of_region(made.arena.bytes), taken, word)
    exports = [name, f"{name}_error"]
    emit_messages(text, name, told)
    if not isinstance(scratch, int):
        emit_scratch(text, plan, scratch, word)
        exports.append(f"{name}_scratch_bytes")
    modules = [str(text), *text.sources()]
    object_ = joined(modules, exports, made.target, wishes.small)
    signature = f"{traced.main.name}({', '.join(a.label for a in plan.arguments)}), as in Python."
    top = header(plan, scratch, object_.stack, wishes.target, version, signature)
    files = {f"{name}.o": object_.code, f"{name}.a": archive(f"{name}.o", object_.code, exports)}
    files |= {f"{name}.h": top.encode()}
    weights = image((w.array, w.offset) for w in plan.weights)
    if wishes.weights == "c":
        files[f"{name}.weights.c"] = _c_array(f"{name}_weights", weights)
    else:
        files[f"{name}.weights.bin"] = weights
    if wishes.shared:
        files[f"{name}.so"] = shared(object_.code, made.target)
    if plan.states:
        files[f"{name}.state.bin"] = _state(plan)
    said = describe(made, plan, scratch, object_.stack, told, wishes, version)
    if made.target.triple.startswith("wasm"):
        code = module(object_.code, exports)
        files |= {f"{name}.wasm": code, "loader.js": LOADER.read_bytes()}
        if table is not None:
            files |= {f"{name}.webgpu.json": device_file(table), "webgpu.js": EITHER.read_bytes()}
        if wishes.page:
            starts = {a.name: a.start for a in plan.arguments if a.start is not None}
            files[f"{name}.html"] = page(code, said, weights, values=starts, gpu=table).encode()
    files[f"{name}.json"] = json_file(said).encode()
    return Bundle(files, said)


def _refuse(made: Made) -> None:
    """What needs Python while it runs can't be written."""
    if made.interface.prints:
        label = made.interface.prints[0][0]
        raise UserError(
            f"{made.program.name}: print and tap call Python, found {label!r}",
            remedy="take them out of the function that is written",
        )
    if made.interface.exchanges:
        raise UserError(
            "ahead of time: a program for the ranks of a mesh runs in processes of Python",
            remedy="leave mesh= out",
        )
    if made.interface.calls:
        raise UserError(
            f"{made.program.name}: an operation from outside dlvm runs as Python code, found "
            f"{made.interface.calls[0][0].name}",
            remedy="give the operation a lowering, or take it out of the function that is written",
        )


def describe(
    made: Made,
    plan: Layout,
    scratch: Dim,
    stack: int,
    told: Mapping[int, str],
    wishes: Wishes,
    version: str,
) -> dict[str, Any]:
    """What a program in any language needs to know to call the function."""
    target = made.target
    starts = {slot.name: at for slot, at in plan.states}
    fixed = isinstance(scratch, int)
    return {
        "name": plan.name,
        "label": made.program.name,
        "made_by": f"dlvm {version}",
        "target": wishes.target,
        "triple": target.triple,
        "cpu": target.cpu,
        "features": target.features,
        "arguments": [
            _argument(a) | ({"start": starts[a.name]} if a.name in starts else {})
            for a in plan.arguments
        ],
        "results": _results(made, plan),
        "sizes": [{"name": n, "symbol": s} for n, s in plan.sizes],
        "weights": plan.weight_bytes,
        "weight_arrays": [_array(w.label, w.array, w.offset) for w in plan.weights],
        "state_bytes": len(_state(plan)),
        "scratch": scratch if fixed else None,
        "stack_bytes": stack,
        "errors": {str(code): words for code, words in told.items()},
    }


def _argument(slot: Slot) -> dict[str, Any]:
    role, by = "state" if slot.state else "argument", "value" if slot.by_value else "pointer"
    return _slot(slot) | {"role": role, "by": by}


def _slot(slot: Slot) -> dict[str, Any]:
    t = slot.type
    known = all(isinstance(d, int) for d in t.shape)
    return {
        "name": slot.name,
        "label": slot.label,
        "dtype": t.dtype.name,
        "c_type": c_type(t.dtype),
        "shape": [d if isinstance(d, int) else str(d) for d in t.shape],
        "bytes": _bytes(t) if known else None,
    }


def _results(made: Made, plan: Layout) -> list[dict[str, Any]]:
    """Every result in order; what is written over an argument says over which."""
    fresh = {slot.index: _slot(slot) for slot in plan.results}
    names = {slot.index: slot for slot in plan.arguments}
    return [
        fresh[j] if over is None else _slot(names[over]) | {"into": names[over].name}
        for j, over in enumerate(plan.overwritten)
    ]


def _bytes(t: TensorType) -> int:
    size = t.size
    assert isinstance(size, int)
    return size * t.dtype.bytes


def _array(label: str, array: Array, offset: int) -> dict[str, Any]:
    return {
        "label": label,
        "dtype": str(array.dtype),
        "shape": list(array.shape),
        "offset": offset,
    }


def _state(plan: Layout) -> bytes:
    return image((slot.start, at) for slot, at in plan.states if slot.start is not None)


def _c_array(name: str, data: bytes) -> bytes:
    """The same bytes as a constant array, for a program without files."""
    rows = [",".join(map(str, data[i : i + 24])) for i in range(0, len(data), 24)]
    body = ",\n".join(rows) or "0"
    return (
        "#include <stdint.h>\n"
        "#ifdef __cplusplus\nextern\n#endif\n"
        f"const uint8_t {name}[{max(1, len(data))}]\n"
        "#ifdef __GNUC__\n__attribute__((aligned(64)))\n#endif\n"
        f"= {{\n{body}\n}};\n"
    ).encode()
