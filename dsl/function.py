"""``@dlvm.function``: a Python function that is traced, compiled and cached by signature.

The cache key is what the code depends on: dtypes, shapes, weakness, structure and static
values of the arguments. A cached program also holds its guards, the captured state that was
read while tracing. Compiling happens under one lock; running does not.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import itertools
import logging
import re
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, ParamSpec, TypeGuard, TypeVar

import numpy as np

from dlvm.compile import Options, Road, interpreting
from dlvm.errors import UserError
from dlvm.ir import Module, TensorType

from .captures import Captures, filled
from .compiled import Compiled, Shape
from .explain import Compile, Explanation
from .methods import Methods, WeakMethod
from .openness import check_dynamic, generalised, without
from .operands import here, staged
from .scopes import Trace, current, facing_users, trimmed, trimmed_of_user
from .specialisation import Signature, Specialisation, leaf_key, serves, shown_type
from .specs import (
    Arguments,
    Parameters,
    check_function,
    check_lists,
    given,
    unlike_an_array,
)
from .tracing import Callee, Input, Program, call_function, trace_program, write_function
from .trees import Spec as Tree
from .trees import flatten, unflatten

P = ParamSpec("P")
R = TypeVar("R")
Names = Sequence[str | int] | str | int
COMPILING = threading.RLock()
KEPT = 256
"""How many programs of one function are kept."""
SHORT_CUTS = 4096
PATIENCE = 16
"""How many traces in vain before the elements of an array are no longer compared."""
log = logging.getLogger("dlvm.compile")


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
        """The program for the instance and such arguments; it takes both."""
        return self._function.compile(self._instance, *args, **kwargs)

    def explain(self) -> Explanation:
        """What was compiled, for all instances."""
        return self._function.explain()


def is_staged(f: Any) -> TypeGuard[StagedFunction[..., Any]]:
    """Whether a function compiles itself."""
    return isinstance(f, StagedFunction)


class StagedFunction(Generic[P, R]):
    """A function that compiles itself for the arguments it is called with."""

    def __init__(
        self,
        fn: Callable[P, R],
        *,
        static: Names = (),
        donate: Names = (),
        dynamic: Mapping[str, str] | bool = False,
        options: Options | None = None,
        roots: Sequence[Any] = (),
        inline: bool = False,
    ) -> None:
        check_function(fn, "function")
        functools.update_wrapper(self, fn)
        self._fn = fn
        self._roots = list(roots) or [fn]
        self._inline = inline
        self.parameters = Parameters(fn, static)
        self._donate = frozenset(self.parameters.resolve(donate, "donate"))
        check_dynamic(dynamic, self.parameters.names)
        self._dynamic = dynamic
        self._options = options or Options()
        self._cache: dict[Any, list[Specialisation]] = {}
        self._known: dict[Any, list[Specialisation]] = {}
        self._compiles: list[Compile] = []
        self._vain: Counter[str] = Counter()
        self._free: dict[str, str] = {}
        self._matters: set[str] = set()
        self._clock = itertools.count(1)
        self._methods: Methods[StagedFunction[..., Any]] = Methods()
        self._owner: Any = None

    @property
    def python(self) -> Callable[P, R]:
        """The function as it was written."""
        return self._fn

    @property
    def label(self) -> str:
        """Its name in IR text and messages."""
        return re.sub(r"\W", "_", getattr(self._fn, "__name__", "f")).strip("_") or "f"

    def __repr__(self) -> str:
        return f"<staged function {self.label}>"

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """As a method: a dataclass is an argument like others, other objects are captured."""
        if instance is None:
            return self
        if dataclasses.is_dataclass(instance) or isinstance(instance, tuple):
            return Method(self, instance)
        handle: Any = object.__new__(self.__class__)
        handle.__dict__.update(vars(self._methods.of(instance, self._method)))
        handle._owner = instance  # the table holds it weakly, whoever has the method strongly
        return handle

    def _method(self, owner: Callable[[], Any]) -> StagedFunction[..., Any]:
        names = self._names_without_self()
        method = WeakMethod(self._fn, owner)
        return StagedFunction(method, dynamic=self._dynamic, options=self._options, **names)

    def __eq__(self, other: object) -> bool:
        """As with methods of Python: two that were taken from one object are equal."""
        return isinstance(other, StagedFunction) and self._cache is other._cache

    def __hash__(self) -> int:
        return id(self._cache)

    def like(self, fn: Callable[..., Any]) -> StagedFunction[..., Any]:
        """Another function of the same arguments, staged in the same way."""
        return StagedFunction(
            fn,
            static=tuple(self.parameters.static),
            dynamic=self._dynamic,
            options=self._options,
            roots=[*self._roots, fn],
            inline=True,
        )

    def _names_without_self(self) -> dict[str, Any]:
        return {"static": tuple(self.parameters.static), "donate": tuple(self._donate)}

    # -- calling ---------------------------------------------------------------------------------

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run, after compiling if there is no program for such arguments yet."""
        try:
            return self._call(args, kwargs)
        except UserError as error:
            raise trimmed(error) from error.__cause__
        except Exception as error:
            raise trimmed_of_user(error)  # noqa: B904  # it is that error

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> R:
        arguments = self.parameters.bind(args, kwargs)
        if current() is not None:
            return self._inside(arguments)
        leaves, tree = flatten(arguments.values)
        leaves = [
            x if type(x) is np.ndarray else self._given(x, arguments, tree, i)
            for i, x in enumerate(leaves)
        ]
        key = (tree, arguments.static_key(), tuple(map(leaf_key, leaves)), interpreting())
        for found in self._known.get(key, ()):
            if found.changed() is None:
                found.used = next(self._clock)
                return found.compiled.run(leaves)
        return self._specialise(key, arguments, tree, leaves).compiled.run(leaves)

    def _given(self, leaf: Any, arguments: Arguments, tree: Tree, i: int) -> Any:
        return (
            leaf
            if type(leaf) in (float, int, bool)
            else given(leaf, arguments.leaf_labels(tree)[i])
        )

    def _inside(self, arguments: Arguments) -> Any:
        """A call inside a trace: a function of the module, written once for each signature."""
        if self._inline:
            return self.parameters.call(self._fn, arguments, arguments.values)
        leaves, tree = flatten(arguments.values)
        tensors = [staged(x) for x in leaves]
        callee = self.callee(arguments, tree, [x.type for x in tensors], [x.weak for x in tensors])
        return call_function(callee, tensors)

    def callee(
        self,
        arguments: Arguments,
        tree: Tree,
        leaves: Sequence[TensorType],
        weak: Sequence[bool],
    ) -> Callee:
        """The function of the module that is being traced, for operands of these types."""
        trace = here().trace
        inputs = self._inputs(arguments, tree, leaves, weak)
        key = (id(self._fn), tree, arguments.static_key(), tuple((i.type, i.weak) for i in inputs))
        cells = _cells(self._fn)
        kept: tuple[list[Any], Callee] | None = trace.memo.get(key)
        if kept and kept[1].reusable and all(a is b for a, b in zip(kept[0], cells, strict=True)):
            return kept[1]
        made = write_function(self.label, inputs, self.body(arguments, tree))
        trace.memo[key] = (cells, made)
        return made

    def _inputs(
        self, arguments: Arguments, tree: Tree, leaves: Sequence[TensorType], weak: Sequence[bool]
    ) -> list[Input]:
        names = [path for _, path in arguments.leaf_names(tree)]
        labels = arguments.leaf_labels(tree)
        held = f"an argument of {self.label}"
        columns = zip(names, labels, leaves, weak, strict=True)
        return [Input(name, label, t, w, held) for name, label, t, w in columns]

    def body(self, arguments: Arguments, tree: Tree) -> Callable[[list[Any]], Any]:
        """The Python function on staged leaves."""
        return lambda tensors: self.parameters.call(self._fn, arguments, unflatten(tree, tensors))

    # -- compiling -------------------------------------------------------------------------------

    def _specialise(
        self, key: Any, arguments: Arguments, tree: Tree, leaves: Sequence[Any]
    ) -> Specialisation:
        with COMPILING:
            signature = self._signature(arguments, tree, leaves)
            candidates = [*self._known.get(key, ()), *self._cache.get(signature, ())]
            candidates += [] if self._dynamic else self._open(signature)
            found = next((c for c in candidates if c.changed() is None), None)
            if found is None:
                found = self._compile(signature, arguments)
            found.used = next(self._clock)
            if len(self._known) >= SHORT_CUTS:
                self._known.clear()
            self._known.setdefault(key, []).insert(0, found)
            return found

    def _open(self, wanted: Signature) -> list[Specialisation]:
        """Programs with unknown sizes that serve such arguments, compiled from specs."""
        return [s for kept in self._cache.values() for s in kept if serves(s.signature, wanted)]

    def _signature(self, arguments: Arguments, tree: Tree, leaves: Sequence[Any]) -> Signature:
        opened = generalised(leaves, arguments.leaf_names(tree), self._dynamic)
        weak = [type(x) in (int, float) for x in leaves]
        return Signature(tree, arguments.static_key(), tuple(zip(opened, weak, strict=True)))

    def _compile(self, signature: Signature, arguments: Arguments) -> Specialisation:
        reason = self._reason(signature, arguments)
        program, captures, inputs = self._trace(signature, arguments)
        twin = self._twin(signature, program)
        road = twin.compiled.road if twin else Road(program.module, self._options)
        _ = road.executable
        found = [captures.arrays[key] for key in program.trace.arrays]
        shape = Shape(self.parameters, signature.tree, tuple(inputs), signature.static)
        types_ = (c.param.type for c in program.trace.arrays.values())
        made = Specialisation(
            signature,
            captures.settled(bool(program.trace.constants), self._free),
            tuple(zip(found, types_, strict=True)),
            Compiled(shape, program, road, found),
            captures.unwatched,
        )
        self._keep(made)
        if twin:
            log.info("%s: traced again for the same program: %s", self.label, reason)
            return made
        self._compiles.append(Compile(reason, tuple(f"{i.label}: {i.type}" for i in inputs)))
        log.info("%s: compiled for %s: %s", self.label, self._compiles[-1].types, reason)
        return made

    def _twin(self, signature: Signature, program: Program) -> Specialisation | None:
        """A program that is the same although its guards fail; this trace takes its place."""
        kept = self._cache.get(signature, [])
        other = kept[0].other_elements() if kept else set[str]()
        twin = next((s for s in kept if s.compiled.module == program.module), None)
        if twin is None:
            self._matters |= other
            return None
        self._drop(twin)
        for path in other - self._matters:
            self._vain[path] += 1
            if self._vain[path] >= PATIENCE:
                self._free[path] = "its elements changed, never the program: not compared now"
                log.warning("%s: %s: %s", self.label, path, self._free[path])
        return twin

    def _keep(self, made: Specialisation) -> None:
        """Remember a program; beyond ``KEPT`` the one not used for longest is dropped."""
        made.used = next(self._clock)
        self._cache.setdefault(made.signature, []).insert(0, made)
        if sum(map(len, self._cache.values())) > KEPT:
            oldest = min((s for kept in self._cache.values() for s in kept), key=_last_use)
            self._drop(oldest)
            log.info("%s: dropped the program not used for longest; %d are kept", self.label, KEPT)

    def _drop(self, old: Specialisation) -> None:
        kept = self._cache[old.signature]
        kept.remove(old)
        if not kept:
            del self._cache[old.signature]
        self._known.clear()  # short cuts, found again in the cache

    def _trace(
        self, signature: Signature, arguments: Arguments
    ) -> tuple[Program, Captures, list[Input]]:
        for name, value in zip(arguments.names, arguments.values, strict=True):
            check_lists(name, value)
        captures = Captures(self._roots)
        tree = signature.tree
        inputs = self._inputs(
            arguments, tree, [t for t, _ in signature.leaves], [w for _, w in signature.leaves]
        )
        trace = Trace(self.label, captures.find)
        try:
            program = trace_program(trace, inputs, self.body(arguments, tree))
        except TypeError as error:
            if (explained := unlike_an_array(error, arguments)) is None:
                raise
            raise explained from error
        self._mark_donated(program, arguments, tree)
        return program, captures, inputs

    def _mark_donated(self, program: Program, arguments: Arguments, tree: Tree) -> None:
        params = program.module.main.params
        names = arguments.leaf_names(tree)
        for param, (argument, _) in zip(params, names, strict=False):
            param.donated = argument in self._donate
        kept = set(program.module.main.donations().values())
        for i, param in enumerate(params):
            param.donated = i in kept

    def _reason(self, signature: Signature, arguments: Arguments) -> str:
        if not self._compiles:
            return "first call"
        for kept in self._cache.get(signature, ()):
            if changed := kept.changed():
                return changed
        last = next(iter(reversed(self._cache)))
        if last.tree != signature.tree:
            return "the structure of the arguments differs"
        if last.static != signature.static:
            return f"static values differ: {signature.static}"
        labels = arguments.leaf_labels(signature.tree)
        pairs = zip(labels, last.leaves, signature.leaves, strict=True)
        differing = [f"{n} was {shown_type(a)}, is {shown_type(b)}" for n, a, b in pairs if a != b]
        return ", ".join(differing[:3]) or "DLVM_INTERPRET changed"

    # -- what users ask --------------------------------------------------------------------------

    @facing_users
    def trace(self, *args: Any, **kwargs: Any) -> Module:
        """The traced module for such arguments, which may be specs."""
        with COMPILING:
            arguments, tree, leaves = self._read(args, kwargs)
            return self._trace(self._signature(arguments, tree, leaves), arguments)[0].module

    @facing_users
    def compile(self, *args: Any, **kwargs: Any) -> Compiled:
        """The program for such arguments, which may be specs; it never traces again."""
        with COMPILING:
            arguments, tree, leaves = self._read(args, kwargs)
            signature = self._signature(arguments, tree, leaves)
            kept = (c for c in self._cache.get(signature, ()) if c.changed() is None)
            return (next(kept, None) or self._compile(signature, arguments)).compiled

    def _read(self, args: Any, kwargs: Any) -> tuple[Arguments, Tree, list[Any]]:
        arguments = self.parameters.bind(args, kwargs)
        leaves, tree = flatten(arguments.values)
        labels = arguments.leaf_labels(tree)
        return arguments, tree, [given(x, n) for x, n in zip(leaves, labels, strict=True)]

    def explain(self) -> Explanation:
        """What was compiled and why, what was captured, widened and donated."""
        made = [s for kept in self._cache.values() for s in kept]
        return Explanation.of(self.label, self._compiles, made, self._donate)

    def bind(self, **arrays: Any) -> StagedFunction[..., R]:
        """The function with some arguments known for good: copied now, and frozen."""
        self.parameters.resolve(tuple(arrays), "bind")
        frozen = {name: _frozen(value) for name, value in arrays.items()}
        fn = self._fn

        whole = self.parameters.signature
        kept = [p for n, p in whole.parameters.items() if n not in frozen]
        rest = whole.replace(parameters=kept)

        @functools.wraps(fn)
        def bound(*args: Any, **kwargs: Any) -> R:
            named = rest.bind(*args, **kwargs).arguments | frozen
            ordered = {n: named[n] for n in whole.parameters if n in named}
            call = inspect.BoundArguments(whole, ordered)  # type: ignore[arg-type]
            return fn(*call.args, **call.kwargs)

        bound.__signature__ = rest  # type: ignore[attr-defined]
        names = {k: v for k, v in self._names_without_self().items()}
        return StagedFunction(
            bound,
            static=tuple(n for n in names["static"] if n not in frozen),
            donate=tuple(n for n in names["donate"] if n not in frozen),
            dynamic=without(self._dynamic, frozen),
            options=self._options,
            roots=[fn, bound],
        )


def _last_use(made: Specialisation) -> int:
    return made.used


def _cells(fn: Any) -> list[Any]:
    """The function itself and what its closure holds now: while these stay, so does its trace."""
    cells = getattr(fn, "__closure__", None) or ()
    return [fn, *(cell.cell_contents if filled(cell) else None for cell in cells)]


def _frozen(value: Any) -> Any:
    def freeze(leaf: Any) -> Any:
        array = np.array(leaf)
        array.setflags(write=False)
        return array

    leaves, tree = flatten(value)
    return unflatten(tree, [freeze(x) for x in leaves])
