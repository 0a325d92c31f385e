"""A compiled program as users hold it: called with trees, shown as text, never traced again."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import PathLike
from typing import TYPE_CHECKING, Any

from dlvm.base.debugging import contexts, looks
from dlvm.base.errors import CompilerError, ShapeError, UserError
from dlvm.base.handlers import raised_by_handler
from dlvm.base.html import escape, preformatted
from dlvm.base.lazy import lazy
from dlvm.compile import Road
from dlvm.dsl.state.watch import State
from dlvm.dsl.trace.comparing import differing, mismatch
from dlvm.dsl.trace.devices import hosted, refuse_elsewhere
from dlvm.dsl.trace.facing import entry, faced, facing_users
from dlvm.dsl.trace.looking import kept, look
from dlvm.dsl.trace.provenance import definition, place
from dlvm.dsl.trace.scopes import user_origin
from dlvm.dsl.trace.sharded import local
from dlvm.dsl.trace.specs import Arguments, as_array, given
from dlvm.dsl.trace.tracing import Input, Program
from dlvm.dsl.trace.trees import Spec, flatten, unflatten
from dlvm.executables import OnDevice
from dlvm.ir import Array, Module, Param
from dlvm.ir.interpret import bind
from dlvm.ir.text.printer import printed, typed
from dlvm.trust.assumptions import check_assumptions

from .audit import Audit
from .copies import Copies
from .doubtful import Doubt, check, doubts
from .short_cuts import Call, Form, entered, short_cut
from .shortage import short_of_memory
from .signature import Signature
from .source import Source

if TYPE_CHECKING:
    from dlvm.gen.profile.records import Profile
    from dlvm.gen.program.report import Report
    from dlvm.viewing.page import Page

EACH = "call the staged function itself, which compiles for each structure and type"


class Compiled:
    """A function compiled for one signature, and the captured state that the program holds for.

    ``used`` is the time of its last call on the clock of its ``Programs``; ``taken`` says that a
    short cut has run it since then. ``gave`` has the results of the latest call that took no short
    cut, such as the first one. Every call reads ``_short`` or writes ``taken``, which is
    quickest in a slot.
    """

    __slots__ = ("__dict__", "__weakref__", "_given_away", "_short", "taken")

    def __init__(
        self,
        signature: Signature,
        source: Source,
        inputs: Sequence[Input],
        program: Program,
        road: Road,
        state: State,
        unwatched: Mapping[str, str],
    ) -> None:
        self.signature = signature
        self.parameters = source.parameters
        self._given_away = source.donated
        self.program = program
        self._made_of = source, inputs
        self.road = road
        """The stages of the program and its machine code; shared by traces that give the same
        program.
        """
        self.state = state
        self.unwatched = unwatched
        """State that was read while tracing and is not compared in full, with the reason."""
        params = program.module.main.params
        self._types = [p.type for p in params]
        self._labels = [*(i.label for i in inputs), *(c.path for c, _ in state.captured)]
        self._donated = sorted(program.module.main.donations().values())
        self.audit: Audit | None = None
        self._short: dict[Form, Call] = {}
        self.copies = Copies(source.label, self._labels, self._donated)
        self.gave: list[weakref.ref[Array]] = []
        self.used = 0
        self.taken = False

    @property
    def module(self) -> Module:
        """The traced module."""
        return self.program.module

    def scheduled(self, schedule: str) -> Compiled:
        """The same program with kernels under a schedule, as ``text("schedule")`` shows one."""
        if not isinstance(schedule, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UserError(
                f"schedule={schedule!r:.60}: expected text",
                remedy="pass what .text('schedule') gives, edited",
            )
        source, inputs = self._made_of
        road = Road(self.road.traced, replace(self.road.options, schedule=schedule))
        _ = road.executable
        return Compiled(
            self.signature, source, inputs, self.program, road, self.state, self.unwatched
        )

    @property
    def report(self) -> Report:
        """Time by phase, kernels, operations and memory."""
        return self.road.report

    def __repr__(self) -> str:
        """One line: the name, the types and the options that are set."""
        said = self.road.options.said().strip()
        return f"<compiled {self.module.main.name}({_typed(self)}){f', {said}' if said else ''}>"

    def _repr_html_(self) -> str:
        """The same line in notebooks, then the optimised program."""
        line, text = escape(repr(self)), printed(self.road.optimized.entries, places=True)
        return f"<details><summary>{line}</summary>{preformatted(text)}</details>"

    def text(self, stage: str) -> str:
        """One stage of the compiler as text."""
        return self.road.text(stage)

    @entry
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the program; arguments of other types, shapes or structure are an error."""
        short = self._short.get((len(args), *kwargs) if kwargs else len(args))
        donated = self._given_away
        try:
            if donated is not None and (kept := donated.doubtful(self, args, kwargs)):
                return self._slowly(args, kwargs, kept)
            out = NotImplemented
            if short is not None and not contexts:
                out = short((*args, *kwargs.values()) if kwargs else args)
            return self._slowly(args, kwargs) if out is NotImplemented else out
        except Exception as error:
            name, ran = self.module.main.name, self.module
            raise faced(error, name, None, args, kwargs, program=ran)  # noqa: B904  # it is it

    @facing_users
    def profile(self, *args: Any, seconds: float = 0.3, **kwargs: Any) -> Profile:
        """Measures where the time and the memory of a call with these arguments go.

        A build of its own, with timers around kernels, copies and calls of Python, is called on
        copies of the arguments on one core for about ``seconds``. ``print`` shows the result;
        ``to_dict()`` and ``trace()`` give it as data, the latter for Perfetto.
        """
        from .profiling import profile_of

        _, found = self._given(args, kwargs)
        return profile_of(self.road, self._arrays(found, self._read()), seconds)

    @facing_users
    def view(
        self,
        path: str | PathLike[str] | None = None,
        *args: Any,
        seconds: float = 0.3,
        **kwargs: Any,
    ) -> Page:
        """A page in one HTML file that shows the program after every pass, down to assembly.

        It shows what each line came from and became, the laws applied, refused fusions and the plan
        of memory. It is returned as text, which a notebook shows in a frame, and written to
        ``path`` if that is given. With arguments of a call the page also has a profile, as
        ``profile`` measures it.
        """
        from .profiling import page_of, place_of_page, write_page

        place, arrays = place_of_page(path), None
        if args or kwargs:
            arrays = self._arrays(self._given(args, kwargs)[1], self._read())
        page = page_of(self.road, arrays, seconds)
        if place is not None:
            write_page(place, page)
        return page

    def _slowly(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], kept: Sequence[str] = ()
    ) -> Any:
        donated = self._given_away
        reached = () if donated is None else donated.reached(args, kwargs, kept)
        leaves, found = self._given(args, kwargs)
        try:
            shared = [i for i, x in enumerate(leaves) if id(x) in reached]
            out = self.run(found, self._read(), shared)
        except ShapeError as error:
            error.remedy = error.remedy or EACH
            raise
        self.shortened((len(args), *kwargs) if kwargs else len(args), leaves)
        return out

    def _given(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], list[Any]]:
        """The leaves of the arguments of a call as they are, and as arrays and numbers."""
        arguments = self.parameters.bind(args, kwargs)
        leaves, tree = flatten(arguments.values)
        _check_form(self.signature, arguments, tree)
        names = arguments.leaf_labels(tree)
        return leaves, [given(x, name) for x, name in zip(leaves, names, strict=True)]

    def shortened(self, form: Form, leaves: Sequence[Any]) -> Call | None:
        """The short cut for calls of this form with such leaves, if there is one."""
        if (
            form not in self._short
            and not looks(self.road.options.debug).at_values
            and (made := short_cut(self, form, leaves))
        ):
            self._short[form] = made
        return self._short.get(form)

    def _read(self) -> Sequence[Any]:
        """The captured arrays as they are now; captured state that has changed is an error."""
        found = self.state.current()
        if found is None:
            changed = self.state.changed() or "what it captures has changed"
            raise UserError(
                f"compiled for other captured state: {changed}",
                origin=user_origin(),
                remedy=EACH,
            )
        return found

    def run(
        self, leaves: Sequence[Any], captured: Sequence[Any], shared: Sequence[int] = ()
    ) -> Any:
        """Run on leaves in parameter order, and on the captured arrays.

        Of donated leaves that others can reach, which are ``shared``, copies are overwritten.
        """
        labels, arrays = self._labels, self._arrays(leaves, captured)
        self.copies.of_shared(arrays, shared, isinstance(self.road.executable, OnDevice))
        looked = looks(self.road.options.debug)
        if looked.assumptions:
            check_assumptions(self.road.differentiated, hosted(arrays))
        if not looked.at_numbers:
            results = self._results(arrays)
            self.gave = [weakref.ref(r) for r in results]
            return unflatten(self.program.tree, results)
        hosts = hosted(arrays)
        arrays = hosts if self.road.options.mesh is None else arrays
        before = kept(hosts, self._donated)
        road = self.road.strict
        results = self._results(arrays, road)
        stops = (lambda: road.traced, lambda: road.differentiated, lambda: road.optimized)
        look(stops, before, labels, hosted(results), looked)
        return unflatten(self.program.tree, results)

    def _arrays(self, leaves: Sequence[Any], captured: Sequence[Any]) -> list[Array]:
        """The arrays of every parameter."""
        pairs = zip(leaves, self._types, self._labels, strict=False)
        found = [*(as_array(x, t, name) for x, t, name in pairs), *captured]
        return _taken(found, self._labels, self.road, self.module.main.params)

    def _results(self, arrays: list[Array], road: Road | None = None) -> Sequence[Array]:
        """The results of the machine code of this program, or of another ``road`` for its trace."""
        quick = None if road is not None and road is not self.road else self._enter
        try:
            found = NotImplemented if quick is None else quick(arrays)
            if found is not NotImplemented:  # the entry has checked all that follows
                return found
            check(self.doubts, bind(self._types, arrays, self._labels))
            self.copies.of_unwritable(arrays)
            return (road or self.road).executable.run(arrays)
        except UserError as error:
            error.notes += (self._written(),) if error.sides else ()
            raise error.located(user_origin()) from None
        except MemoryError as error:
            raise short_of_memory(error, self.road, arrays) from None
        except (RecursionError, OSError):
            raise
        except Exception as error:
            told = isinstance(error, CompilerError) and error.reproducer is not None
            if told or raised_by_handler(error):
                raise
            raise (road or self.road).failed(error, hosted(arrays)) from error

    def _written(self) -> str:
        """The types for which this was compiled, and the line that names the arguments."""
        at = definition(self.program.trace.python)
        return f"compiled for ({_typed(self)}){f', {place(at)}' if at else ''}"

    @lazy
    def _enter(self) -> Call | None:
        slow = self.doubts or self.road.options.mesh is not None
        return None if slow else entered(self.road.executable)

    @lazy
    def doubts(self) -> Sequence[Doubt]:
        """The sizes that each call must check."""
        return doubts(self.module)


def _taken(
    arrays: list[Any], labels: Sequence[str], road: Road, params: Sequence[Param]
) -> list[Any]:
    """The arrays as the program takes them; those that lie where it does not run are refused."""
    if (mesh := road.options.mesh) is not None:
        return local(arrays, labels, mesh, [p.sharding for p in params])
    if not isinstance(road.executable, OnDevice):
        refuse_elsewhere(arrays, labels)
    return arrays


def _typed(made: Compiled) -> str:
    """The parameters of a program and their types."""
    pairs = zip(made._labels, made.module.main.params, strict=True)  # pyright: ignore[reportPrivateUsage]
    return ", ".join(f"{n}: {typed(p)}" for n, p in pairs)


def _check_form(wanted: Signature, arguments: Arguments, tree: Spec) -> None:
    """Refuses arguments of other names, structure or static values than were compiled for."""
    if arguments.names != wanted.names:
        raise _unlike(", ".join(wanted.names), ", ".join(arguments.names))
    if tree != wanted.tree:
        name, was, is_ = differing(wanted.names, wanted.tree, tree)
        raise mismatch("compiled for other arguments", name, was, is_, EACH)
    if (static := arguments.static_key()) != wanted.static:
        raise _unlike(
            *(", ".join(f"{n}={v!r:.40}" for n, _, v in key) for key in (wanted.static, static))
        )


def _unlike(expected: str, found: str) -> UserError:
    return UserError(
        f"compiled for arguments {expected}, called with {found}",
        origin=user_origin(),
        remedy=EACH,
    )
