"""The stages of the compiler on one page: from a traced module to a callable.

Every step is a pure function, and every stage is computed on first use and can be shown as text.
With ``DLVM_INTERPRET=1`` a module runs by the references of its operations instead of as machine
code. Packages are imported when they are needed, because ``import dlvm`` must be fast.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from dlvm import passes
from dlvm.base import environment, system
from dlvm.base.debugging import Looks, looks
from dlvm.base.errors import CompilerError, IRError, UserError, did_you_mean
from dlvm.base.floating import standard_mode
from dlvm.base.lazy import lazy
from dlvm.budget import fitted
from dlvm.executables import Foreign, Interpreted, OnDevice, OnMesh
from dlvm.ir import Array, Declaration, Dim, Module, hooks
from dlvm.ir.numerics import Mode, mode_named, numerics
from dlvm.ir.sharding.mesh import Mesh, on
from dlvm.ir.sharding.ranks import held, world_of
from dlvm.targets import is_gpu
from dlvm.trust import guard

if TYPE_CHECKING:
    from dlvm.ad.linear import Point
    from dlvm.gen.build import Made
    from dlvm.gen.call.executable import Executable
    from dlvm.gen.call.interface import Placement
    from dlvm.gen.profile.measure import Timers
    from dlvm.gen.program.report import Report
    from dlvm.gen.schedule.plans import Plans
    from dlvm.ir.recipe import Recipe
    from dlvm.passes import Pass, Watch
    from dlvm.target import Target

T = TypeVar("T")
MODULES = ("traced", "differentiated", "optimized", "kernels")
OF_A_MESH = ("placed", "partitioned")
"""Stages between ``optimized`` and ``kernels`` of a program for the ranks of a mesh."""
STAGES = (*MODULES, "nests", "schedule", "loops", "llvm", "asm")


@dataclass(frozen=True, slots=True)
class Options:
    """The options that users give for compiling a function."""

    target: str = "host"
    threads: int | None = None
    debug: tuple[str, ...] = ()
    memory: int | None = None
    numerics: Mode = "default"
    schedule: str | None = None
    mesh: Mesh | None = None

    def __post_init__(self) -> None:
        from dlvm.targets import named

        named(self.target)
        Looks.named(self.debug, "debug=")
        mode_named(self.numerics)
        threads: Any = self.threads
        if threads is not None and not (isinstance(threads, int) and threads >= 1):
            raise UserError(
                f"threads={threads!r}: expected a whole number of at least 1",
                remedy="leave it out, and calls choose between one thread and every core",
            )

    def said(self) -> str:
        """The options on which a program depends, besides its trace and processor; empty by
        default.
        """
        said = "" if self.memory is None else f"memory={self.memory}"
        if self.numerics != "default":
            said = f"{said} numerics={self.numerics}"
        if self.mesh is None:
            return said
        return f"{said} mesh={self.mesh}" + "".join(f" {n}: {x}" for n, x in self.mesh.links)

    @property
    def parallel(self) -> bool:
        """Whether thousands of threads run the program, and none may do much alone."""
        return is_gpu(self.target)

    def machine(self) -> Target:
        """The processor that these options describe."""
        from dlvm.gen.measured import known
        from dlvm.target import Target
        from dlvm.targets import named

        if self.target != "host":
            return named(self.target)
        threads, host = self.threads or _threads_of_the_environment(), known(Target.host())
        if threads is None:
            return replace(host, adaptive=True)
        if threads > 1 and not system.has(system.THREADS):
            raise _refused(system.lacking(system.THREADS, f"threads={threads}"))
        return replace(host, threads=threads)


def _threads_of_the_environment() -> int | None:
    """``DLVM_THREADS``: the number of threads of functions without ``threads=``; None if unset."""
    found = environment.value("DLVM_THREADS")
    if found and not (found.isdecimal() and int(found)):
        said = f"DLVM_THREADS={found!r}: expected a whole number of at least 1"
        remedy = "unset it, and calls choose between one thread and every core"
        raise _refused(UserError(said, remedy=remedy))
    return int(found) if found else None


def _refused(error: UserError) -> UserError:
    """The error, which a stage of compilation passes on as it is."""
    error.refused = True
    return error


class Road:
    """The stages of one program, each computed from the one before.

    They are traced → differentiated → optimized → kernels → executable.
    """

    def __init__(self, traced: Module, options: Options) -> None:
        self.traced = traced
        self.options = options
        self.seconds: dict[str, float] = {}

    @lazy
    def differentiated(self) -> Module:
        """The program with every declared derivative and batched form expanded."""
        if environment.verifying() == "passes":
            with numerics(self.options.numerics):
                guard.demanded(self.traced, **self._examined())
        return self._timed("differentiate", lambda: expand(self.traced))

    def _examined(self) -> dict[str, Any]:
        """What is compared: each pass, and the machine code where this process runs it."""
        from dlvm.opt.pipelines import kernels, meaning

        found: dict[str, Any] = {}
        if self.options.target == "host":
            found["target"] = self.options.machine()
        if self.options.parallel:
            found["pipeline"] = (*meaning(), *kernels(parallel=True))
        return found

    @lazy
    def optimized(self) -> Module:
        """The program after simplification, common subexpression elimination and hoisting."""
        from dlvm.opt.pipelines import meaning

        before = self.differentiated  # computed first, as it is timed on its own
        with numerics(self.options.numerics):
            return self._timed("optimize", lambda: passes.run(before, meaning()))

    @lazy
    def placed(self) -> Module:
        """The program with what ranks share of its values, beside their types."""
        from dlvm.opt.sharding.propagation import propagate_shardings

        before = self.optimized
        with numerics(self.options.numerics), on(self.options.mesh):
            return self._timed("place", lambda: passes.run(before, (propagate_shardings,)))

    @lazy
    def partitioned(self) -> Module:
        """The program of each rank of the mesh, with local sizes and what ranks exchange."""
        from dlvm.opt.sharding.partition import partition

        before = self.placed
        with on(self.options.mesh):
            return self._timed("partition", lambda: partition(before))

    @lazy
    def kernels(self) -> Module:
        """The first function as kernels, each of which becomes one loop nest."""
        from dlvm.opt.pipelines import kernels

        mesh, memory = self.options.mesh, self.options.memory
        before = self.optimized if mesh is None else self.partitioned

        def fuse(module: Module) -> Module:
            pipeline = kernels(self.options.parallel, ranks=mesh is not None)
            return self._timed("fuse", lambda: passes.run(module, pipeline))

        with numerics(self.options.numerics):
            return fuse(before) if memory is None else fitted(before, memory, fuse)

    @lazy
    @passes.unhurried()
    def executable(self) -> Executable | Interpreted | Foreign:
        """Machine code, from the disk cache if another process compiled it; or the interpreter."""
        if self.options.mesh is not None:
            return self._on_a_mesh(self.options.mesh)
        if interpreting():
            return Interpreted(self.differentiated)
        if is_gpu(self.options.target):
            return self._on_a_gpu()
        if self.options.target != "host":
            return self._foreign()
        if looks(self.options.debug).bounds:
            from dlvm.gen.build import build

            given = self.options.schedule
            return build(self.kernels, self.options.machine(), check=True, schedule=given)
        return self._compiled(self.options.machine())

    def _compiled(
        self, target: Target, placement: Callable[[], Placement | None] = lambda: None
    ) -> Executable:
        """Machine code of this process, from the disk if it is there."""
        from dlvm.gen.warm import compiled

        _ = environment.verifying() and self.differentiated
        with numerics(self.options.numerics), self._guarded("emit"), standard_mode():
            said, given = self.options.said(), self.options.schedule
            how = said, given, guard.check_schedule, lambda: _prepared(self.optimized), placement
            return compiled(self.traced, target, lambda: self.kernels, *how)

    def _on_a_mesh(self, mesh: Mesh) -> OnMesh:
        """Code that each rank of a mesh runs: on as many cores as are its own, unless told."""
        from dlvm.gen.on_mesh import MeshExecutable, on_ranks, placement

        def places() -> Placement:
            return placement(self.placed.main, self.partitioned.main)

        world = world_of(mesh) if mesh.processes else None
        threads = self.options.threads or (world.cores if world else 1)
        target = replace(self.options, threads=threads).machine()
        if world:
            said = f"{self.traced}{self.options.said()} {target}"
            world.agree(said, f"@{self.traced.main.name}")
        if interpreting():
            told = Interpreted(self.partitioned)
            whole, runs = places(), [told.run] * len(held(mesh))
        else:
            self._unchecked("ranks of a mesh", "mesh=")
            with world.in_turn() if world else nullcontext():
                told = self._compiled(target, places)
            whole, runs = told.interface.placement, on_ranks(mesh, told)
        assert whole is not None
        ranks = MeshExecutable(mesh, whole, runs)
        return OnMesh(told.texts, told.report, self.options.target, ranks)

    def _on_a_gpu(self) -> OnDevice:
        """Code for a GPU, which runs where there is one."""
        from dlvm.gen.gpu.executable import built

        self._unchecked(f"target={self.options.target!r}", "the target")
        before, options = self.kernels, self.options
        with numerics(options.numerics), standard_mode():
            target = options.machine()
            code = self._timed("emit", lambda: built(before, target, options.schedule))
        return OnDevice(code.texts, code.report, options.target, code)

    def _foreign(self) -> Foreign:
        """Code for another processor."""
        from dlvm.gen.aot.joined import assembly_of

        code = self.made(self.options.machine())
        return Foreign(code.texts(assembly_of), code.report(), self.options.target)

    def made(self, target: Target, plans: Plans | None = None, check: bool = False) -> Made:
        """The code for a target, neither loaded nor written."""
        from dlvm.gen.build import made

        with numerics(self.options.numerics), self._guarded("emit"), standard_mode():
            return made(self.kernels, target, check, self.options.schedule, plans)

    def timers(self) -> Timers:
        """The program built once more with timers around its steps, which the disk never keeps."""
        from dlvm.gen.profile.measure import Timers

        self._native("profile")
        target, schedule = self.options.machine(), self.options.schedule
        plans = self._tuned(target)
        with numerics(self.options.numerics), self._guarded("emit"), standard_mode():
            return Timers.built(self.kernels, target, schedule, plans)

    def described(self) -> Made:
        """The code that runs, written once more so that it can be read, with what it was made of.

        The disk never keeps it.
        """
        target, check = self.options.machine(), looks(self.options.debug).bounds
        own = self.options.target == "host" and not check
        return self.made(target, self._tuned(target) if own else None, check)

    def _tuned(self, target: Target) -> Plans | None:
        """The schedules that the tuner has found for this machine, unless one is given."""
        from dlvm.gen.tuned import Tuned, written

        given = self.options.schedule is not None
        return None if given else Tuned.of(written(target), target)

    def _unchecked(self, found: str, option: str) -> None:
        """An error where accesses are to be checked, in code that can't check them."""
        if looks(self.options.debug).bounds:
            raise UserError(
                f"accesses are checked in code for one CPU, found {found}",
                remedy=f"leave {option} out to look for an access that is outside",
            )

    def _native(self, what: str) -> None:
        """An error unless this process runs the program as machine code, and alone."""
        if self.options.mesh is not None:
            raise UserError(
                f"{what}: expected a program of one device, found one for the ranks of a mesh",
                remedy="compile it without a mesh, or ask explain what is exchanged",
            )
        if interpreting() or self.options.target != "host":
            how = "by the interpreter" if interpreting() else f"for target={self.options.target!r}"
            raise UserError(
                f"{what}: expected machine code of this process, found a program run {how}",
                remedy="unset the variable DLVM_INTERPRET, and leave the target out",
            )

    @property
    def report(self) -> Report:
        """What was compiled and what it costs, with the seconds of every phase."""
        found = self.executable.report
        return replace(found, seconds={**self.seconds, **found.seconds})

    @lazy
    def strict(self) -> Road:
        """The same program under ``numerics="strict"``, which runs while NaN are looked for."""
        if self.options.numerics == "strict":
            return self
        return Road(self.traced, replace(self.options, numerics="strict"))

    def text(self, stage: str) -> str:
        """One stage as text."""
        if stage in MODULES or (stage in OF_A_MESH and self.options.mesh is not None):
            return str(getattr(self, stage))
        if stage in self.executable.texts:
            return self.executable.texts[stage]
        known = (*MODULES, *self.executable.texts) if is_gpu(self.options.target) else STAGES
        if self.options.mesh is not None:
            known = (*known, *OF_A_MESH)
        meant = did_you_mean(stage, known)
        raise IRError(f"there is no stage {stage!r}; expected one of {', '.join(known)}{meant}")

    def _timed(self, phase: str, run: Callable[[], T]) -> T:
        start = time.perf_counter()
        with self._guarded(phase), standard_mode():
            out = run()
        self.seconds[phase] = time.perf_counter() - start
        return out

    def failed(self, error: Exception, arrays: Sequence[Array]) -> CompilerError:
        """The error for a bug in dlvm that a call of the program revealed; writes a reproducer."""
        stage = "interpret" if interpreting() else "machine"
        threads = self.options.machine().threads
        with numerics(self.options.numerics):
            return guard.reported(self.traced, stage, error, lambda: threads, arrays)

    def _guarded(self, stage: str) -> AbstractContextManager[None]:
        return guard.guarded(self.traced, stage, lambda: self.options.machine().threads)


def _prepared(module: Module) -> Iterator[tuple[Array, Recipe]]:
    """The arrays that were computed while a program was made, each with its recipe."""
    from dlvm.opt.regions.preparing import recipes

    yield from recipes(module)


def expand(module: Module) -> Module:
    """The module with every declaration expanded into code."""
    from dlvm.ad.expand import expand

    with guard.guarded(module, "differentiate"), standard_mode():
        return expand(module)


def at_a_point(
    module: Module,
    name: str,
    wrt: Sequence[bool],
    seeded: Sequence[bool],
    forward: bool,
    room: int | None,
) -> Point | None:
    """A function of a module with a linear map at a point; None if it would keep a tape.

    With ``room``, the tape becomes a stack with this number of slots.
    """
    from dlvm.ad.linear import point

    wanted = tuple(i for i, w in enumerate(wrt) if w)
    kind = "tangent" if forward else "adjoint"
    map_ = Declaration(kind, "linear_map", name, wanted, seeded=not forward)
    with guard.guarded(Module((*module.entries, map_)), "differentiate"):
        return point(module, name, tuple(wrt), tuple(seeded), forward, room)


@passes.unhurried()
def flops_of(module: Module, name: str) -> Dim:
    """The floating-point operations of one run of a function, after optimisation."""
    from dlvm.cost import body_flops
    from dlvm.opt.pipelines import meaning
    from dlvm.opt.regions.inlining import keep_reachable

    alone = expand(module).led_by(name)
    with guard.guarded(alone, "optimize"):
        return body_flops(passes.run(alone, (keep_reachable, *meaning())).main)


def optimize(module: Module, names: Sequence[str] | None = None) -> Module:
    """The module after the passes with these names, or after the default pipeline."""
    from dlvm.opt.pipelines import default

    pipeline = default() if names is None else passes.named(names)
    if environment.verifying() == "passes":
        guard.demanded(module, pipeline=pipeline)
    return passed(module, pipeline, verify=None if names is None else True)


def passed(
    module: Module,
    pipeline: Sequence[Pass],
    watch: Watch | None = None,
    verify: bool | None = None,
) -> Module:
    """The module, expanded, after these passes; a bug in a pass is reported with a reproducer."""
    full = expand(module)
    with guard.guarded(module, "optimize", pipeline=pipeline), standard_mode():
        return passes.run(full, pipeline, watch, verify)


hooks.expand = expand
hooks.optimize = optimize

interpreting = environment.switch("DLVM_INTERPRET")
"""Whether staged code runs in the interpreter."""
