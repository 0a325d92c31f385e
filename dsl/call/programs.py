"""The programs of a function: chooses one for each call, and compiles another one if needed.

A program is chosen by what its code depends on: dtypes, shapes, weak types, structure and static
values of the arguments, and by its guards on the captured state that was read while tracing.
Compiling happens under one lock; running does not. This module runs no program.
"""

from __future__ import annotations

import itertools
import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextvars import copy_context
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, TypeVar

from dlvm.base.errors import TraceError
from dlvm.base.locks import Order, held_at_fork
from dlvm.base.progress import compiling
from dlvm.compile import Road, interpreting
from dlvm.dsl.state.watch import State
from dlvm.dsl.trace.defaults import default_float
from dlvm.dsl.trace.facing import public_of
from dlvm.dsl.trace.specs import Arguments
from dlvm.dsl.trace.tracing import Program
from dlvm.dsl.trace.trees import Spec as Tree
from dlvm.dsl.trace.warned import warned

from .audit import audit_of
from .compiled import Compiled
from .short_cuts import Form
from .signature import (
    Signature,
    advised,
    advised_alone,
    came_back_wider,
    differences,
    distance,
    leaf_key,
    serves,
)
from .source import Source
from .traces import Traces
from .watching import Compile, told

if TYPE_CHECKING:
    from .explain import Explanation

P = ParamSpec("P")
R = TypeVar("R")
COMPILING = held_at_fork(threading.RLock(), Order.COMPILING)


class Bounds(NamedTuple):
    """The number of programs of one function that are kept, and of compiles that are warned of."""

    kept: int
    compiles: int
    ordinal: str


STAGED, ALONE = Bounds(256, 10, "tenth"), Bounds(64, 100, "hundredth")
"""For functions that a user has staged, and for calls without a decorator."""
UNTOLD = ("accident", "audit", "swallowed", "types", "unrolled", "wider")
"""Warnings that calls of functions of ours don't give: they are about code of the user's."""
SHORT_CUTS = 4096
COMPILES = 1024
"""Number of compiles of one function that ``explain`` tells of, the latest ones."""
ROUNDS = 4
"""Number of programs compiled for one call if captured state keeps changing meanwhile."""
FORMS = 256
TRIED = 8
"""Number of short cuts that a call of one form tries."""
Found = tuple[Compiled, Sequence[Any]]
"""A program and the captured arrays that it is called with."""
log = logging.getLogger("dlvm.compile")


def in_own_context(method: Callable[P, R]) -> Callable[P, R]:
    """Runs a method in a copy of the context, which holds the trace and the passes that run.

    An interrupt may come between any two instructions, also as the ``with`` of a trace ends. What
    is left of the trace then goes with the copy, and the thread does not count as tracing.
    """

    @wraps(method)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        return copy_context().run(method, *args, **kwargs)

    return run


class Programs:
    """The programs of one function, as one cache of three tiers.

    ``source.short`` has short cuts for each form of call, ``_known`` the programs that served the
    exact types of a call, and ``_made`` all of them, the latest first.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self._made: list[Compiled] = []
        self._known: dict[Any, tuple[Compiled, ...]] = {}
        self._bounds = ALONE if source.alone else STAGED
        self._compiles: deque[Compile] = deque(maxlen=COMPILES)
        self._count = self._by_elements = 0
        ours = source.alone and public_of(source.fn) is not None
        self._told: set[str] = set(UNTOLD if ours else ())
        self._traces = Traces(source, self._told)
        self._clock = itertools.count(1)

    def find(self, arguments: Arguments, tree: Tree, leaves: Sequence[Any]) -> Found:
        """The program for a call, compiled if there is none yet, and the captured arrays now."""
        key = (
            arguments.names,
            tree,
            arguments.static_key(),
            tuple(map(leaf_key, leaves)),
            interpreting(),
            self.source.checked,
            default_float(),
        )
        for made in self._known.get(key, ()):
            if (arrays := made.state.current()) is not None:
                made.used = next(self._clock)
                break
        else:
            made, arrays = self._choose(key, arguments, tree, leaves)
        if made.audit is not None and made.audit.due():
            self._audited(made, arguments, arrays)
        return made, arrays

    @in_own_context
    def _choose(self, key: Any, arguments: Arguments, tree: Tree, leaves: Sequence[Any]) -> Found:
        with COMPILING, compiling(self.source.label):
            signature = self.source.signature(arguments, tree, leaves)
            latest = None
            for _ in range(ROUNDS):
                candidates = [*self._known.get(key, ()), *self._for(signature)]
                candidates += [] if self.source.dynamic else self._open(signature)
                for made in candidates:
                    if (arrays := made.state.current()) is not None:
                        self._remember(key, made)
                        return made, arrays
                latest = self._compile(signature, arguments, leaves)
        raise TraceError(
            f"what {self.source.label} captures changes faster than it can be traced: "
            f"{latest and latest.state.changed()}",
            remedy="keep other threads from changing it, or pass it as an argument",
        )

    @in_own_context
    def _audited(self, made: Compiled, arguments: Arguments, arrays: Sequence[Any]) -> None:
        """Refuses a program that is not what the function would be traced to now."""
        again = partial(self._traces.again, made.signature, arguments)
        named = [(f.path, x) for (f, _), x in zip(made.state.captured, arrays, strict=True)]
        with COMPILING, compiling(self.source.label):
            stale = made.audit and made.audit(made.program, named, again)
            if stale is not None:
                if any(m is made for m in self._made):  # another thread may have dropped it
                    self._drop(made)
                raise stale

    def _for(self, signature: Signature) -> list[Compiled]:
        return [made for made in self._made if made.signature == signature]

    def _open(self, wanted: Signature) -> list[Compiled]:
        """Programs with unknown sizes that serve such arguments, compiled from specs."""
        return [made for made in self._made if serves(made.signature, wanted)]

    # -- keeping ---------------------------------------------------------------------------------

    def shorten(self, form: Form, made: Compiled, leaves: Sequence[Any]) -> None:
        """Keeps a short cut to the program for calls of this form."""
        kept = self.source.short.get(form, ())
        if any(m is made for m, _ in kept):
            return
        call = made.shortened(form, leaves)
        if call is not None and made.audit is not None:
            call = made.audit.counted(call)
        if call is not None:
            if len(self.source.short) >= FORMS:
                self.source.short.clear()
            self.source.short[form] = ((made, call), *kept[: TRIED - 1])

    def _remember(self, key: Any, made: Compiled) -> None:
        made.used = next(self._clock)
        if len(self._known) >= SHORT_CUTS:
            self._known.clear()
        known = self._known.get(key, ())
        self._known[key] = (made, *(m for m in known if m is not made))

    def _keep(self, made: Compiled) -> None:
        """Keeps a program; beyond the bound, drops the least recently used one."""
        made.used = next(self._clock)
        self._made.insert(0, made)
        if len(self._made) > (kept := self._bounds.kept):
            self._drop(min(self._made, key=self._last_use))
            label = self.source.label
            log.info("%s: dropped the program not used for longest; %d are kept", label, kept)

    def _last_use(self, made: Compiled) -> int:
        """The time of a program's last call; short cuts record only that there was one."""
        if made.taken:
            made.taken, made.used = False, next(self._clock)
        return made.used

    def _drop(self, old: Compiled) -> None:
        self._made.remove(old)
        for tier in (self.source.short, self._known):  # the others are found again
            tier.clear()

    # -- compiling -------------------------------------------------------------------------------

    @in_own_context
    def compiled(self, arguments: Arguments, tree: Tree, leaves: Sequence[Any]) -> Compiled:
        """The program for such arguments, which may be specs."""
        with COMPILING, compiling(self.source.label):
            signature = self.source.signature(arguments, tree, leaves)
            kept = (made for made in self._for(signature) if made.state.current() is not None)
            return next(kept, None) or self._compile(signature, arguments, leaves)

    @in_own_context
    def traced(self, arguments: Arguments, tree: Tree, leaves: Sequence[Any]) -> Program:
        """The traced program for such arguments, which may be specs."""
        with COMPILING, compiling(self.source.label):
            signature = self.source.signature(arguments, tree, leaves)
            program = self._traces.settled(signature, arguments)[0]
            program.trace.forget()
            return program

    def _compile(
        self, signature: Signature, arguments: Arguments, leaves: Sequence[Any]
    ) -> Compiled:
        causes = self._causes(signature, arguments)
        computed = [p for made in self._for(signature)[:1] for p in made.state.other_arrays()]
        program, captures, inputs = self._traces.settled(signature, arguments)
        twin = self._twin(signature, program)
        road = twin.road if twin else Road(program.module, self.source.options)
        _ = road.executable
        found = [captures.arrays[key] for key in program.trace.arrays]
        types_ = (c.param.type for c in program.trace.arrays.values())
        state = State(captures.settled(program.trace), [*zip(found, types_, strict=True)])
        captures.tell(self.source.label, self._told)  # of what the trace showed to be too large
        (program.trace.release if self.source.alone else program.trace.forget)()
        made = Compiled(signature, self.source, inputs, program, road, state, captures.unwatched)
        made.audit = audit_of(self.source.label, captures, self._told)
        self._keep(made)
        label = self.source.label
        done = Compile(causes, tuple(f"{i.label}: {i.shown}" for i in inputs))
        if twin:
            log.info("%s: traced again for the same program: %s", label, done.reason)
            return made
        self._compiles.append(done)
        self._count += 1
        self._warn(signature, [i.label for i in inputs], leaves)
        if computed and self.source.alone:
            self._warn_of_arrays(computed)
        log.info("%s: compiled for (%s): %s", label, ", ".join(done.types), done.reason)
        told(label, self.source.fn, done, road)
        return made

    def _warn(self, signature: Signature, labels: Sequence[str], leaves: Sequence[Any]) -> None:
        """Warns of the tenth compile, and of a state that came back wider, once each."""
        label = self.source.label
        if self._count == self._bounds.compiles:
            reasons = "; ".join(c.reason for c in [*self._compiles][-3:])
            others = [made for made in self._made if made.signature != signature]
            if self.source.alone:
                same = [made.signature for made in others if not any(made.state.changes())]
                advice = advised_alone(same, signature)
            else:
                advice = advised([made.signature for made in others], signature)
            nth = self._bounds.ordinal
            warned(
                f"{label} compiles for the {nth} time, the last ones as {reasons}: {advice}", None
            )
        for made in self._made:
            own = [any(x is gave() for gave in made.gave) for x in leaves]
            wider = came_back_wider(made.signature, signature, own, labels)
            if wider and not self._told & {"wider", "accident"}:
                self._told.add("wider")
                found = made.program.trace.widenings
                at = f" ({found[0][0]} at {found[0][1]})" if found else ""
                warned(
                    f"{label} is called with its own result, in which {wider}{at}: convert what "
                    "it returns with dlvm.astype, or the arrays and numbers that widen it",
                    found[0][1] if found else None,
                )

    def _warn_of_arrays(self, paths: Sequence[str]) -> None:
        """Warns of the tenth compile for other elements of arrays that a function captures."""
        self._by_elements += 1
        if self._by_elements == STAGED.compiles:
            label = self.source.label
            warned(
                f"{label} compiles for the {STAGED.ordinal} time for other elements of "
                f"{', '.join(paths)}, as NumPy computes with them while it is traced: write "
                f"dlvm.asarray({paths[0]}) in its place, or compute it outside of {label} and "
                "capture the result as an array",
                None,
            )

    def _twin(self, signature: Signature, program: Program) -> Compiled | None:
        """A program with the same module whose guards fail; this trace replaces it."""
        twin = next((m for m in self._for(signature) if m.module == program.module), None)
        if twin is not None:
            self._drop(twin)
        return twin

    # -- what users ask --------------------------------------------------------------------------

    def _causes(self, signature: Signature, arguments: Arguments) -> tuple[str, ...]:
        """All that differs from the program that is most alike."""
        if not self._made:
            return ("what it reads has changed unseen" if self._compiles else "first call",)
        labels = arguments.leaf_labels(signature.tree)

        def causes(made: Compiled) -> tuple[str, ...]:
            differ = differences(made.signature, signature, labels)
            return (*differ, *made.state.changes())

        found = [(distance(m.signature, signature), causes(m)) for m in self._made]
        return min(found, key=lambda f: (f[0], len(f[1])))[1]

    def explain(self, laws: bool = False) -> Explanation:
        """Explains what was compiled and why, what was captured, widened and donated; which laws
        help.
        """
        from .explain import Explanation

        made = self._made[::-1]
        return Explanation.of(self.source.label, [*self._compiles], made, self.source.donate, laws)
