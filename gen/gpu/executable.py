"""A program for a GPU: its texts, its report, and a call of it on the device that is there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from dlvm.base.elsewhere import Lent
from dlvm.base.errors import UserError
from dlvm.gen.loops.status import WORDS, error_of
from dlvm.gen.program.coalesce import coalesce
from dlvm.gen.program.control import to_program
from dlvm.gen.program.memory import Arena, plan
from dlvm.gen.program.promises import ALIGNED, promises
from dlvm.gen.program.report import Report, program_bytes, program_flops
from dlvm.gen.program.steps import Ask, EndUnless, Program, Storage
from dlvm.gen.program.text import program_text
from dlvm.gen.schedule.blocks import GpuPlanner
from dlvm.gen.schedule.text import Schedule, schedule_text
from dlvm.gen.text.module import Text
from dlvm.ir import Module, TensorType
from dlvm.ir.dims import evaluate
from dlvm.ir.interpret import bind
from dlvm.target import Target

from .arrays import Block, DeviceArray
from .choosing import current
from .device import Device, DeviceCode, KernelCode
from .nvptx import block_size, emit_gpu_kernel, grid_size
from .phases import phases
from .running import Activation, Shared

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
    constants: dict[Any, list[Block]] = field(default_factory=dict[Any, "list[Block]"])

    @cached_property
    def fails(self) -> bool:
        """Whether a kernel or a step of the program can end a call with an error."""
        return any(k.may_raise for k in self.program.kernels()) or any(
            isinstance(step, EndUnless) for step in self.program.walk()
        )

    def run(self, arrays: Sequence[Any]) -> tuple[DeviceArray, ...]:
        """The results, on the device; arguments that are there already are not copied."""
        device = current(self.code.target)
        main = self.module.main
        sizes = bind([p.type for p in main.params], arrays, [str(p.name) for p in main.params])
        given = self._given(arrays, device)
        known = {view.storage: x for view, x in zip(self.program.params, given, strict=True)}
        for view in self.program.results:
            if view.storage not in known:
                type_ = _known(view.type, sizes)
                known[view.storage] = DeviceArray(Block(device, _bytes(type_)), type_)
        memory: dict[Storage, tuple[Block, int]] = {s: (x.block, 0) for s, x in known.items()}
        status = Block(device, STATUS.nbytes)
        if self.fails:
            device.write(status.address, STATUS)
        shared = Shared(device, self.code, self._constants(device), status, self.fails)
        Activation(self.program, self.arena, shared, dict(sizes), memory).run()
        self._check(shared)
        return tuple(known[v.storage] for v in self.program.results)

    def _given(self, arrays: Sequence[Any], device: Device) -> list[DeviceArray]:
        """The arguments in memory of the device, copies of those that may be overwritten."""
        found: list[DeviceArray] = []
        for view, x in zip(self.program.params, arrays, strict=True):
            if isinstance(x, DeviceArray) and x.block.device is device:
                found.append(x)
            elif isinstance(x, Lent):
                type_ = view.type.with_shape(x.shape)
                overwritten = view.storage in self.program.donated
                found.append(_aligned(DeviceArray.lent(x, type_, device, overwritten)))
            else:
                host = np.asarray(x)
                found.append(DeviceArray.of(host, view.type.with_shape(host.shape), device))
        return found

    def _constants(self, device: Device) -> list[Block]:
        """The constants of the program, which stay on a device."""
        if device not in self.constants:
            arrays = [np.ascontiguousarray(a) for a in self.program.constants]
            self.constants[device] = [Block(device, a.nbytes) for a in arrays]
            for block, array in zip(self.constants[device], arrays, strict=True):
                device.write(block.address, array)
        return self.constants[device]

    def _check(self, shared: Shared) -> None:
        """Raises what the status says."""
        words = [int(w) for w in shared.words]
        if self.fails and not words[0]:
            shared.device.read(shared.status.address, shared.words)
            words = [int(w) for w in shared.words]
        if words[0]:
            raise error_of(words, self.module)


def built(module: Module, target: Target, schedule: str | None = None) -> DeviceExecutable:
    """Compiles a module's first function, and those it calls, for a GPU."""
    from dlvm.gen.schedule.text import parse_schedule

    plans = GpuPlanner.of(target) if schedule is None else parse_schedule(schedule)
    program = coalesce(to_program(module, plans, threads=False, shaped=False))
    refuse(program)
    arena = plan(program)
    known = promises(program, given=True)
    codes: dict[str, tuple[KernelCode, ...]] = {}
    whole = Text("nounwind")
    for kernel in program.kernels():
        texts = [(p, emit_gpu_kernel(p, target, known[kernel])) for p in phases(kernel)]
        for _, text in texts:
            whole.include(text)
        codes[kernel.name] = tuple(
            KernelCode(phase, str(text), block_size(phase), grid_size(phase))
            for phase, text in texts
        )
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

    NAMES = ("nests", "schedule", "loops", "llvm", "ptx", "asm")

    def __init__(self, module: Module, program: Program, code: DeviceCode) -> None:
        self.module, self.program, self.code = module, program, code

    def __getitem__(self, name: str) -> str:
        match name:
            case "nests":
                plain = to_program(self.module, Schedule.plain(), threads=False, shaped=False)
                return "\n".join(map(str, plain.kernels())) + "\n"
            case "schedule":
                return schedule_text(self.program.kernels())
            case "loops":
                return program_text(self.program, plan(self.program))
            case "llvm":
                return self.code.llvm
            case "ptx" | "asm":
                return self.code.ptx
            case _:
                raise KeyError(name)

    def __iter__(self) -> Any:
        return iter(self.NAMES)

    def __len__(self) -> int:
        return len(self.NAMES)


def refuse(program: Program) -> None:
    """An error for what no GPU runs, with the user's line."""
    for step in program.walk():
        if isinstance(step, Ask):
            op = program.calls[step.index][0]
            raise UserError(
                f"{op.name} has no kernel for a GPU: its reference is a function of Python",
                origin=op.origin,
                remedy="state the operation in others by its lowering, or leave the target out",
            )


def _known(type_: TensorType, sizes: Mapping[str, int]) -> TensorType:
    return type_.with_shape(tuple(evaluate(d, sizes) for d in type_.shape))


def _bytes(type_: TensorType) -> int:
    return int(str(type_.size)) * type_.dtype.bytes


def _aligned(x: DeviceArray) -> DeviceArray:
    """The array, or a copy of it where its address is no multiple of what lanes read at once."""
    if x.address % ALIGNED == 0:
        return x
    copy = DeviceArray(Block(x.block.device, x.nbytes), x.type)
    x.block.device.copy(copy.address, x.address, x.nbytes)
    return copy
