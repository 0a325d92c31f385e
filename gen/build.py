"""From an optimised module to a callable: the second half of the road, on one page."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from dlvm.base.progress import doing
from dlvm.gen.call.executable import Executable, Texts
from dlvm.gen.call.interface import Interface, Placement
from dlvm.gen.call.sizes import emit_sizes
from dlvm.gen.checked import bounds
from dlvm.gen.checked.buffers import Checker
from dlvm.gen.cpu.driver import emit_driver
from dlvm.gen.cpu.kernels import emit_kernel
from dlvm.gen.llvm.binding import Library, assembly, object_code
from dlvm.gen.program.coalesce import coalesce
from dlvm.gen.program.control import to_program
from dlvm.gen.program.memory import Arena, plan
from dlvm.gen.program.promises import promises
from dlvm.gen.program.report import Report, activation_bytes, program_bytes, program_flops
from dlvm.gen.program.steps import Program
from dlvm.gen.program.text import program_text
from dlvm.gen.program.times import Times
from dlvm.gen.schedule.planner import Planner
from dlvm.gen.schedule.plans import Plans
from dlvm.gen.schedule.text import Schedule, parse_schedule, schedule_text
from dlvm.gen.text.module import Text
from dlvm.ir import Dim, Module
from dlvm.target import Target

PHASES = {
    "loops": "lowering to loops",
    "memory": "planning memory",
    "llvm": "writing LLVM code",
    "machine": "making machine code",
}
"""What each phase is called in reports of progress."""
Keep = Callable[[Interface, Report, Sequence[bytes]], None]


@dataclass(frozen=True, slots=True)
class Made:
    """Code for a target that is neither loaded nor written: LLVM text, and how it is called."""

    module: Module
    target: Target
    program: Program
    arena: Arena
    interface: Interface
    text: Text
    times: Times
    seconds: dict[str, float]
    check: bool = False

    @property
    def llvm(self) -> str:
        """The text of the module."""
        return str(self.text)

    def report(self) -> Report:
        """What was made, and what it costs."""
        kernels = self.program.kernels()
        return Report(
            seconds=self.seconds,
            kernels=len(kernels),
            flops=program_flops(self.program),
            bytes=program_bytes(self.program),
            peak_bytes=self.arena.bytes,
            target=str(self.target),
            activation_bytes=activation_bytes(self.program),
            estimates={k.name: self.times.kernel(k) for k in kernels},
            launches=len(self.program.launches()),
        )

    def texts(self, asm: Callable[[Made], str] | None = None) -> Texts:
        """The stages after kernels as text; ``asm`` writes assembly elsewhere than here."""
        plain = Schedule.plain()
        return Texts(
            nests=lambda: "\n".join(map(str, to_program(self.module, plain).kernels())) + "\n",
            schedule=lambda: schedule_text(self.program.kernels()),
            loops=lambda: program_text(self.program, self.arena),
            llvm=lambda: self.llvm,
            asm=lambda: assembly(self.llvm, self.target) if asm is None else asm(self),
        )


def build(
    module: Module,
    target: Target | None = None,
    keep: Keep | None = None,
    level: int = 2,
    check: bool = False,
    schedule: str | None = None,
    plans: Plans | None = None,
    placement: Placement | None = None,
) -> Executable:
    """Compile a module's first function, and those it calls; ``keep`` sees what was made.

    Its kernels run under the ``schedule``, as text, or as the ``plans`` say, or the planner. How
    whole arrays lie is told of a program of ranks.

    ``level`` is how hard LLVM tries; at 0 nothing that it optimises can be at fault. With ``check``
    the code checks every access to memory; see ``bounds``.
    """
    code = made(module, target or Target.host(), check, schedule, plans)
    interface = replace(code.interface, placement=placement)
    return loaded(replace(code, interface=interface), keep, level)


def made(
    module: Module,
    target: Target,
    check: bool = False,
    schedule: str | None = None,
    plans: Plans | None = None,
    around: Callable[[Program], Program] = lambda program: program,
) -> Made:
    """The LLVM code of a module's first function, and of those it calls, for any target.

    ``around`` adds steps to the program after memory is planned, such as timers.
    """
    seconds: dict[str, float] = {}
    with _timed(seconds, "loops", module):
        given = None if schedule is None else parse_schedule(schedule)
        chosen = plans or Planner(target) if given is None else given
        program = coalesce(to_program(module, chosen, threads=target.os != "none"))
        if given is not None:
            given.check(program.kernels())
    with _timed(seconds, "memory", module):
        arena = bounds.apart(program) if check else plan(program)
    program = around(program)
    with _timed(seconds, "llvm", module):
        times = Times(target)
        interface = Interface.of(program, arena, times.program(program))
        text = emit(program, arena, interface, times, check)
        interface = replace(interface, stack=text.stack if interface.enters else 0)
    return Made(module, target, program, arena, interface, text, times, seconds, check)


def loaded(
    made: Made, keep: Keep | None = None, level: int = 2, on_disk: bool = True
) -> Executable:
    """Machine code in this process; the disk keeps that of the module if it is ``on_disk``, and
    always that of products, which other programs share.
    """
    target, check = made.target, made.check
    with _timed(made.seconds, "machine", made.module):
        own = object_code(made.llvm, target, level=level, kept=on_disk)
        objects = (own, *made.text.others())
        library = Library(objects[0], target, *objects[1:])
    report = made.report()
    if keep is not None:
        keep(made.interface, report, objects)
    checker = Checker.of(made.program, made.arena) if check else None
    threads = 1 if check else target.threads
    adaptive = target.adaptive and threads > 1
    told = made.interface, library, made.module, made.texts(), report
    return Executable(*told, threads, checker, adaptive)


def planned_bytes(module: Module) -> Dim:
    """The memory that the first function of a module needs during a call."""
    return plan(coalesce(to_program(module))).bytes


def emit(
    program: Program, arena: Arena, interface: Interface, times: Times, check: bool = False
) -> Text:
    """One LLVM module: a function for each kernel, and the driver that calls them.

    With ``check`` its code checks every access to memory.
    """
    target = times.target
    text = Text.of(target, listener=bounds.Checks if check else None)
    known = promises(program, results=target.os != "none")
    for kernel in program.kernels():
        text.include(emit_kernel(kernel, target, known[kernel].shared, text.listener))
    emit_driver(program, arena, text, times)
    emit_sizes(interface, text)
    if check:
        bounds.include_checks(text, owner=True)
    return text


@contextmanager
def _timed(seconds: dict[str, float], phase: str, module: Module) -> Generator[None]:
    start = time.perf_counter()
    doing(PHASES[phase], module.operations)
    yield
    seconds[phase] = time.perf_counter() - start
