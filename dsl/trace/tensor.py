"""The staged array, which behaves in a trace as a NumPy array does, views included.

A staged array holds the value that computes its present contents; an assignment puts another value
in. A view knows its parent and one step from it, and reads and writes through the steps, so that
aliases see each other's changes. Arguments, captured arrays and arrays of an outer region are read
only. Where Python needs a number (``if``, ``float``, ``len``), an error says what to write instead.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

from dlvm.dsl.words.layout import Laid, Placed, layout, viewed
from dlvm.dsl.words.names import named
from dlvm.dsl.words.remedies import ARRAY, COMPLEX, FLOAT, INDEX, INT, ITEM, TEXT
from dlvm.dsl.words.views import ReadOnly, Reshaped, Step
from dlvm.ir import DType, TensorType, Value

from .libraries import JaxArray, torch_function
from .mistakes import (
    no_attribute,
    no_number,
    no_protocol,
    no_truth,
    not_assignable,
    not_in_place,
    not_like_python,
    unknown_length,
    used_after,
)
from .scopes import Scope, current
from .sizes import Shown, shown, shown_sizes

OUTSIDE = "a value from outside this region"
COPY = "a copy of "
READ_ONLY = "a view that is read only, as in NumPy"


def _binary(name: str) -> Callable[[Tensor, Any], Any]:
    def operator(self: Tensor, other: Any) -> Any:
        return named(name)(*named("_as_python")(name, self, other))

    return operator


def _reflected(name: str) -> Callable[[Tensor, Any], Any]:
    def operator(self: Tensor, other: Any) -> Any:
        return named(name)(*named("_as_python")(name, other, self))

    return operator


def _unary(name: str) -> Callable[[Tensor], Any]:
    def operator(self: Tensor) -> Any:
        return named(name)(self)

    return operator


def _signed(name: str) -> Callable[[Tensor], Any]:
    def operator(self: Tensor) -> Any:
        return named(name)(*named("_as_python")(name, self))

    return operator


def _in_place(name: str) -> Callable[[Tensor, Any], Any]:
    def operator(self: Tensor, other: Any) -> Any:
        if not self.shape and self.laid is None:
            return named(name)(*named("_as_python")(name, self, other))
        named("_assign_in_place")(self, named(name)(self, other))
        return self

    return operator


class Tensor:
    """A staged array: the result of an operation of the trace that is being written."""

    __slots__ = (
        "__weakref__",
        "_label",
        "_parent",
        "_root",
        "_scope",
        "_step",
        "_value",
        "_version",
        "held",
        "laid",
        "weak",
    )
    __array_priority__ = 1000

    def __init__(
        self, value: Value, scope: Scope, weak: bool = False, held: str = "", label: str = ""
    ) -> None:
        self._value = value
        self._scope = scope
        self.held = held
        self._label = label
        self._version = 0
        self._root: Tensor = self
        self._parent: Tensor | None = None
        self._step: Step | None = None
        self.laid: Laid | None = None
        self.weak = weak

    # -- reading and writing ---------------------------------------------------------------------

    def read(self) -> Value:
        """The present contents, as a value of the scope that is being traced."""
        scope, owner = current(), self._scope
        if not self.alive:
            raise used_after(self)
        if self._version != self._root._version:
            self._refresh()
        return self._value if scope is owner else scope.lift(self._value, owner)  # type: ignore[union-attr]

    @property
    def alive(self) -> bool:
        """Whether the trace or region in which the array was made is still running."""
        scope, owner = current(), self._scope
        return scope is owner or (scope is not None and scope.within(owner))

    def _refresh(self) -> None:
        stale: list[Tensor] = []
        at, version = self, self._root._version
        while at._parent is not None and at._version != version:
            stale.append(at)
            at = at._parent
        with self._scope.builder:
            for view in reversed(stale):
                assert view._parent is not None and view._step is not None
                view._value = view._step.read(view._parent._value)
                view._version = version

    def part(self, step: Step) -> Tensor:
        """The part of this array after one step; it shares elements if NumPy's would."""
        part = step.read(self.read())
        scope = current()
        assert scope is not None
        if isinstance(step, Reshaped) and self.copies(step):
            return Tensor(part, scope)
        lent = self._root.held or ("" if scope is self._scope else OUTSIDE)
        read_only = self.held == READ_ONLY or isinstance(step, ReadOnly)
        if not (self.type.shape or self.laid or lent or read_only):  # a scalar
            return Tensor(part, scope)
        view = Tensor(part, scope, held=READ_ONLY if read_only else lent, label=self._label)
        view.laid = viewed(self.placed, step, part.shape)
        if not lent:
            view._root, view._parent, view._step = self._root, self, step
            view._version = self._root._version
        return view

    @property
    def strides(self) -> tuple[Shown, ...]:
        """The bytes from an element to the next along each axis, in the same program of NumPy."""
        return shown_sizes(tuple(s * self.itemsize for s in layout(self.placed).strides))

    @property
    def placed(self) -> Placed:
        """Its shape, and where its layout comes from."""
        return self.type.shape, self.laid

    def assign(self, new: Value) -> None:
        """Replaces the contents by others of the same type; every alias sees them."""
        self.check_assignable()
        at = self
        while at._parent is not None and at._step is not None:
            new = at._step.write(at._parent.read(), new)
            at = at._parent
        at._value = new
        at._version += 1

    def check_assignable(self) -> None:
        """Refuses a change of an array of the caller or of an outer region."""
        held, scope = self.held, current()
        if not held and scope is not self._scope:
            if scope is None or not scope.within(self._scope):
                raise used_after(self)
            held = OUTSIDE
        if held:
            raise not_assignable(self, held, outside=held == OUTSIDE)

    # -- type and shape --------------------------------------------------------------------------

    def copies(self, step: Reshaped) -> bool:
        """Whether a reshape of this array makes a copy."""
        return (
            self.laid is not None
            and step.strides(self.type.shape, layout(self.placed).strides) is None
        )

    @property
    def contents(self) -> Value:
        """The last contents, as a value of the scope in which the array was made."""
        return self._value

    @property
    def type(self) -> TensorType:
        """Element type and shape."""
        return self._value.type

    @property
    def shape(self) -> tuple[Shown, ...]:
        """The sizes as users see them; an open size serves as a size and as a number."""
        return shown_sizes(self._value.type.shape)

    @shape.setter
    def shape(self, new: Any) -> None:
        raise not_in_place(self, "be given another shape", f"x = x.reshape({new})")

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self._value.type.shape)

    @property
    def size(self) -> Shown:
        """The number of elements."""
        return shown(self.type.size)

    @property
    def dtype(self) -> Any:
        """The NumPy dtype of its elements."""
        return self._value.type.dtype.numpy

    @property
    def itemsize(self) -> int:
        """The bytes of an element."""
        return self.element.bytes

    @property
    def nbytes(self) -> Shown:
        """The bytes of all elements."""
        return shown(self.type.size * self.element.bytes)

    @property
    def label(self) -> str:
        """The user's name for it, if it is an argument."""
        return self._label

    @property
    def element(self) -> DType:
        """The element type in IR text."""
        return self._value.type.dtype

    def describe(self) -> str:
        """The name, or the line where the array was made, and the type, for messages."""
        if self._label:
            return f"{self._label}: {self.type}"
        made = self._value.origin
        return f"{self.type} made at {made}" if made else f"a value of type {self.type}"

    def history(self) -> str:
        """The type and the origin of the array, in one line."""
        if self._label:
            return f"{self.type}, {quoted(self._label)}, {self._root.held or 'made here'}"
        made = self._value.origin
        return f"{self.type}, made at {made}: {made.source():.50}" if made else str(self.type)

    def __repr__(self) -> str:
        return f"<staged {self.describe()}>"

    # -- operators -------------------------------------------------------------------------------

    __add__, __radd__, __iadd__ = _binary("add"), _reflected("add"), _in_place("add")
    __sub__, __rsub__ = _binary("subtract"), _reflected("subtract")
    __isub__ = _in_place("subtract")
    __mul__, __rmul__ = _binary("multiply"), _reflected("multiply")
    __imul__ = _in_place("multiply")
    __truediv__, __rtruediv__ = _binary("divide"), _reflected("divide")
    __itruediv__ = _in_place("divide")
    __floordiv__, __rfloordiv__ = _binary("floor_divide"), _reflected("floor_divide")
    __ifloordiv__ = _in_place("floor_divide")
    __pow__, __rpow__, __ipow__ = _binary("_operator_pow"), _reflected("pow"), _in_place("pow")
    __matmul__, __rmatmul__ = _binary("matmul"), _reflected("matmul")
    __imatmul__ = _in_place("matmul")
    __lt__, __le__ = _binary("less"), _binary("less_equal")
    __gt__, __ge__ = _binary("greater"), _binary("greater_equal")
    __eq__, __ne__ = _binary("equal"), _binary("not_equal")  # type: ignore[assignment]
    __mod__, __rmod__, __imod__ = (
        _binary("remainder"),
        _reflected("remainder"),
        _in_place("remainder"),
    )
    __divmod__, __rdivmod__ = _binary("divmod"), _reflected("divmod")
    __and__, __rand__ = _binary("bitwise_and"), _reflected("bitwise_and")
    __iand__ = _in_place("bitwise_and")
    __or__, __ror__, __ior__ = (
        _binary("bitwise_or"),
        _reflected("bitwise_or"),
        _in_place("bitwise_or"),
    )
    __xor__, __rxor__ = _binary("bitwise_xor"), _reflected("bitwise_xor")
    __ixor__ = _in_place("bitwise_xor")
    __lshift__, __rlshift__ = _binary("bitwise_left_shift"), _reflected("bitwise_left_shift")
    __ilshift__ = _in_place("bitwise_left_shift")
    __rshift__, __rrshift__ = _binary("bitwise_right_shift"), _reflected("bitwise_right_shift")
    __irshift__ = _in_place("bitwise_right_shift")
    __neg__, __invert__ = _signed("negative"), _signed("bitwise_invert")
    __pos__, __abs__ = _signed("positive"), _signed("abs")

    def __getitem__(self, index: Any) -> Any:
        return named("_getitem")(self, index)

    def __setitem__(self, index: Any, new: Any) -> None:
        named("_setitem")(self, index, new)

    def __delitem__(self, index: Any) -> None:
        raise not_in_place(self, "lose elements", "x = dlvm.concat([x[:i], x[i + 1:]])")

    # -- methods ---------------------------------------------------------------------------------

    T = property(_unary("transpose"), doc="All axes in reverse order.")
    mT = property(_unary("matrix_transpose"), doc="The last two axes exchanged.")
    real = property(_unary("real"), doc="The real part, which is the array itself.")
    imag = property(_unary("imag"), doc="The imaginary part, zeros.")
    at = property(_unary("at"), doc="``x.at[i].set(v)`` and ``.add(v)``: a changed copy.")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # Python and NumPy ask what protocols there are
            raise no_protocol(self, name)
        if name not in METHODS:
            raise no_attribute(self, name, sorted({*METHODS, *dir(type(self))}))
        return functools.partial(named(OWN_MEANING.get(name, name)), self)

    def reshape(self, *shape: Any, order: str = "C", copy: bool | None = None) -> Tensor:
        """The elements in row-major order in another shape; one size may be -1."""
        return named("reshape")(self, shape[0] if len(shape) == 1 else shape, order, copy=copy)

    def transpose(self, *axes: Any) -> Tensor:
        """All axes in reverse order, or in the order given."""
        several = len(axes) != 1 or isinstance(axes[0], int)
        return named("transpose")(self, (axes or None) if several else axes[0])

    # -- the array API standard ------------------------------------------------------------------

    device = property(lambda self: "cpu", doc="Where its elements are: on the processor.")

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        """The module whose functions take this array: dlvm."""
        return named("_namespace")(api_version)

    def to_device(self, device: Any, /, *, stream: Any = None) -> Tensor:
        """The array itself, as there is only the device ``"cpu"``."""
        return named("_to_device")(self, device, stream)

    def __dlpack__(self, **options: Any) -> Any:
        raise not_like_python(self, "has no memory to share", "return it and share the result")

    def __dlpack_device__(self) -> Any:
        raise not_like_python(self, "has no memory to share", "return it and share the result")

    def fill(self, value: Any) -> None:
        """Replaces every element by one value."""
        self[...] = value

    def sort(self, axis: int = -1, kind: Any = None, order: None = None) -> None:
        """Sorts the elements along an axis, in place."""
        named("_sort_in_place")(self, axis, kind, order)

    def item(self, *args: Any) -> float:
        """Raises the error for a Python number, which does not exist while tracing."""
        raise no_number(self, ITEM)

    tolist = tobytes = tofile = item

    # -- what Python asks of numbers -------------------------------------------------------------

    def __bool__(self) -> bool:
        raise no_truth(self)

    def __float__(self) -> float:
        raise no_number(self, FLOAT)

    def __int__(self) -> int:
        raise no_number(self, INT)

    def __index__(self) -> int:
        raise no_number(self, INDEX)

    def __complex__(self) -> complex:
        raise no_number(self, COMPLEX)

    def __trunc__(self) -> Any:
        raise not_like_python(self, "can't be truncated by Python", "write dlvm.trunc(x)")

    def __round__(self, digits: int = 0) -> Any:
        written = f"dlvm.round(x, {digits})" if digits else "dlvm.round(x)"
        raise not_like_python(self, "can't be rounded by Python", f"write {written}")

    def __hash__(self) -> int:
        raise not_like_python(self, "has no hash", "a table is an array that it is an index of")

    def __reduce__(self) -> Any:
        raise not_like_python(self, "can't be pickled", "return it and keep the result")

    def __copy__(self) -> Tensor:
        return named("copy")(self)

    def __deepcopy__(self, memo: Any) -> Tensor:
        return named("copy")(self)

    def __format__(self, spec: str) -> str:
        if spec:
            raise no_number(self, TEXT)
        return str(self)

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise no_number(self, ARRAY)

    def __contains__(self, item: Any) -> bool:
        raise no_truth(self)

    def __len__(self) -> int:
        size = self.shape[0] if self.shape else None
        if not isinstance(size, int):
            raise unknown_length(self, "len")
        return size

    def __iter__(self) -> Iterator[Any]:
        size = self.shape[0] if self.shape else None
        if not isinstance(size, int):
            raise unknown_length(self, "iteration")
        return (self[i] for i in range(size))

    __jax_array__ = JaxArray()
    __torch_function__ = classmethod(torch_function)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return named("_numpy_ufunc")(ufunc, method, inputs, kwargs)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return named("_numpy_function")(func, args, kwargs)


METHODS = frozenset(
    [
        "sum",
        "mean",
        "max",
        "argmax",
        "all",
        "any",
        "ravel",
        "flatten",
        "repeat",
        "squeeze",
        "swapaxes",
        "diagonal",
        "trace",
        "astype",
        "copy",
        "dot",
        "take",
        "cumsum",
        "cumprod",
        "argsort",
        "searchsorted",
        "argpartition",
        "prod",
        "min",
        "argmin",
        "var",
        "std",
        "clip",
        "round",
        "conj",
    ]
)
"""Methods of NumPy's arrays that are public functions of the same name."""
OWN_MEANING = {"copy": "_copy_in_rows"}
"""Those that mean something else than NumPy's function of the name."""


def quoted(label: str) -> str:
    """What the user wrote, in quotes."""
    return label if label.startswith(COPY) else repr(label)
