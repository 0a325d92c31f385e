"""What the sweep over all public names calls: each name in some forms, with arguments to try.

The names come from the registry, so a new one is asked for here. A form of an element-wise
function, a reduction or a running scan is derived from its operation's class; ``table`` holds the
calls of the others. A form is a call whose NumPy arrays, however deep in lists, are its operands.
"""

from __future__ import annotations

import functools
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import ml_dtypes
import numpy as np

import dlvm
from dlvm.dsl.words.names import every_name, named
from dlvm.ir import OPS, Op
from dlvm.ops import Elementwise, Reduction
from dlvm.ops.arrays.running import Cumulative

from .meanings import MEANINGS

BF16 = np.dtype(ml_dtypes.bfloat16)
FLOATS = (*map(np.dtype, ("float64", "float32", "float16")), BF16)
MODULES = ("nn", "linalg", "random")
Call = Callable[..., Any]


@dataclass(frozen=True)
class Form:
    """One call of a public function; ``arrays`` are its operands, in order."""

    name: str
    args: tuple[Any, ...]
    options: dict[str, Any] = field(default_factory=dict[str, Any])

    def __str__(self) -> str:
        said = [_shown(a) for a in self.args]
        said += [f"{k}={_shown(v)}" for k, v in self.options.items()]
        return f"{self.name}({', '.join(said)})"

    @property
    def call(self) -> Call:
        """The public function."""
        module, _, name = self.name.rpartition(".")
        return getattr(getattr(dlvm, module), name) if module else named(name)

    @property
    def meaning(self) -> Call:
        """What says its values from outside of the package: a function of or in NumPy."""
        found = MEANINGS.get(self.name)
        return functools.reduce(getattr, self.name.split("."), np) if found is None else found

    @functools.cached_property
    def arrays(self) -> tuple[np.ndarray, ...]:
        """The operands."""
        return tuple(_arrays((self.args, list(self.options.values()))))

    @property
    def has_floats(self) -> bool:
        """Whether there is something to differentiate with respect to."""
        return any(a.dtype.kind not in "iub" for a in self.arrays)

    def of(self, arrays: Sequence[Any]) -> Form:
        """The same call of other operands."""
        left = iter(arrays)
        args = tuple(_with(a, left) for a in self.args)
        return replace(
            self, args=args, options={k: _with(v, left) for k, v in self.options.items()}
        )

    def on(self, call: Call, arrays: Sequence[Any]) -> Any:
        """What a function gives in this form on some operands."""
        form = self.of(arrays)
        return call(*form.args, **form.options)

    def each(self, change: Callable[[np.ndarray], np.ndarray]) -> Form:
        """The same call with every float operand changed."""
        return self.of([a if a.dtype.kind in "iub" else np.asarray(change(a)) for a in self.arrays])


def leaves(x: Any) -> list[Any]:
    """Results end to end."""
    return [leaf for y in x for leaf in leaves(y)] if isinstance(x, list | tuple) else [x]


def _shown(x: Any) -> str:
    if isinstance(x, np.ndarray):
        return f"{x.dtype}{list(x.shape)}"
    if isinstance(x, list | tuple):
        return f"[{', '.join(map(_shown, x))}]"
    return repr(x)


def _arrays(x: Any) -> Iterator[np.ndarray]:
    if isinstance(x, np.ndarray):
        yield x
    elif isinstance(x, list | tuple):
        for y in x:
            yield from _arrays(y)


def _with(x: Any, arrays: Iterator[Any]) -> Any:
    if isinstance(x, np.ndarray):
        return next(arrays)
    if isinstance(x, list | tuple):
        return type(x)(_with(y, arrays) for y in x)
    return x


# -- arguments ------------------------------------------------------------------------------------

Dice = np.random.Generator
_dice = np.random.default_rng(16)
"""What the table draws from, once and in its order."""


def drawn(*shape: int, low: float = -2.0, high: float = 2.0, dice: Dice = _dice) -> np.ndarray:
    """Ordinary numbers, no two alike and none at a whole number."""
    size = int(np.prod(shape))
    steps = (np.arange(size) + 0.5 + 0.2 * dice.uniform(-1, 1, size)) / max(size, 1)
    return dice.permutation(low + (high - low) * steps).reshape(shape)


def counted(*shape: int, below: int, dice: Dice = _dice) -> np.ndarray:
    """Whole numbers from 0 on."""
    return dice.integers(0, below, shape)


def forms_of(name: str) -> list[Form]:
    """The forms of a public name; an empty list says that nothing is known of it."""
    from .table import TABLE

    if name in TABLE:
        return [Form(name, args, options) for args, options in TABLE[name]]
    found = {
        (c.public or c.name) if issubclass(c, Elementwise) else c.name: c for c in OPS.values()
    }
    return _derived(name, found[name]) if name in found else []


def _derived(name: str, cls: type[Op]) -> list[Form]:
    """Forms that follow from the class of an operation, whichever others were made before."""
    dice = np.random.default_rng(zlib.crc32(name.encode()))
    if issubclass(cls, Elementwise):
        return [Form(name, tuple(_operand(cls, dice) for _ in cls.layout))]
    if issubclass(cls, Cumulative):
        return _cumulative(name, dice)
    return _reductions(name, cls, dice) if issubclass(cls, Reduction) else []


def _operand(cls: type[Elementwise], dice: Dice) -> np.ndarray:
    """Ordinary numbers of a domain, or whole ones where only these are accepted."""
    if "f" not in cls.accepts:
        return counted(4, 3, below=6, dice=dice) - 2 * (
            "power" not in cls.name and "shift" not in cls.name
        )
    low, high = (float(np.clip(end, -2.0, 3.0)) for end in cls.domain)
    return drawn(4, 3, low=low, high=high, dice=dice)


def _reductions(name: str, cls: type[Reduction], dice: Dice) -> list[Form]:
    x, mask = drawn(3, 4, dice=dice), counted(3, 4, below=4, dice=dice) > 0
    forms = [Form(name, (x,)), Form(name, (drawn(5, low=0.2, dice=dice),), {"axis": -1})]
    forms += [Form(name, (drawn(3, 4, dice=dice),), {"axis": a, "keepdims": True}) for a in (0, -1)]
    if cls.pairwise:
        forms.append(Form(name, (x,), {"axis": 1, "where": mask}))
        forms.append(Form(name, (x,), {"axis": 0, "initial": 0.5}))
        forms.append(Form(name, (drawn(2, 3, 2, dice=dice),), {"axis": (0, -1)}))
    return forms


def _cumulative(name: str, dice: Dice) -> list[Form]:
    x = drawn(3, 4, dice=dice)
    forms = [Form(name, (x,), {"axis": a}) for a in (0, -1)]
    forms.append(Form(name, (drawn(5, dice=dice),)))
    forms.append(Form(name, (x,), {"axis": 1, "reverse": True}))
    forms.append(Form(name, (x,), {"axis": 1, "exclusive": True}))
    return [*forms, Form(name, (x,), {"axis": 1, "include_initial": True})]


def public_names() -> list[str]:
    """Every public function there is, those of the modules with their module's name."""
    inside = [f"{m}.{name}" for m in MODULES for name in getattr(dlvm, m).__all__]
    return [*every_name(), *inside]
