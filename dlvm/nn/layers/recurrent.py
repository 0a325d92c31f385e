"""Recurrent layers as dataclasses; each gives all hidden states and the last state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from dlvm.dsl.trace.facing import facing_users
from dlvm.nn.recurrent import gru, lstm, rnn

from .basic import evenly, keys_of


@dataclass(init=False)
class _Recurrent:
    """Weights of gates from the input and from the hidden state, and their biases."""

    w_ih: Any
    w_hh: Any
    b_ih: Any
    b_hh: Any
    gates: ClassVar[int] = 1
    has_state: ClassVar[bool] = True

    @facing_users
    def __init__(
        self, key: Any, in_features: int, hidden: int, bias: bool = True, dtype: Any = "f32"
    ) -> None:
        """The first parameters."""
        wide = self.gates * hidden
        shapes = ((in_features, wide), (hidden, wide), (wide,), (wide,))
        keys = keys_of(key, 4)
        drawn = [evenly(k, s, hidden, dtype) for k, s in zip(keys, shapes, strict=True)]
        self.w_ih, self.w_hh = drawn[:2]
        self.b_ih, self.b_hh = drawn[2:] if bias else (None, None)

    @property
    def weights(self) -> tuple[Any, Any, Any, Any]:
        """The parameters in the order of ``dlvm.nn.lstm``."""
        return self.w_ih, self.w_hh, self.b_ih, self.b_hh


@dataclass(init=False)
class RNN(_Recurrent):
    """``rnn`` with its parameters."""

    def __call__(self, xs: Any, state: Any = None, reverse: bool = False) -> tuple[Any, Any]:
        """All h of sequences (..., T, in), and the last one."""
        return rnn(xs, *self.weights, state, reverse=reverse)


@dataclass(init=False)
class GRU(_Recurrent):
    """``gru`` with its parameters."""

    gates: ClassVar[int] = 3

    def __call__(self, xs: Any, state: Any = None, reverse: bool = False) -> tuple[Any, Any]:
        """All h of sequences (..., T, in), and the last one."""
        return gru(xs, *self.weights, state, reverse=reverse)


@dataclass(init=False)
class LSTM(_Recurrent):
    """``lstm`` with its parameters."""

    gates: ClassVar[int] = 4

    def __call__(
        self, xs: Any, state: Any = None, reverse: bool = False
    ) -> tuple[Any, tuple[Any, Any]]:
        """All h of sequences (..., T, in), and the last (h, c)."""
        return lstm(xs, *self.weights, state, reverse=reverse)
