"""A program for a GPU: its texts, its report, and a call of it on the device that is there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from dlvm.base.elsewhere import Elsewhere, Lent
from dlvm.base.errors import UserError
from dlvm.gen.loops.status import WORDS, error_of
from dlvm.gen.printed.languages import DIALECTS
from dlvm.gen.program.coalesce import coalesce
from dlvm.gen.program.control import to_program
from dlvm.gen.program.memory import Arena
from dlvm.gen.program.promises import ALIGNED, promises
from dlvm.gen.program.report import Report, program_bytes, program_flops
from dlvm.gen.program.steps import CallPython, EndUnless, Program
from dlvm.gen.program.text import program_text
from dlvm.gen.schedule.blocks import GpuPlanner
from dlvm.gen.schedule.text import Schedule, schedule_text
from dlvm.gen.text.module import Text
from dlvm.ir import Module
from dlvm.ir.interpret import bind
from dlvm.target import Target
from dlvm.targets import PRINTED

from .arrays import Block, DeviceArray
from .device import Device, DeviceCode, KernelCode
from .devices.choosing import current
from .execution import DeviceActivation, Shared
from .graphs import Captures, Graphs, is_straight
from .layout import MOST, Layout, planned
from .nvptx import block_size, emit_gpu_kernel, grid_size
from .phases import phases
from .printing import module_of, print_kernel, refuse_absent

STATUS = np.zeros(WORDS, np.int64)


@dataclass(frozen=True)
class DeviceExecutable:
    """The steps of a program and the code of its kernels."""

    module: Module
    program: Program
    arena: Arena
    code: DeviceCode
    texts: Mapping[str, str]
    report: Report
    kept: dict[Device, Kept] = field(default_factory=dict["Device", "Kept"])
    layouts: dict[Any, Layout] = field(default_factory=dict[Any, Layout])
    """By the shapes of the arguments."""

    @cached_property
    def fails(self) -> bool:
        """Whether a kernel or a step of the program can end a call with an error."""
        return any(k.may_raise for k in self.program.kernels()) or any(
            isinstance(step, EndUnless) for step in self.program.walk()
        )

    def run(self, arrays: Sequence[Any]) -> tuple[DeviceArray, ...]:
        """The results, on the device; arguments that are there already are not copied."""
        device = current(self.code.target)
        return self._run(device, self._layout(arrays), self._given(arrays, device))

    def _run(
        self, device: Device, layout: Layout, held: list[DeviceArray]
    ) -> tuple[DeviceArray, ...]:
        """The results for arguments on the device, after which they are put in ``held``."""
        slots = layout.slots
        for type_, count in slots.fresh:
            held.append(DeviceArray(Block(device, count), type_))
        kept = self.kept.get(device) or self._kept(device)
        addresses = [held[i].block.address for i in slots.given]
        if kept.shared is not None and layout.only is not None:
            ready, places = layout.only
            bases = [0, *addresses, *kept.addresses]
            at = [bases[i] + offset for i, offset in places]
            device.launch(self.code, ready, at, kept.status.address)
        elif kept.shared is not None:
            DeviceActivation(layout, kept.shared, addresses).steps()
        elif not self.fails:
            on = self.code, kept.addresses, kept.status.address
            shared = Shared(device, *on, False, loops=kept.loops)
            DeviceActivation(layout, shared, addresses).run()
        else:
            self._watched(layout, device, kept, addresses)
        return tuple([held[i] for i in slots.results])

    def entry(self, *, bare: bool) -> Callable[..., Any] | None:
        """The fast way in for arrays of the device, of the types for which this was compiled.

        It returns ``NotImplemented`` for others, and for donated arguments that share memory.
        There is none where sizes are open. ``bare`` is the one result in place of a tuple.
        """
        types = [p.type for p in self.module.main.params]
        if not all(isinstance(d, int) for t in types for d in t.shape):
            return None
        wanted, donated = [(t.shape, t.dtype) for t in types], bool(self.program.donated)
        target, layouts = self.code.target, list[Layout]()

        def enter(*arrays: Any) -> Any:
            device = current(target)
            for x, (shape, dtype) in zip(arrays, wanted, strict=True):
                if type(x) is not DeviceArray or x.shape != shape or x.type.dtype is not dtype:
                    return NotImplemented
                if x.block.device is not device:
                    return NotImplemented
            if donated and not _apart(arrays):
                return NotImplemented
            if not layouts:
                layouts.append(self._layout(arrays))
            found = self._run(device, layouts[0], [*arrays])
            return found[0] if bare else found

        return enter

    def _watched(
        self, layout: Layout, device: Device, kept: Kept, addresses: Sequence[int]
    ) -> None:
        """A run whose status is read at its end; an error if it says one."""
        status = kept.clear.pop() if kept.clear else _status(device)
        on = self.code, kept.addresses, status.address
        shared = Shared(device, *on, True, kept.graphs, kept.loops)
        DeviceActivation(layout, shared, addresses).run()
        if not shared.words[0]:
            device.read(status.address, shared.words)
        if shared.words[0]:
            raise error_of([int(w) for w in shared.words], self.module)
        kept.clear.append(status)

    def _layout(self, arrays: Sequence[Any]) -> Layout:
        """The layout for arguments of these shapes."""
        shapes = tuple([x.shape for x in arrays])
        found = self.layouts.get(shapes)
        if found is None:
            main = self.module.main
            sizes = bind([p.type for p in main.params], arrays, [str(p.name) for p in main.params])
            if len(self.layouts) >= MOST:
                self.layouts.clear()
            found = Layout.of(self.program, self.arena, self.code, sizes)
            self.layouts[shapes] = found
        return found

    def _given(self, arrays: Sequence[Any], device: Device) -> list[DeviceArray]:
        """The arguments in memory of the device, copies of those that may be overwritten."""
        found: list[DeviceArray] = []
        for i, (view, x) in enumerate(zip(self.program.params, arrays, strict=True)):
            if isinstance(x, DeviceArray) and x.block.device is device:
                found.append(x)
                continue
            if isinstance(x, Elsewhere):
                _check_place(x, device, self.module, i)
            if isinstance(x, Lent):
                type_ = view.type.with_shape(x.shape)
                overwritten = view.storage in self.program.donated
                found.append(_aligned(DeviceArray.lent(x, type_, device, overwritten)))
            else:
                host = np.asarray(x)
                found.append(DeviceArray.of(host, view.type.with_shape(host.shape), device))
        return found

    def _kept(self, device: Device) -> Kept:
        """What stays on a device: the constants of the program, and a status."""
        arrays = [np.ascontiguousarray(a) for a in self.program.constants]
        blocks = [Block(device, a.nbytes) for a in arrays]
        for block, array in zip(blocks, arrays, strict=True):
            device.write(block.address, array)
        addresses = tuple(b.address for b in blocks)
        status, graphs, loops, shared = Block(device, STATUS.nbytes), None, None, None
        straight = is_straight(self.program.walk())
        if isinstance(device, Captures):
            found = Graphs(device, ", ".join(f"@{name}" for name in [*self.code.kernels][:4]))
            graphs, loops = (found, None) if straight else (None, found)
        if straight and not self.fails:
            shared = Shared(device, self.code, addresses, status.address, False, graphs)
        return self.kept.setdefault(device, Kept(blocks, addresses, status, graphs, loops, shared))


@dataclass(frozen=True)
class Kept:
    """What calls of a program leave on a device for later ones.

    ``status`` is for programs that cannot fail. Of others each call takes one that is ``clear``,
    and gives it back if nothing failed. All calls have the same ``shared`` where none changes it.
    """

    constants: Sequence[Block]
    addresses: tuple[int, ...]
    status: Block
    graphs: Graphs | None = None
    loops: Graphs | None = None
    shared: Shared | None = None
    clear: list[Block] = field(default_factory=list[Block])


def _status(device: Device) -> Block:
    """The memory of a status in which nothing has failed."""
    found = Block(device, STATUS.nbytes)
    device.write(found.address, STATUS)
    return found


def built(
    module: Module, target: Target, schedule: str | None = None, join: bool = False
) -> DeviceExecutable:
    """Compiles a module's first function, and those it calls, for a GPU.

    With ``join``, kernels of many buffers get one that holds them all: see ``printing``.
    """
    from dlvm.gen.schedule.text import parse_schedule

    plans = GpuPlanner.of(target) if schedule is None else parse_schedule(schedule)
    program = coalesce(to_program(module, plans, threads=False))
    refuse(program)
    arena = planned(program, target)
    known = promises(program, given=True)
    codes: dict[str, tuple[KernelCode, ...]] = {}
    printed = target.dialect in DIALECTS
    whole = module_of(target) if printed else Text("nounwind")
    if printed:
        refuse_absent(module, target)
    for kernel in program.kernels():
        parts = phases(kernel)
        for phase in parts:
            if printed:
                whole.include(print_kernel(phase, target, known[kernel], join))
            else:
                whole.include(emit_gpu_kernel(phase, target, known[kernel]))
        codes[kernel.name] = tuple(KernelCode(p, block_size(p), grid_size(p)) for p in parts)
    code = DeviceCode(target, str(whole), codes)
    report = Report(
        seconds={},
        kernels=len(codes),
        flops=program_flops(program),
        bytes=program_bytes(program),
        peak_bytes=arena.bytes,
        target=f"{target.cpu} ({target.triple})",
        launches=len(program.launches()),
    )
    texts = _Texts(module, program, code)
    return DeviceExecutable(module, program, arena, code, texts, report)


class _Texts(Mapping[str, str]):
    """The stages after kernels as text, each made when it is asked for."""

    LLVM = ("llvm", "ptx", "asm")

    def __init__(self, module: Module, program: Program, code: DeviceCode) -> None:
        self.module, self.program, self.code = module, program, code
        dialect = code.target.dialect
        self.last = (PRINTED[dialect],) if dialect else self.LLVM

    def __getitem__(self, name: str) -> str:
        match name:
            case "nests":
                plain = to_program(self.module, Schedule.plain(), threads=False)
                return "\n".join(map(str, plain.kernels())) + "\n"
            case "schedule":
                return schedule_text(self.program.kernels())
            case "loops":
                return program_text(self.program, planned(self.program, self.code.target))
            case _ if name not in self.last:
                raise KeyError(name)
            case "ptx" | "asm":
                return self.code.ptx
            case _:
                return self.code.text

    def __iter__(self) -> Any:
        return iter(("nests", "schedule", "loops", *self.last))

    def __len__(self) -> int:
        return 3 + len(self.last)


def refuse(program: Program) -> None:
    """An error for what no GPU runs, with the user's line."""
    for step in program.walk():
        if isinstance(step, CallPython):
            op = program.calls[step.index][0]
            raise UserError(
                f"{op.name} has no kernel for a GPU: its reference is a function of Python",
                origin=op.origin,
                remedy="state the operation in others by its lowering, or leave the target out",
            )


def _apart(arrays: Sequence[DeviceArray]) -> bool:
    """Whether each array is known to have memory of its own."""
    own = {id(x.block) for x in arrays if type(x.block) is Block}
    return len(own) == len(arrays)


def _check_place(x: Elsewhere, device: Device, module: Module, i: int) -> None:
    """An error for an argument on another GPU, whose address means something else here."""
    here, found = device.place[1], x.ordinal
    if found is None and x.nbytes:
        found = device.ordinal(x.address)
    if found not in (None, here):
        name = module.main.params[i].name
        raise UserError(
            f"{name}: expected an array on GPU {here}, where the function runs, found one on GPU"
            f" {found}",
            remedy=f"copy the array to GPU {here}, or name GPU {found} in the target",
        )


def _aligned(x: DeviceArray) -> DeviceArray:
    """The array, or a copy of it where its address is no multiple of what lanes read at once."""
    if x.address % ALIGNED == 0:
        return x
    copy = DeviceArray(Block(x.block.device, x.nbytes), x.type)
    x.block.device.copy(copy.address, x.address, x.nbytes)
    return copy
