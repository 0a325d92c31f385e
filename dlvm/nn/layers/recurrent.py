"""Recurrent layers as dataclasses; each gives all hidden states and the last state."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from dlvm.base.errors import ArgumentError
from dlvm.dsl.trace.facing import facing_users
from dlvm.dsl.trace.scopes import user_origin
from dlvm.dsl.words.namespace import xp
from dlvm.nn.recurrent import gru, lstm, rnn

from .basic import evenly, keys_of
from .shown import Layer


@dataclass(init=False, eq=False, repr=False)
class _Recurrent(Layer):
    """Weights of gates from the input and from the hidden state, and their biases.

    Of several layers or directions each field is a tuple with an array for each, in PyTorch's
    order: the first layer forwards and, if it is bidirectional, backwards, then the second.
    """

    w_ih: Any
    w_hh: Any
    b_ih: Any
    b_hh: Any
    bidirectional: bool
    gates: ClassVar[int] = 1
    has_state: ClassVar[bool] = True
    run: ClassVar[Callable[..., Any]]

    @facing_users
    def __init__(
        self,
        key: Any,
        in_features: int,
        hidden: int,
        num_layers: int = 1,
        bias: bool = True,
        bidirectional: bool = False,
        dtype: Any = "f32",
    ) -> None:
        """Sets the initial parameters."""
        if isinstance(num_layers, bool) or num_layers < 1:
            raise ArgumentError(
                f"{type(self).__name__}: expected num_layers of 1 or more, found {num_layers!r}",
                origin=user_origin(),
                remedy="pass num_layers=1, which comes before bias, as in PyTorch",
            )
        ways = 2 if bidirectional else 1
        sizes = [in_features if n < ways else ways * hidden for n in range(num_layers * ways)]
        keys = [key] if len(sizes) == 1 else keys_of(key, len(sizes))
        pairs = zip(keys, sizes, strict=True)
        parts = [self._drawn(k, size, hidden, bias, dtype) for k, size in pairs]
        fields = parts[0] if len(parts) == 1 else zip(*parts, strict=True)
        self.w_ih, self.w_hh, self.b_ih, self.b_hh = fields
        self.bidirectional = bidirectional

    def _drawn(self, key: Any, size: int, hidden: int, bias: bool, dtype: Any) -> tuple[Any, ...]:
        """The first weights and biases of one layer in one direction."""
        wide = self.gates * hidden
        shapes = ((size, wide), (hidden, wide), (wide,), (wide,))
        drawn = [evenly(k, s, hidden, dtype) for k, s in zip(keys_of(key, 4), shapes, strict=True)]
        return tuple(drawn) if bias else (*drawn[:2], None, None)

    @property
    def weights(self) -> tuple[Any, Any, Any, Any]:
        """The parameters in the order of ``dlvm.nn.lstm``."""
        return self.w_ih, self.w_hh, self.b_ih, self.b_hh

    def __call__(
        self, xs: Any, state: Any = None, reverse: bool = False, lengths: Any = None
    ) -> tuple[Any, Any]:
        """The hidden states of the last layer for sequences (..., T, in), and the last state.

        With several layers or directions a state is a tuple with one state for each. The hidden
        states of both directions are joined along the last axis. Of each sequence the first
        ``lengths`` (...) steps count.
        """
        run = type(self).run
        if not isinstance(self.w_ih, tuple):
            return run(xs, *self.weights, state, reverse=reverse, lengths=lengths)
        parts: list[Any] = list(zip(*self.weights, strict=True))
        states = (None,) * len(parts) if state is None else state
        _check_states(type(self).__name__, states, len(parts))
        ways = 2 if self.bidirectional else 1
        last: list[Any] = []
        for first in range(0, len(parts), ways):
            each: list[Any] = []
            for way in range(ways):
                part, start = parts[first + way], states[first + way]
                h, end = run(xs, *part, start, reverse=reverse != (way == 1), lengths=lengths)
                each.append(h)
                last.append(end)
            xs = each[0] if ways == 1 else xp.concat(each, -1)
        return xs, tuple(last)


def _check_states(name: str, states: Any, count: int) -> None:
    given: Any = states
    if not isinstance(states, tuple | list) or len(given) != count:
        raise ArgumentError(
            f"{name}: expected a tuple of {count} states, one for each layer and direction",
            origin=user_origin(),
            remedy="pass the state that a call gave, or None",
        )


@dataclass(init=False, eq=False, repr=False)
class RNN(_Recurrent):
    """``rnn`` with its parameters, of one layer or several, in one direction or both."""

    run: ClassVar[Callable[..., Any]] = staticmethod(rnn)


@dataclass(init=False, eq=False, repr=False)
class GRU(_Recurrent):
    """``gru`` with its parameters, of one layer or several, in one direction or both."""

    gates: ClassVar[int] = 3
    run: ClassVar[Callable[..., Any]] = staticmethod(gru)


@dataclass(init=False, eq=False, repr=False)
class LSTM(_Recurrent):
    """``lstm`` with its parameters, of one layer or several, in one direction or both."""

    gates: ClassVar[int] = 4
    run: ClassVar[Callable[..., Any]] = staticmethod(lstm)
