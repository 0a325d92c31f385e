"""Layers that are made of layers: sequences and perceptrons."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, is_dataclass
from typing import TYPE_CHECKING, Any, ClassVar, cast, overload

from dlvm.base.errors import UserError
from dlvm.dsl.trace.facing import facing_users
from dlvm.dsl.trace.scopes import user_origin
from dlvm.nn.activations import relu

from .basic import Linear, keys_of
from .shown import Layer

if TYPE_CHECKING:
    from dlvm.dsl.trace.typed import Array


@dataclass(eq=False, repr=False)
class Lambda(Layer):
    """A function as a layer without parameters; the function is configuration."""

    fn: Callable[..., Any]

    def __call__(self, x: Any) -> Any:
        """The function of ``x``."""
        return self.fn(x)


@dataclass(init=False, eq=False, repr=False)
class Sequential(Layer):
    """Layers and functions, each applied to the result of the one before.

    With layers that keep a state, such as ``BatchNorm`` and ``LSTM``, a call takes and returns a
    tuple of states, one for each such layer: ``y, state = net(x, state=net.init())``. The initial
    state of a recurrent layer is None.
    """

    layers: tuple[Any, ...]
    takes_key: ClassVar[bool] = True

    @facing_users
    def __init__(self, layers: Iterable[Any]) -> None:
        """Sets the initial parameters."""
        self.layers = tuple(map(_layer, layers))

    @property
    def has_state(self) -> bool:
        """Whether a call gives a state besides its result."""
        return any(map(_has_state, self.layers))

    def init(self) -> tuple[Any, ...]:
        """The first state of each layer that keeps one."""
        return tuple(
            layer.init() if hasattr(layer, "init") else None
            for layer in self.layers
            if _has_state(layer)
        )

    @overload
    def __call__(
        self, x: Any, key: Any = None, training: bool = True, state: None = None
    ) -> Array: ...
    @overload
    def __call__(
        self, x: Any, key: Any = None, training: bool = True, *, state: Any
    ) -> tuple[Any, Any]: ...
    def __call__(self, x: Any, key: Any = None, training: bool = True, state: Any = None) -> Any:
        """The last layer's result; layers that need keys get one of their own each.

        With layers that keep a state, the result and the tuple of their new states.
        """
        count = sum(map(_takes_key, self.layers))
        keys = iter([None] * count if key is None else keys_of(key, max(count, 1)))
        states = iter(self._states(state))
        after: list[Any] = []
        for layer in self.layers:
            options = (next(keys), training) if _takes_key(layer) else ()
            if not _has_state(layer):
                x = layer(x, *options)
                continue
            x, last = _with_state(layer, x, next(states), options, training)
            after.append(last)
        return (x, tuple(after)) if self.has_state else x

    def _states(self, state: Any) -> tuple[Any, ...]:
        """The states that a call begins with."""
        first = self.init()
        if state is None:
            return first
        if not isinstance(state, tuple) or len(given := cast("tuple[Any, ...]", state)) != len(
            first
        ):
            raise UserError(
                f"Sequential: expected a tuple of {len(first)} states, one for each layer that "
                f"keeps one, found {state!r:.60}",
                origin=user_origin(),
                remedy="pass state=net.init(), or the state that the last call gave",
            )
        return given


def _has_state(layer: Any) -> bool:
    """Whether a layer gives a state besides its result."""
    return bool(getattr(layer, "has_state", False))


def _with_state(
    layer: Any, x: Any, state: Any, options: tuple[Any, ...], training: bool
) -> tuple[Any, Any]:
    """The result and the new state of a layer; some norms also ask whether this is training."""
    if options:
        return layer(x, *options, state=state)
    if getattr(layer, "asks_training", False):
        return layer(x, state, training)
    return layer(x, state)


def _takes_key(layer: Any) -> bool:
    """Whether a layer, as dropout, is called with a key and with whether this is training."""
    return getattr(layer, "takes_key", False)


def _layer(layer: Any) -> Any:
    """A layer, or a function as one."""
    if not callable(layer):
        raise UserError(
            f"Sequential: expected layers and functions, found {layer!r:.60}",
            origin=user_origin(),
            remedy="pass all layers in one list",
        )
    return layer if is_dataclass(layer) else Lambda(layer)


@dataclass(init=False, eq=False, repr=False)
class MLP(Layer):
    """A perceptron: ``Linear`` layers of some sizes, with an activation between them."""

    layers: tuple[Linear, ...]
    activation: Callable[..., Any]

    @facing_users
    def __init__(
        self,
        key: Any,
        sizes: Sequence[int],
        activation: Callable[..., Any] = relu,
        bias: bool = True,
        dtype: Any = "f32",
    ) -> None:
        """Sets the initial parameters."""
        if len(sizes) < 2:
            raise UserError(
                f"MLP: expected the sizes of all layers, found {sizes!r}",
                origin=user_origin(),
                remedy="pass two sizes or more, the first that of the input: (784, 512, 10)",
            )
        keys = keys_of(key, len(sizes) - 1)
        ends = zip(keys, sizes, sizes[1:], strict=False)
        self.layers = tuple(Linear(k, i, o, bias, dtype) for k, i, o in ends)
        self.activation = activation

    def __call__(self, x: Any) -> Array:
        """Rows of the first size as rows of the last; no activation follows the last layer."""
        *inner, last = self.layers
        for layer in inner:
            x = self.activation(layer(x))
        return last(x)
