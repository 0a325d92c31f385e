"""Exceptions of signal handlers are the user's, whatever dlvm was doing when the signal came."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import dlvm
from dlvm.base.handlers import raised_by_handler


class TooLate(Exception):
    """What the handler raises."""


class Limit:
    """A handler that is an object with a call."""

    def __call__(self, *_: Any) -> None:
        raise TooLate


def _handler(*_: Any) -> None:
    raise TooLate


@pytest.fixture(params=[_handler, Limit()], ids=["function", "object"])
def installed(request: pytest.FixtureRequest) -> Iterator[None]:
    before = signal.signal(signal.SIGUSR1, request.param)
    yield
    signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize("place", ["dlvm.gen.warm.compiled"])
def test_an_exception_of_a_handler_passes_through_the_compiler(
    place: str, installed: None, monkeypatch: pytest.MonkeyPatch
):
    def interrupted(*args: Any, **kwargs: Any) -> Any:
        signal.raise_signal(signal.SIGUSR1)

    monkeypatch.setattr(place, interrupted)
    with pytest.raises(TooLate):
        dlvm.function(lambda x: x * 2 + 1.25)(np.ones(3))


def test_an_explanation_asks_for_a_call_first():
    with pytest.raises(dlvm.UserError, match=r"call f with the arguments first, then write f\.ex"):
        dlvm.function(f).explain(np.ones(3))  # type: ignore[arg-type]


def f(x: Any) -> Any:
    return x


def test_other_exceptions_are_not_those_of_handlers(installed: None):
    with pytest.raises(TooLate) as raised:
        signal.raise_signal(signal.SIGUSR1)
    assert raised_by_handler(raised.value)
    assert not raised_by_handler(TooLate())
