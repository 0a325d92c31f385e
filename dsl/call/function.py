"""``@dlvm.function``: a Python function that compiles itself for the arguments it is called with.

This module has the ways to call it: as a function, as a method, inside a trace. ``programs``
chooses or compiles the program that runs; ``short_cuts`` lead later calls past both. Modules that
are needed only by a call are imported at the first one.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeGuard, TypeVar

import numpy as np

from dlvm.base.debugging import contexts, looks
from dlvm.base.elsewhere import Elsewhere
from dlvm.compile import Options, interpreting
from dlvm.dsl.trace.facing import entry, faced, facing_users, public_of
from dlvm.dsl.trace.openness import check_dynamic, without
from dlvm.dsl.trace.operands import here, staged
from dlvm.dsl.trace.scopes import current, is_array
from dlvm.dsl.trace.sharded import check_one_mesh
from dlvm.dsl.trace.specs import Arguments, Parameters, check_function, given
from dlvm.dsl.trace.tensor import Tensor
from dlvm.dsl.trace.tracing import Callee, call_function, write_function
from dlvm.dsl.trace.trees import Spec as Tree
from dlvm.dsl.trace.trees import flatten, unflatten
from dlvm.dsl.words.methods import Methods, WeakMethod
from dlvm.ir import Module, TensorType

from .application import Application, application
from .carrying import carried, deeply_copied
from .recursion import called_with, generalised, identity, opened, settled
from .source import Source

if TYPE_CHECKING:
    from dlvm.dsl.owned.arguments import Donated

    from .compiled import Compiled
    from .explain import Explanation
    from .programs import Programs

CALLED = ("trace", "compile", "explain", "bind")
"""What users call of a staged function beside itself."""
P = ParamSpec("P")
R = TypeVar("R")
Names = Sequence[str | int] | str | int


class Method:
    """A staged function with its first argument given: a method of a dataclass."""

    def __init__(self, function: StagedFunction[..., Any], instance: Any) -> None:
        self._function = function
        self._instance = instance

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function with the instance in front."""
        return self._function(self._instance, *args, **kwargs)

    def trace(self, *args: Any, **kwargs: Any) -> Module:
        """The traced module for the instance and such arguments."""
        return self._function.trace(self._instance, *args, **kwargs)

    def compile(self, *args: Any, **kwargs: Any) -> Compiled:
        """The program for the instance and such arguments; it is called with both."""
        return self._function.compile(self._instance, *args, **kwargs)

    def explain(self, laws: bool = False) -> Explanation:
        """Explains what was compiled, for all instances."""
        return self._function.explain(laws)


def given_away(parameters: Parameters, names: frozenset[str]) -> Donated:
    """The donated arguments of calls, also of those that come through a bound method."""
    from dlvm.dsl.owned.arguments import Donated

    return Donated(parameters, names, partial(Method, instance=None), Method.__call__.__code__)


def is_staged(f: Any) -> TypeGuard[StagedFunction[..., Any]]:
    """Whether a function compiles itself."""
    return isinstance(f, StagedFunction)


def _shown(self: object) -> list[str]:
    """The names of a staged function that users call, and those that Python defines."""
    return [n for n in object.__dir__(self) if n.startswith("__") or n in CALLED]


class StagedFunction(Generic[P, R]):
    """A function that compiles itself for the arguments it is called with.

    One that dlvm made of a Python function is ``transparent``: nobody has declared static
    arguments.
    """

    __slots__ = ("__dict__", "__weakref__", "_donated", "_short")  # a slot is quickest to read
    transparent = False
    __dir__ = _shown

    def __init__(
        self,
        fn: Callable[P, R],
        *,
        static: Names = (),
        donate: Names = (),
        dynamic: Mapping[str, str] | bool = False,
        options: Options | None = None,
        roots: Sequence[Any] = (),
        known: Sequence[Any] = (),
        inline: bool = False,
        alone: bool = False,
    ) -> None:
        check_function(fn, "function")
        functools.update_wrapper(self, fn)
        parameters = Parameters(fn, static)
        donated = frozenset(parameters.resolve(donate, "donate"))
        check_dynamic(dynamic, parameters.names)
        self.source = Source(
            fn,
            parameters,
            donated,
            dynamic,
            options or Options(),
            tuple(roots) or (fn,),
            tuple(known),
            alone=alone,
            donated=given_away(parameters, donated) if donated else None,
        )
        self._inline = inline
        self._short = self.source.short
        self._donated = self.source.donated
        self._methods: Methods[StagedFunction[..., Any]] = Methods()
        self._owner: Any = None

    @property
    def python(self) -> Callable[P, R]:
        """The function as it was written."""
        return self.source.fn

    @property
    def parameters(self) -> Parameters:
        """The parameters of the function."""
        return self.source.parameters

    @property
    def label(self) -> str:
        """Its name in IR text and messages."""
        return self.source.label

    @property
    def programs(self) -> Programs:
        """The programs compiled from it so far."""
        if not self.source.programs:
            from .programs import Programs

            self.source.programs.append(Programs(self.source))
        return self.source.programs[0]

    @property
    def is_method(self) -> bool:
        """Whether it is a method of an object, which is its first argument."""
        return self._owner is not None

    def __repr__(self) -> str:
        return f"<staged function {self.label}>"

    def __reduce__(self) -> Any:
        """Pickles by name, as Python's functions do; where the name leads elsewhere, by value."""
        return carried(self, self._owner, _blank, self._inline)

    def __setstate__(self, state: tuple[Callable[P, R], dict[str, Any], bool]) -> None:
        """Stages the function again, in a process that it was pickled for."""
        self.__init__(state[0], **state[1])
        self.transparent = state[2]

    def __copy__(self) -> StagedFunction[P, R]:
        """The same function, as for Python's functions."""
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> StagedFunction[..., Any]:
        """The same function, as for Python's functions; of a method that of the copied object."""
        fn = deeply_copied(self.source.fn, self._owner, memo)
        return self if fn is None else self._again(fn)

    # -- as a method -----------------------------------------------------------------------------

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """Binds it as a method: a dataclass becomes an argument, others are captured state."""
        if instance is None:
            return self
        if dataclasses.is_dataclass(instance) or isinstance(instance, tuple):
            return Method(self, instance)
        handle: Any = object.__new__(self.__class__)
        known = self._methods.of(instance, self._method)
        handle.__dict__.update(vars(known))
        handle._short = known._short
        handle._donated = known._donated
        handle._owner = instance  # the table holds it weakly, whoever has the method strongly
        return handle

    def _method(self, owner: Callable[[], Any]) -> StagedFunction[..., Any]:
        return self._again(WeakMethod(self.source.fn, owner))

    def __eq__(self, other: object) -> bool:
        """Compares as Python's methods do: two methods of one object are equal."""
        return isinstance(other, StagedFunction) and self.source is other.source

    def __hash__(self) -> int:
        return id(self.source)

    # -- other functions of it -------------------------------------------------------------------

    def _again(
        self, fn: Callable[..., Any], without_: Sequence[str] = (), **changed: Any
    ) -> StagedFunction[..., Any]:
        """Another function staged in the same way, without some of the parameters."""
        source = self.source
        options: dict[str, Any] = {
            "static": tuple(n for n in source.parameters.static if n not in without_),
            "donate": tuple(n for n in source.donate if n not in without_),
            "dynamic": without(source.dynamic, without_),
            "options": source.options,
            "alone": source.alone,
        }
        return StagedFunction(fn, **(options | changed))

    def like(self, fn: Callable[..., Any], transparent: bool = False) -> StagedFunction[..., Any]:
        """Another function of the same arguments, staged in the same way."""
        source = self.source
        roots = [*source.roots, fn]
        made = self._again(fn, roots=roots, known=source.known, donate=(), inline=True)
        made.transparent = transparent
        return made

    @facing_users
    def bind(self, **values: Any) -> StagedFunction[..., R]:
        """The function with some arguments fixed: copied now, they become part of the code."""
        self.parameters.resolve(tuple(values), "bind")
        fn, whole = self.source.fn, self.parameters.signature
        frozen = {n: x if n in self.parameters.static else _frozen(x, n) for n, x in values.items()}
        rest = whole.replace(parameters=[p for n, p in whole.parameters.items() if n not in frozen])

        @functools.wraps(fn)
        def bound(*args: Any, **kwargs: Any) -> R:
            named = rest.bind(*args, **kwargs).arguments | frozen
            ordered: Any = {n: named[n] for n in whole.parameters if n in named}
            call = inspect.BoundArguments(whole, ordered)
            return fn(*call.args, **call.kwargs)

        bound.__signature__ = rest  # type: ignore[attr-defined]
        copied = [x for n, x in frozen.items() if n not in self.parameters.static]
        known = [*self.source.known, *filter(is_array, flatten(copied)[0])]
        return self._again(bound, [*frozen], roots=self.source.roots, known=known)

    # -- calling ---------------------------------------------------------------------------------

    @entry
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Runs the function; compiles it first if there is no program for such arguments."""
        try:
            donated = self._donated
            if donated is not None and (kept := donated.doubtful(self, args, kwargs)):
                return self._slowly(args, kwargs, kept)
            found = self._short.get((len(args), *kwargs) if kwargs else len(args))
            if found is not None and current() is None and not interpreting() and not contexts:
                given = (*args, *kwargs.values()) if kwargs else args
                for made, call in found:
                    out = call(given)
                    if out is not NotImplemented:
                        made.taken = True
                        return out
            return self._slowly(args, kwargs, ())
        except Exception as error:
            form, ours = (len(args), *kwargs) if kwargs else len(args), public_of(self.python)
            ran = next((m.module for m, _ in self._short.get(form, ())), None)
            raise faced(error, self.label, ours, args, kwargs, program=ran)  # noqa: B904  # it is it

    def _slowly(self, args: tuple[Any, ...], kwargs: dict[str, Any], kept: Sequence[str]) -> R:
        arguments = self.parameters.bind(args, kwargs)
        if current() is not None:
            return self._inside(arguments)
        reached = () if self._donated is None else self._donated.reached(args, kwargs, kept)
        written, tree = flatten(arguments.values)
        leaves = _readable(written, arguments, tree)
        made, captured = self.programs.find(arguments, tree, leaves)
        out = made.run(leaves, captured, [i for i, x in enumerate(written) if id(x) in reached])
        if not looks(self.source.options.debug).at_values:
            form = (len(args), *kwargs) if kwargs else len(args)
            self.programs.shorten(form, made, written)
        return out

    def _inside(self, arguments: Arguments) -> Any:
        """A call inside a trace: calls a function of the module, traced once for each signature."""
        if self._inline:
            return self.parameters.call(self.source.fn, arguments, arguments.values)
        check_one_mesh(self.label, self.source.fn, self.source.options.mesh, here().trace)
        leaves, tree = flatten(arguments.values)
        tensors = [staged(x) for x in leaves]
        callee = self.callee(arguments, tree, [x.type for x in tensors], tensors)
        return call_function(callee, tensors)

    def callee(
        self,
        arguments: Arguments,
        tree: Tree,
        leaves: Sequence[TensorType],
        given: Sequence[Tensor],
    ) -> Callee:
        """The function of the module that is being traced, for operands of these types."""
        trace, fn = here().trace, self.source.fn
        weak, values = [x.weak for x in given], [x.contents for x in given]
        inputs = self.source.inputs(arguments, tree, leaves, weak, values)
        same = identity(fn, arguments, tree)
        if (known := opened(trace, same, inputs)) is not None:
            return known.callee(inputs)
        general = generalised(trace, same, inputs)
        key, cells = (same, tuple((i.type, i.weak) for i in general)), cells_of(fn)
        kept: tuple[list[Any], Callee] | None = trace.memo.get(key)
        if kept and kept[1].reusable and all(a is b for a, b in zip(kept[0], cells, strict=True)):
            return called_with(kept[1], inputs)
        body = self.body(arguments, tree)

        def write(assumed: Callee | None) -> Callee:
            lifting = assumed.lifted if assumed else ()
            return write_function(self.label, general, body, lifting)

        made = settled(self.label, same, general, write)
        trace.memo[key] = (cells, made)
        return called_with(made, inputs)

    def body(self, arguments: Arguments, tree: Tree) -> Callable[[list[Any]], Any]:
        """The Python function on staged leaves."""
        return self.source.body(arguments, tree)

    # -- what users ask --------------------------------------------------------------------------

    @facing_users
    def trace(self, *args: Any, **kwargs: Any) -> Module:
        """The traced module for such arguments, which may be specs."""
        return self.programs.traced(*self._read(args, kwargs)).module

    @facing_users
    def applied(
        self, args: Sequence[Any], kwargs: Mapping[str, Any], specs: bool = False
    ) -> Application:
        """The traced module with the arrays of this call, which may be ``specs``, and names."""
        arguments, tree, leaves = self._read(tuple(args), dict(kwargs))
        program = self.programs.traced(arguments, tree, leaves)
        names = arguments.leaf_labels(tree)
        owners = [name for name, _ in arguments.leaf_names(tree)]
        return application(program, leaves, names, owners, specs)

    @facing_users
    def compile(self, *args: Any, **kwargs: Any) -> Compiled:
        """The program for such arguments, which may be specs; it never traces again.

        ``schedule=`` is the text of a schedule for its kernels; a function that has a parameter of
        this name gets it as an argument instead.
        """
        own = "schedule" in self.parameters.names
        schedule = None if own else kwargs.pop("schedule", None)
        made = self.programs.compiled(*self._read(args, kwargs))
        return made if schedule is None else made.scheduled(schedule)

    def _read(self, args: Any, kwargs: Any) -> tuple[Arguments, Tree, list[Any]]:
        arguments = self.parameters.bind(args, kwargs)
        leaves, tree = flatten(arguments.values)
        labels = arguments.leaf_labels(tree)
        return arguments, tree, [given(x, n) for x, n in zip(leaves, labels, strict=True)]

    def explain(self, laws: bool = False) -> Explanation:
        """Explains what was compiled and why, what was captured, widened and donated.

        With ``laws=True`` also which laws of linear algebra were applied, where and what they
        saved, and what would license more: an assumption, or ``numerics="fast"``.
        """
        return self.programs.explain(laws)


def _blank() -> Any:
    """A staged function that is yet to be given its state, so that it may refer to itself."""
    return object.__new__(StagedFunction)  # pyright: ignore[reportUnknownVariableType]


def _readable(leaves: Sequence[Any], arguments: Arguments, tree: Tree) -> list[Any]:
    """Leaves as arrays and Python scalars; labels cost time, so they are made only for errors."""
    plain = (np.ndarray, float, int, bool)
    labels = functools.cache(lambda: arguments.leaf_labels(tree))
    return [
        x if type(x) in plain or isinstance(x, Elsewhere) else given(x, labels()[i])
        for i, x in enumerate(leaves)
    ]


def cells_of(fn: Any) -> list[Any]:
    """A function and the values of its closure; while these are the same, so is its trace."""
    from dlvm.dsl.state.places import filled

    cells = getattr(fn, "__closure__", None) or ()
    return [fn, *(cell.cell_contents if filled(cell) else None for cell in cells)]


def _frozen(value: Any, name: str) -> Any:
    """A read-only copy of an array; a Python number is returned as it is."""

    def freeze(leaf: Any) -> Any:
        if type(leaf) in (bool, int, float):
            return leaf
        array = np.array(given(leaf, name))
        array.setflags(write=False)
        return array

    leaves, tree = flatten(value)
    return unflatten(tree, [freeze(x) for x in leaves])
