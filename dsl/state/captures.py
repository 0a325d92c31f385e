"""Captured state of one trace: found before it by reading code, and settled after it.

A captured array is a hidden argument, read again at each call. A result that NumPy computed from
one while tracing is part of the code, so the elements of such an array are compared at each call,
and an array that is too large for that is refused. It is an error if Python changes state while
tracing, because no later call would change it again.
"""

from __future__ import annotations

import gc
import re
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dlvm.base.errors import Origin, TraceError
from dlvm.dsl.trace.scopes import Trace, type_of, user_origin
from dlvm.dsl.trace.tensor import Tensor
from dlvm.dsl.trace.warned import warned
from dlvm.ir import Array, is_fixed

from .abstract_values import ANY, STAGED, Value, only
from .code import decoded
from .follow import Follow
from .guards import (
    COMPARED_BYTES,
    ELEMENTS,
    GONE,
    Elements,
    Found,
    Guard,
    brief,
    owner,
    same_view,
    shows,
)
from .places import Derived, Held
from .record import Seen, Use, hidden_state, state_of
from .whose_code import home_of, of_installed

_PART = re.compile(r"\.|\[")
"""Where a path goes on to a part of an object."""


class Captures:
    """The captured state that functions read when they are called with these arguments."""

    def __init__(
        self,
        roots: Sequence[Any],
        static: Mapping[str, Any] | None = None,
        staged: bool = False,
        kinds: Sequence[type] = (),
        adopted: Sequence[Array] = (),
    ) -> None:
        self.seen = Seen()
        self._own_code = all(home_of(root) == "dlvm" for root in roots)
        """Whether only functions of dlvm itself are traced, with arrays of the present call."""
        self._pathless: list[weakref.ref[Array]] = []
        """Arrays that met the trace and that no path leads to, and those whose memory they show."""
        follow = Follow(self.seen)
        walk = follow.walk
        known: dict[str, Value] = {
            name: only(walk.held(value, name)) for name, value in (static or {}).items()
        }
        for cls in kinds:
            walk.opened.open(walk.held(cls, cls.__name__))
        for root in roots:
            follow(root, known, only(STAGED) if staged else only(ANY))
        for array in adopted:
            self._adopt(array)
        self._before = {
            id(array): Elements.of(array)
            for array, found in self._with_paths()
            if array.nbytes <= COMPARED_BYTES and self._use(found, {}) > Use.STAGED
        }

    @property
    def arrays(self) -> dict[int, Found]:
        """Every array that may become a hidden argument, by identity."""
        return self.seen.arrays

    @property
    def unwatched(self) -> dict[str, str]:
        """State that is not compared, with the reason."""
        return self.seen.unwatched

    @property
    def is_doubtful(self) -> bool:
        """Whether state goes to code that is not read, or comes by ways that are not known."""
        return self.seen.handed or bool(self.seen.unwatched or self.seen.adopted)

    def repeats(self) -> str | None:
        """What another trace would do again; None if a trace only reads, as far as is known."""
        seen = self.seen
        changed = (
            f"it calls into {path}, which may change"
            for path, (value, before) in seen.hidden.items()
            if before is None or hidden_state(value) != before
        )
        reasons = (
            *(f"it assigns {path}" for path in seen.writes),
            *(f"it draws random numbers from {path}" for path in seen.generators),
            *(f"it reads {name}" for name in seen.sources),
            *(f"it calls {name}" for name in seen.acts),
        )
        return next(iter(reasons), None) or next(changed, None)

    def _with_paths(self) -> list[tuple[Array, Found]]:
        return [(array, self.arrays[id(array)]) for array in self.seen.held]

    def _adopt(self, array: Array) -> None:
        """Records an array that a trace met and that no path leads to: it is read by itself."""
        path = f"an array of type {type_of(array)}"
        self.arrays[id(array)] = Found(path, Derived(Held(weakref.ref(array)), _referent))
        self.seen.held.append(array)
        self.seen.adopted[path] = user_origin()

    def find(self, array: Array) -> str | None:
        """The path of an array, if the array or the owner of its memory was found."""
        found = self.arrays.get(id(array))
        if found is None and (found := self._view(array)) is not None:
            self.seen.held.append(array)
            self.arrays[id(array)] = found
        if found is None and not self._own_code:
            self._pathless += [weakref.ref(a) for a in (array, owner(array))]
        return found.path if found else None

    def still_held(self, known: Callable[[Array], bool]) -> list[Array]:
        """Arrays that were taken for constants of the trace, and that somebody else holds after it.

        They may change, and nobody knows by which path they came. Those that can't be written to,
        such as what ``f.bind`` froze, stay constants.
        """
        if any(ref() is not None for ref in self._pathless):
            gc.collect()  # what only a circle of objects of the trace holds is its own
        held = {id(a): a for ref in self._pathless if (a := ref()) is not None}
        return [a for a in held.values() if owner(a) is a and a.flags.writeable and not known(a)]

    def _view(self, array: Array) -> Found | None:
        for base in self.seen.held:
            if base is not array and shows(base, array):
                found = self.arrays[id(base)]
                return Found(
                    f"{found.path}_view", same_view(array, base, found.read), found.base or found
                )
        return None

    # -- after the trace ---------------------------------------------------------------------------

    def settled(self, trace: Trace) -> tuple[Guard, ...]:
        """The guards of a finished trace."""
        taken = self._taken(trace)
        kept = self.seen.guards
        for array, found in self._with_paths():
            if found.base is not None:
                continue
            use = self._use(found, taken)
            if use is Use.WHOLE and array.nbytes > COMPARED_BYTES:
                self.seen.too_much(found.path, "too large to be compared at each call")
            elif use > Use.STAGED:
                kept.append(self._elements(array, found, trace.label))
        return tuple(kept)

    def _elements(self, array: Array, found: Found, label: str) -> Guard:
        before = self._before.get(id(array))
        if before is None and is_fixed(array):
            return Guard(found.path, found.read, weakref.ref(array), by_identity=True)
        if before is None:
            raise TraceError(
                f"{label} computes with the elements of {found.path} in NumPy while it is traced; "
                f"at {array.nbytes / COMPARED_BYTES:.1f} MiB it is too large to be compared at "
                "each call",
                origin=self.seen.changes.get(found.path),
                remedy=f"stage what is computed of it: dlvm.asarray({found.path}) in its place, or "
                f"compute it outside of {label} and capture the result",
            )
        return Guard(f"{ELEMENTS}{found.path}", Derived(found.read, Elements.of), before)

    def _taken(self, trace: Trace) -> dict[Any, set[int]]:
        """The arrays that the trace used at each step of the code, by how they are read."""
        out: dict[Any, set[int]] = {}
        for code, offset, key in trace.taken:
            found = self.arrays.get(key)
            if found is not None:
                read = (found.base or found).read
                out.setdefault((read, code), set()).add(decoded(code).at(offset))
        return out

    def _use(self, found: Found, taken: Mapping[Any, set[int]]) -> Use:
        uses, anywhere = [Use.STAGED], any(read is found.read for read, _ in taken)
        for (read, code, step), use in self.seen.uses.items():
            if read is found.read:
                evident = use is Use.MAYBE and step in taken.get((read, code), ())
                evident = evident or (use is Use.WHOLE and anywhere)
                uses.append(Use.STAGED if evident else use)
        return max(uses)

    # -- what changed while it was traced ----------------------------------------------------------

    def check(self, label: str, again: bool) -> bool:
        """Refuses a trace that changed state which it read; later calls would not change it.

        A value that did not exist before, such as a table that is filled once, is allowed: then the
        result is False, and the function is traced ``again``, which must change nothing.
        """
        for path, origin in self.seen.unseeded.items():
            raise self._random(label, path, origin)
        for path, (generator, before) in self.seen.generators.items():
            if state_of(generator) != before:
                raise self._random(label, path)
        for array, found in self._with_paths():
            known = self._before.get(id(array))
            if known is not None and found.base is None and Elements.of(array) != known:
                raise self._refused(label, Guard(found.path, found.read, known), Elements.of(array))
        changed = [guard for guard in self.seen.guards if not guard.holds()]
        for guard in [g for g in changed if of_installed(g.read)]:
            self.seen.drop(guard)  # a counter or a cache that a package keeps for itself
            changed.remove(guard)
        loaded = {guard.path for guard in changed} | self.seen.missed
        stored = [w for w in self.seen.writes.values() if not w.holds() and w.path not in loaded]
        for guard in (*changed, *stored):
            now = guard.now()
            made = _was_missing(guard.expected) and not isinstance(now, Tensor)
            if again or guard in stored or not made:
                raise self._refused(label, guard, now)
        return not changed

    def _refused(self, label: str, guard: Guard, now: Any) -> TraceError:
        path = guard.path
        plain = path.removeprefix("the structure of ").removeprefix("the length of ")
        plain = plain.removeprefix("the entries of ")
        written = self.seen.writes.get(path)
        if isinstance(now, Tensor):
            return TraceError(
                f"{label} stores a staged value in {path}, which outlives the trace",
                origin=self.seen.changes.get(path),
                remedy="return it, and store the result outside; where another function needs it, "
                "pass it as an argument",
            )
        return TraceError(
            f"{label} changes {path} while it is traced, from {brief(guard.expected)} to "
            f"{brief(now)}; Python runs once, and later calls would not change it",
            origin=self._changed_at(path if written else plain),
            remedy=f"pass {plain} as an argument and return its new value, or change it outside of "
            f"{label}",
        )

    def _changed_at(self, path: str) -> Origin | None:
        """The line that changes what a path leads to, or the object in which it lies."""
        around = (path[: m.start()] for m in reversed([*_PART.finditer(path)]))
        lines = self.seen.changes
        return next((lines[p] for p in (path, *around) if p in lines), None)

    def _random(self, label: str, path: str, origin: Origin | None = None) -> TraceError:
        return TraceError(
            f"{label} draws random numbers from {path} while it is traced; every later call would "
            "use the same ones",
            origin=origin or self.seen.changes.get(path),
            remedy="draw them outside and pass them as an argument, or use dlvm.random with a key "
            "that is an argument",
        )

    def tell(self, label: str, told: set[str]) -> None:
        """Warns once of each kind of state that later calls don't follow."""
        if self.seen.beyond and "beyond" not in told:
            told.add("beyond")
            path, why = next(iter(self.seen.beyond.items()))
            warned(
                f"{label} reads {path}, which is {why}: what changes in it is not noticed; pass "
                f"what is needed of it as an argument ({label}.explain() lists all such state)",
                None,
            )
        for path, origin in self.seen.adopted.items():
            if "adopted" not in told:
                told.add("adopted")
                warned(
                    f"{label} reads {path} by a way that only C code knows; its elements are read "
                    "at each call, but another array in its place may go unnoticed: pass it as an "
                    f"argument, or read it by its name in {label}",
                    origin,
                )
        for name, origin in self.seen.sources.items():
            if name not in told:
                told.add(name)
                warned(
                    f"{label} reads {name} at {origin}, which happens once, while it is traced; "
                    f"later calls use the same value: read it outside of {label} and pass it as an "
                    "argument",
                    origin,
                )


def _referent(ref: Any) -> Any:
    return ref()


def _was_missing(before: Any) -> bool:
    """Whether a value, or some keys of a table, did not exist before."""
    return before is None or before is GONE or before is False or isinstance(before, tuple)
