"""A module: functions and declarations by name, and the questions that users ask of it.

What reads whole modules imports this file and registers itself in ``hooks``: the verifier and the
interpreter do, and ``dlvm.compile`` does so for the expansion of declarations and the pipelines.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from dlvm.base.brief import shortened
from dlvm.base.errors import IRError
from dlvm.base.html import preformatted

from .core import Declaration, Entry, Function, Signature
from .equality import same_entries
from .text.printer import printed
from .types import Array, TensorType


@dataclass(slots=True)
class Hooks:
    """Functions that other files register, which answer what users ask of a module.

    ``run`` takes a module without declarations, the name of a function, and its arguments;
    ``optimize`` takes the names of passes, or none for the default pipeline.
    """

    verify: Callable[[Module], None] | None = None
    run: Callable[[Module, str, Sequence[Any]], tuple[Array, ...]] | None = None
    expand: Callable[[Module], Module] | None = None
    optimize: Callable[[Module, Sequence[str] | None], Module] | None = None


hooks = Hooks()


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Module:
    """An ordered set of functions and declarations; the first function is ``main``."""

    entries: tuple[Entry, ...]
    _index: dict[str, Entry] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        index: dict[str, Entry] = {}
        given: Any = self.entries
        if not isinstance(given, tuple) or not all(isinstance(e, Entry) for e in given):  # pyright: ignore[reportUnknownVariableType]
            raise IRError(
                f"a module is made of a tuple of functions, found {given!r:.60}",
                remedy="dlvm.parse makes a module of text, and dlvm.trace of a function",
            )
        for entry in self.entries:
            if entry.name in index:
                raise IRError(f"two functions are called @{entry.name}")
            index[entry.name] = entry
        object.__setattr__(self, "_index", index)

    @property
    def main(self) -> Function:
        """The first function."""
        if not self.functions:
            raise IRError("expected a module with at least one function, found none")
        return self.functions[0]

    @property
    def functions(self) -> tuple[Function, ...]:
        """The entries with a body."""
        return tuple(e for e in self.entries if isinstance(e, Function))

    @property
    def declarations(self) -> tuple[Declaration, ...]:
        """The declared functions that are not expanded yet."""
        return tuple(e for e in self.entries if isinstance(e, Declaration))

    def operations(self) -> int:
        """The number of operations of all functions, without those inside of regions."""
        return sum(len(fn.ops) for fn in self.functions)

    def entry(self, name: str) -> Entry:
        """The function or declaration with this name."""
        if name not in self._index:
            raise IRError(
                f"the module has no function @{name}; it has "
                f"{', '.join(map('@{}'.format, self._index))}"
            )
        return self._index[name]

    def function(self, name: str) -> Function:
        """The function with this name, which must have a body."""
        entry = self.entry(name)
        if not isinstance(entry, Function):
            raise IRError(f"@{name} is declared but not yet expanded")
        return entry

    def led_by(self, name: str) -> Module:
        """The module with this entry first, so that the function is ``main``."""
        first = self.entry(name)
        return Module((first, *(e for e in self.entries if e is not first)))

    def __contains__(self, name: str) -> bool:
        return name in self._index

    def signature(self, name: str) -> Signature:
        """The types of the parameters and results of an entry, which may be a declaration."""
        chain: list[Declaration] = []
        entry = self.entry(name)
        while isinstance(entry, Declaration):
            if entry in chain:
                raise IRError(f"the declaration of @{name} refers to itself")
            chain.append(entry)
            entry = self.entry(entry.of)
        found = entry.signature
        for declaration in reversed(chain):
            if declaration.kind not in _DERIVED:
                raise IRError(
                    f"expected a declaration ({', '.join(_DERIVED)}), found {declaration.kind}"
                )
            found = _DERIVED[declaration.kind](declaration, found)
        return found

    def replace(self, *entries: Entry) -> Module:
        """The module with entries of the same name replaced, and other entries appended."""
        new = {e.name: e for e in entries}
        kept = tuple(new.pop(e.name, e) for e in self.entries)
        return Module((*kept, *new.values()))

    def map(self, change: Callable[[Function], Function]) -> Module:
        """The module with ``change`` applied to every function."""
        return Module(tuple(change(e) if isinstance(e, Function) else e for e in self.entries))

    # -- what users ask ---------------------------------------------------------------------

    def __str__(self) -> str:
        return printed(self.entries)

    def __repr__(self) -> str:
        """The text as a screen shows it, the beginning of a long one; ``str`` gives all."""
        return shortened(str(self))

    def _repr_html_(self) -> str:
        """The text as notebooks show it, with the lines of the source in comments."""
        return preformatted(printed(self.entries, places=True))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Module) and same_entries(self.entries, other.entries)

    def __hash__(self) -> int:
        return hash(tuple((e.name, len(getattr(e, "ops", ()))) for e in self.entries))

    def verify(self) -> Module:
        """Checks every rule of the language; returns the module itself, for chaining."""
        if hooks.verify is None:
            raise IRError("a module can be verified once dlvm.ir is imported")
        hooks.verify(self)
        return self

    def run(self, name: str, *arrays: Any) -> tuple[Array, ...]:
        """Runs a function in the interpreter; the arrays are in the order of its parameters."""
        if hooks.run is None:
            raise IRError("a module can be run once dlvm.ir is imported")
        return hooks.run(self.expanded(), name, arrays)

    def expanded(self) -> Module:
        """The module with every declaration expanded into code."""
        if not self.declarations:
            return self
        if hooks.expand is None:
            raise IRError("declarations can be expanded once dlvm.compile is imported")
        return hooks.expand(self)

    def optimize(self, passes: Sequence[str] | None = None) -> Module:
        """The module after the default pipeline, or after the passes given by name."""
        if hooks.optimize is None:
            raise IRError("a module can be optimised once dlvm.compile is imported")
        return hooks.optimize(self, passes)


def _adjoint_signature(d: Declaration, of: Signature) -> Signature:
    floats = tuple(t for t in of.results if t.dtype.is_float)
    if not d.seeded and (len(floats) != 1 or floats[0].shape):
        raise IRError(
            f"adjoint @{d.name}: @{d.of} must have exactly one float scalar result, "
            f"found {', '.join(map(str, of.results)) or 'none'}",
            remedy="add 'seeded' and pass a seed for each float result",
        )
    gradients, kept = _inputs(d, of), _kept(d, of)
    return Signature((*of.params, *(floats if d.seeded else ())), (*gradients, *kept))


def _tangent_signature(d: Declaration, of: Signature) -> Signature:
    inputs, kept = _inputs(d, of), _kept(d, of)
    floats = tuple(t for t in of.results if t.dtype.is_float)
    return Signature((*of.params, *inputs), (*kept, *floats))


def _batched_signature(d: Declaration, of: Signature) -> Signature:
    if len(d.axes) != len(of.params):
        raise IRError(
            f"batched @{d.name}: expected an axis for each of {len(of.params)} parameters, "
            f"found {len(d.axes)}"
        )
    for axis, t in zip(d.axes, of.params, strict=True):
        if axis is not None and not 0 <= axis <= t.rank:
            raise IRError(f"batched @{d.name}: expected an axis from 0 to {t.rank}, found {axis}")
    params = tuple(
        t if axis is None else t.with_shape((*t.shape[:axis], d.size, *t.shape[axis:]))
        for t, axis in zip(of.params, d.axes, strict=True)
    )
    _kept(d, of)
    results = enumerate(of.results)
    each = (t if i in d.keep else t.with_shape((d.size, *t.shape)) for i, t in results)
    return Signature(params, tuple(each))


def _inputs(d: Declaration, of: Signature) -> tuple[TensorType, ...]:
    types = _picked(d, d.wrt, of.params)
    for i, t in zip(d.wrt, types, strict=True):
        if not t.dtype.is_float:
            raise IRError(
                f"{d.kind} @{d.name}: expected parameter {i} of @{d.of} to be float, found {t}"
            )
    return types


def _kept(d: Declaration, of: Signature) -> tuple[TensorType, ...]:
    return _picked(d, d.keep, of.results)


def _picked(
    d: Declaration, positions: tuple[int, ...], of: tuple[TensorType, ...]
) -> tuple[TensorType, ...]:
    for n, i in enumerate(positions):
        if not 0 <= i < len(of):
            raise IRError(
                f"{d.kind} @{d.name}: expected positions below {len(of)} of @{d.of}, found {i}"
            )
        if i in positions[:n]:
            raise IRError(f"{d.kind} @{d.name}: position {i} occurs twice")
    return tuple(of[i] for i in positions)


_DERIVED: dict[str, Callable[[Declaration, Signature], Signature]] = {
    "adjoint": _adjoint_signature,
    "tangent": _tangent_signature,
    "batched": _batched_signature,
}
