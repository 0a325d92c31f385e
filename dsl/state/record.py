"""The record of captured state that code reads: guards, arrays, and warnings for the user.

Scalars and functions become guards, arrays become hidden arguments. Each use of an array is
recorded as one by the trace or one by NumPy.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false
# What is looked at here are objects of any kind.

from __future__ import annotations

import array
import enum
import sys
import types
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from dlvm.base.errors import Origin
from dlvm.dsl.trace.devices import refuse_gradient
from dlvm.dsl.trace.tensor import Tensor
from dlvm.dsl.words.methods import WeakMethod
from dlvm.ir import Array

from .abstract_values import Method, Place, Value
from .code import decoded
from .frames import Site
from .guards import FEW, Found, Guard, comparable, entries, pairs, present, structure, weakly
from .places import Attribute, Derived, Held, Numbers, Read, is_numeric, slots_of
from .whose_code import ACTING, class_is_read, home_of, is_installed, is_ours, of_framework, runs

Scalar = (
    bool | int | float | complex | str | bytes | np.generic | np.dtype | enum.Enum | None | slice
)
_ASKED = (  # the methods that tell what a container holds
    "__getitem__",
    "__iter__",
    "__bool__",
    "__len__",
    "__contains__",
    "get",
    "items",
    "values",
)
_FOLLOWED = frozenset(
    (dict, list, tuple, set, frozenset, range, types.FunctionType, types.MethodType, types.CodeType)
)
_NO_GENERATORS = frozenset((dict, list, tuple, types.FunctionType, np.ndarray))
PLAIN = frozenset((bool, int, float, complex, str, bytes, type(None)))
"""Types of values that hold nothing else."""
_BUFFERS = (bytearray, memoryview, array.array)
_UNPACKED: list[tuple[Any, Callable[[Any], Any]]] = [
    ((set, frozenset), frozenset),
    (_BUFFERS, bytes),
]
_IDENTICAL = (
    types.FunctionType,
    types.BuiltinFunctionType,
    types.ModuleType,
    type,
    np.ufunc,
    WeakMethod,
)
SOURCES = {
    "time": "time time_ns perf_counter perf_counter_ns monotonic monotonic_ns process_time "
    "process_time_ns thread_time thread_time_ns localtime gmtime ctime asctime strftime",
    "datetime": "datetime.now datetime.utcnow datetime.today date.today",
    "posix": "urandom getpid listdir getcwd times getrandom",
    "nt": "urandom getpid listdir getcwd times",
    "os": "getenv",
    "uuid": "uuid1 uuid4",
    "pathlib": "Path.read_text Path.read_bytes Path.open Path.exists Path.stat Path.iterdir",
    "secrets": "token_bytes token_hex token_urlsafe choice randbelow randbits",
    "random": "Random SystemRandom SystemRandom.random",
    "builtins": "input open eval exec",
    "_io": "open",
    "numpy.random._generator": "default_rng",
    "numpy.random": "default_rng",
    "numpy": "load loadtxt genfromtxt fromfile",
}
"""Functions that return something else at each call, by module."""
_SOURCES = {f"{module}.{name}" for module, names in SOURCES.items() for name in names.split()}
_SEEDED = {"default_rng", "Random"}


class Use(enum.IntEnum):
    """The use of an array: by the trace, possibly by the trace, or by NumPy.

    What is part of an object that goes whole to code that is not read is used by the trace if that
    takes it anywhere, else it may be read.
    """

    STAGED = 0
    WHOLE = 1
    MAYBE = 2
    READ = 3


class Seen:
    """The captured state that functions read."""

    def __init__(self) -> None:
        self.arrays: dict[int, Found] = {}
        self.held: list[Array] = []
        self.unwatched: dict[str, str] = {}
        """State that is not compared, with the reason."""
        self.beyond: dict[str, str] = {}
        """The part of it that would be compared if there were less of it."""
        self.writes: dict[str, Guard] = {}
        """Variables, attributes and items that the code assigns."""
        self.changes: dict[str, Origin] = {}
        """Lines that change an object in place, by its path."""
        self.sources: dict[str, Origin] = {}
        self.unseeded: dict[str, Origin] = {}
        """Lines that make a generator of random numbers without a seed, at every call."""
        self.generators: dict[str, tuple[Any, str]] = {}
        self.acts: dict[str, Origin] = {}
        """Calls that do something outside of the function, such as ``print``, and their lines."""
        self.handed = False
        """Whether an object is of a class whose code is not read, or goes to such code."""
        self.hidden: dict[str, tuple[Any, Any]] = {}
        """Objects whose state only C knows, and what they gave of it before the trace."""
        self.adopted: dict[str, Origin | None] = {}
        """Arrays that no path leads to, and the line that called the function."""
        self.uses: dict[Any, Use] = {}
        self._guards: dict[Any, Guard] = {}
        self.missed: set[str] = set()
        """Attributes and items that the code loads and that do not exist."""
        self._numbers = Numbers()
        self.local = 0
        """Number of records that depend on the line that reads: it makes them each time."""
        self._loaded: set[Place] = set()
        self._whole: set[Place] = set()

    @property
    def guards(self) -> list[Guard]:
        """All guards."""
        return [*self._guards.values()]

    def guard(self, path: str, read: Read, value: Any, by_identity: bool = False) -> None:
        """Adds a guard on a value, unless each reading makes another object."""
        if by_identity and not isinstance(value, weakref.ref) and present(read) is not value:
            return
        self._guards.setdefault((path, self._numbers(read)), Guard(path, read, value, by_identity))

    # -- loads -------------------------------------------------------------------------------------

    def loaded(self, place: Place) -> None:
        """Records that the code loads a place."""
        if place in self._loaded:
            return
        self._loaded.add(place)
        value = place.value
        if type(value) in PLAIN:
            if not place.known and place.path:
                self.guard(place.path, place.read, value)
            return
        self._generator(place)
        self.handed = self.handed or _is_foreign(value)
        if is_numeric(value):
            self._array(place)
        if place.known or not place.path or isinstance(value, Tensor | weakref.ref):
            return  # what a weak reference refers to is read where it is called
        unpack = next((of for kinds, of in _UNPACKED if isinstance(value, kinds)), None)
        if isinstance(value, Scalar):
            self.guard(place.path, place.read, value)
        elif isinstance(value, types.MethodType):
            self.guard(place.path, Attribute(place.read, "__func__"), value.__func__, True)
        elif isinstance(value, types.FunctionType):
            self.function(place.path, place.read, value)
        elif isinstance(value, _IDENTICAL) or is_ours(value):
            self.guard(place.path, place.read, value, by_identity=True)
        elif unpack is not None:
            self.guard(place.path, Derived(place.read, unpack), unpack(value))
        elif _is_value(value):
            self.guard(place.path, place.read, value)
        elif callable(value) and not hasattr(value, "__dict__"):
            self.guard(place.path, place.read, value, by_identity=True)

    def function(self, path: str, read: Read, fn: types.FunctionType) -> None:
        """Guards a function and its code, which tools that reload modules replace in place."""
        self.guard(path, read, fn, by_identity=True)
        if (code := getattr(fn, "__code__", None)) is not None:  # or another callable
            read = Attribute(Held(fn), "__code__")
            self.guard(f"the code of {path}", read, code, by_identity=True)

    def _array(self, place: Place) -> None:
        value = place.value
        first = self.arrays.setdefault(id(value), Found(place.path, place.read))
        if first.read is place.read:
            self.held.append(value)
        elif first.path != place.path:
            same = Derived(place.read, lambda found: found is first.read())
            self.guard(f"whether {place.path} is {first.path}", same, True)

    def entered(self, place: Place) -> None:
        """Records that the code reads something inside an object or a container."""
        self._generator(place)

    def structure(self, place: Place) -> list[tuple[Any, Any]]:
        """Records that all of a container is read; items with a place of their own are compared
        there.
        """
        found = pairs(place.value)
        plain = [k for k, x in found if isinstance(x, Scalar)]
        if not place.known:
            shape = Derived(place.read, structure)
            self.guard(f"the structure of {place.path}", shape, structure(place.value))
        if len(plain) < FEW:
            return found
        if not place.known:
            now = entries(plain, place.read)
            self.guard(f"the entries of {place.path}", now, now())
        return [(k, x) for k, x in found if not isinstance(x, Scalar)]

    def length(self, place: Place) -> None:
        """Records that only the length of a container is read."""
        if not place.known:
            self.guard(f"the length of {place.path}", Derived(place.read, len), len(place.value))

    def typed(self, place: Place) -> None:
        """Records that only the class of an object is read; for an array its dtype and shape."""
        value, read = place.value, place.read
        if is_numeric(value) and place.depth >= 0:
            kind = Derived(read, lambda x: (x.dtype, x.shape, x.strides))
            self.guard(f"the type of {place.path}", kind, (value.dtype, value.shape, value.strides))
        elif not is_numeric(value) and place.path:
            cls = Attribute(read, "__class__")
            self.guard(f"the type of {place.path}", cls, type(value), by_identity=True)

    def identity(self, place: Place) -> None:
        """Records that the code compares the identity of an object."""
        self.guard(
            f"which object {place.path} is", place.read, weakly(place.value), by_identity=True
        )

    def whole(self, place: Place) -> None:
        """Records that an object is passed to code that is not read."""
        value = place.value
        same = isinstance(value, (*_IDENTICAL, Tensor, type(None)))
        if same or place in self._whole or place.known:
            return
        self._whole.add(place)
        if (
            isinstance(value, Scalar)
            or _is_value(value)
            or isinstance(value, (set, frozenset, *_BUFFERS))
        ):
            return
        self.handed = self.handed or not (is_ours(value) or runs(value))
        self.typed(place)
        if hasattr(type(value), "__array__") or hasattr(type(value), "__dlpack__"):
            self.guard(f"the elements of {place.path}", Derived(place.read, _bytes), _bytes(value))
        elif of_framework(value):
            self.identity(place)
        elif not hasattr(value, "__dict__") and not _has_slots(value):
            cls: Any = type(value)
            kind = f"{cls.__module__}.{cls.__qualname__}"
            if not runs(value):
                self.hidden[place.path] = value, hidden_state(value)
            self.unwatched[place.path] = (
                f"what a {kind} holds is known to C only, so it isn't compared"
            )

    def too_much(self, path: str, why: str) -> None:
        """Records state that is not compared because of a limit, of which users are warned."""
        self.unwatched[path] = self.beyond[path] = why

    def drop(self, guard: Guard) -> None:
        """Forgets a guard."""
        del self._guards[next(key for key, g in self._guards.items() if g is guard)]

    # -- uses of arrays ----------------------------------------------------------------------------

    def used(self, site: Site, place: Place, use: Use) -> None:
        """Records the use of an array at a step."""
        self.local += 1
        key = (place.read, site.frame.code, site.step)
        self.uses[key] = max(use, self.uses.get(key, use))

    # -- what changes ------------------------------------------------------------------------------

    def written(self, site: Site, path: str, read: Read) -> None:
        """Records that the code assigns a variable, an attribute or an item."""
        self.local += 1
        if path not in self.writes and not is_installed(site.frame.globals):
            value = present(read)
            plain = isinstance(value, Scalar)
            before = value if plain else weakly(value)
            self.writes[path] = Guard(path, read, before, by_identity=not plain)
            self.changes[path] = _origin(site)

    def touched(self, site: Site, place: Place) -> None:
        """Records that the code may change an object in place."""
        self.local += 1
        if not is_installed(site.frame.globals):
            self.changes.setdefault(place.path, _origin(site))

    def all_touched(self, site: Site, values: Value) -> None:
        """The same of every object that a value may be."""
        for place in (t for t in values if isinstance(t, Place)):
            self.touched(site, place)

    def _generator(self, place: Place) -> None:
        found = generator_of(place.value)
        if found is not None:
            self.generators.setdefault(place.path or "random", (found, state_of(found)))

    def named(self, site: Site, place: Place, given: bool) -> None:
        """Records a call of a built-in function, if it returns something else each time."""
        fn = place.value
        module = getattr(fn, "__module__", None)
        owner = getattr(fn, "__self__", None)
        if module is None and isinstance(owner, type):
            module = owner.__module__
        self.source_of(site, place.path, f"{module}.{getattr(fn, '__qualname__', '')}", given)

    def source_of(self, site: Site, path: str, name: str, given: bool) -> None:
        """The same, by the full name of the function."""
        if name == "builtins.print" or name.partition(".")[0] in ACTING:
            self.local += 1
            self.acts.setdefault(path or name.removeprefix("builtins."), _origin(site))
        seeded = name.rpartition(".")[2] in _SEEDED
        if name not in _SOURCES or (given and seeded):
            return
        self.local += 1
        if not is_installed(site.frame.globals):
            said = path or name.removeprefix("builtins.")
            if seeded and decoded(site.frame.code).always_runs(site.step):
                self.unseeded.setdefault(said, _origin(site))
            self.sources.setdefault(said, _origin(site))

    def consumed(self, site: Site, place: Place) -> None:
        """Records that the next element of a captured iterator is read, which it gives
        only once.
        """
        self.local += 1
        if not is_installed(site.frame.globals):
            self.sources.setdefault(f"the next of {place.path}", _origin(site))

    def source(self, site: Site, place: Place, name: str) -> None:
        """Records that the code loads an attribute of a module of Python's library."""
        if place.value.__name__ != "os" or name not in ("environ", "environb"):
            return
        self.local += 1
        if not is_installed(site.frame.globals):
            self.sources.setdefault(f"os.{name}", _origin(site))


def called(seen: Seen, site: Site, t: Any, given: bool) -> None:
    """Records a call of a function that returns something else each time."""
    if isinstance(t, Place):
        seen.named(site, t, given)
    elif isinstance(t, Method) and isinstance(t.of, Place):
        own: Any = t.of.value if isinstance(t.of.value, type) else type(t.of.value)
        for cls in own.__mro__[:-1]:
            name = f"{cls.__module__}.{cls.__qualname__}.{t.name}"
            seen.source_of(site, f"{t.of.path}.{t.name}", name, given)


def _origin(site: Site) -> Origin:
    return Origin(site.frame.code.co_filename, site.line)


def _is_foreign(value: Any) -> bool:
    """Whether an object is of a class of Python's library or in C that is no plain one, or is a
    container with ways of its own to be read.
    """
    known = type(value) in _FOLLOWED or isinstance(value, Scalar | np.ndarray | types.ModuleType)
    plain = isinstance(value, type) or type(value).__module__ in ("builtins", "functools")
    if known or plain or home_of(value) in ("dlvm", "numpy") or runs(value):
        return False
    written = (getattr(type(value), name, None) for name in _ASKED)
    own = isinstance(value, dict | list | tuple) and any(
        isinstance(method, types.FunctionType) for method in written
    )
    return own or not class_is_read(type(value))


def _has_slots(value: Any) -> bool:
    return any(slots_of(k) for k in type(value).__mro__)


def _is_value(value: Any) -> bool:
    """Whether an object of a library is compared by value, such as a date or a fraction."""
    top = str(type(value).__module__).partition(".")[0]
    return top in sys.stdlib_module_names and not isinstance(value, tuple) and comparable(value)


def _bytes(value: Any) -> Any:
    refuse_gradient(value)
    found = np.asarray(value) if hasattr(value, "__array__") else np.from_dlpack(value)
    return (found.dtype, found.shape, found.tobytes())


def generator_of(value: Any) -> Any:
    """The generator of random numbers that an object is or uses."""
    if type(value) in _NO_GENERATORS:
        return None
    if isinstance(value, types.ModuleType):
        if value.__name__ == "numpy.random":
            return value.mtrand._rand
        return value._inst if value.__name__ == "random" and hasattr(value, "_inst") else None
    if isinstance(value, types.BuiltinMethodType | types.MethodType):
        value = value.__self__
    module = str(type(value).__module__)
    if module.startswith("numpy.random") and not isinstance(value, type):
        return value
    random = sys.modules.get("random")
    return value if random is not None and isinstance(value, random.Random) else None


def hidden_state(value: Any) -> Any:
    """What an object of a class in C gives to be pickled: its state, or None if it gives none."""
    if type(value).__module__ == "itertools":  # it warns, or is no longer there
        return None
    try:
        return repr(value.__reduce_ex__(4))
    except Exception:  # it may be of any kind
        return None


def state_of(generator: Any) -> str:
    """The state of a generator of random numbers, for comparison."""
    if hasattr(generator, "get_state"):
        return repr(generator.get_state(legacy=False))
    if hasattr(generator, "getstate"):
        try:
            return repr(generator.getstate())
        except NotImplementedError:  # the system's
            return ""
    inner = getattr(generator, "bit_generator", None) or getattr(
        generator, "_bit_generator", generator
    )
    return repr(getattr(inner, "state", ""))
