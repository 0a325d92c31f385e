"""Ctrl-C in a long loop or kernel and in a compile: it comes at once, and the process goes on.

python -m tests.robust.interrupts [--short]
"""

from __future__ import annotations

import contextlib
import io
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

import dlvm

from .script import demand, run

LATE = 1.0
"""Seconds of processor time, on each thread of two, that a call may take after Ctrl-C.

Seconds on the clock would include what other programs take of a busy machine.
"""
X = np.linspace(0.0, 1.0, 4096)
SMALL, LARGE = 1 << 9, 1 << 17
"""Rows with which a kernel takes no time, or seconds."""


def interrupted(call: Callable[[], Any], after: float = 0.4) -> float:
    """Half of the processor time that a call took after Ctrl-C until it ended by it.

    Where a fast machine ends a call before Ctrl-C comes, it comes sooner in the next one.
    """
    for pause in (after, after / 8, after / 64):
        late = _interrupted(call, pause)
        if late is not None:
            return late
    raise AssertionError("the call ended by itself")


def _interrupted(call: Callable[[], Any], after: float) -> float | None:
    sent: list[float] = []

    def send() -> None:
        time.sleep(after)
        sent.append(time.process_time())
        os.kill(os.getpid(), signal.SIGINT)

    thread, ended = threading.Thread(target=send), False
    thread.start()
    try:
        call()
        ended = True
        thread.join()
    except KeyboardInterrupt:
        return None if ended else (time.process_time() - sent[0]) / 2
    finally:
        thread.join()
    raise AssertionError("Ctrl-C did not arrive")


@cache
def loops() -> dict[str, tuple[Callable[[int], Any], Callable[[int], Any]]]:
    """Loops that run for as many trips as they are told, and what they give after a few."""
    forward = dlvm.function(lambda x, n: dlvm.fori_loop(0, n, lambda i, c: dlvm.sin(c) + x, x))
    counting = dlvm.function(lambda n: dlvm.while_loop(lambda c: c < n, lambda c: c + 1, 0))
    nested = dlvm.function(
        lambda x, n: dlvm.fori_loop(
            0, n, lambda i, c: dlvm.fori_loop(0, 1000, lambda j, d: d * 0.5 + x, c), x
        )
    )
    step = dlvm.function(lambda x, n: dlvm.fori_loop(0, n, lambda i, c: c * 0.5, x), donate=("x",))

    @dlvm.function
    def printing(n: Any) -> Any:
        def body(c: Any) -> Any:
            dlvm.print(c)
            return c + 1

        return dlvm.while_loop(lambda c: c < n, body, 0)

    def sines(n: int) -> Any:
        c = X
        for _ in range(n):
            c = np.sin(c) + X
        return c

    return {
        "fori_loop": (lambda n: forward(X, n), sines),
        "while_loop": (lambda n: counting(n), lambda n: n),
        "nested": (lambda n: nested(X, n), lambda n: nested(X, n)),
        "donated": (lambda n: step(X.copy(), n), lambda n: X * 0.5**n),
        "printing": (lambda n: printing(n), lambda n: n),
    }


def in_loops(short: bool) -> str:
    """Loops of days end a fraction of a second after Ctrl-C, and the next call is right."""
    slowest, rounds = 0.0, 1 if short else 10
    for name, (call, expected) in loops().items():
        with contextlib.redirect_stdout(io.StringIO()):
            call(3)
            for _ in range(rounds):
                late = interrupted(lambda call=call: call(1 << 50))
                demand(late < LATE, f"{name} ended {late:.2f} s after Ctrl-C")
                slowest = max(slowest, late)
                np.testing.assert_allclose(call(5), expected(5), rtol=1e-12)
    return f"{len(loops())} kinds of loops, {rounds} times each, ended within {slowest:.3f} s"


def kernels(threads: int) -> dict[str, tuple[Callable[[int], Any], Callable[[int], Any]]]:
    """Single kernels of so many rows, and what they give."""
    product = dlvm.function(lambda x: x @ x, threads=threads)
    pairs = dlvm.function(
        lambda x: dlvm.exp(-((x[:, None] - x[None, :]) ** 2)).sum(axis=1), threads=threads
    )
    chain = dlvm.function(lambda x, y: dlvm.sin(dlvm.exp(x)[:, None] + y[None, :]), threads=threads)
    apart = dlvm.function(
        lambda x: dlvm.map(lambda a: dlvm.exp(-((a - x) ** 2)).sum(), x), threads=threads
    )

    def distances(n: int) -> Any:
        x = np.linspace(0.0, 1.0, n)
        return np.exp(-((x[:, None] - x[None, :]) ** 2)).sum(axis=1)

    @cache
    def line(n: int) -> Any:
        return np.linspace(0.0, 1.0, n)

    squares = {n: np.ones((n // 25, n // 25)) for n in (SMALL, LARGE)}

    def grid(n: int) -> Any:
        return np.sin(np.exp(line(n // 8))[:, None] + line(n // 8))

    return {
        "product": (lambda n: product(squares[n]), lambda n: float(n // 25)),
        "row kernel": (lambda n: pairs(line(n)), distances),
        "chain": (lambda n: chain(line(n // 8), line(n // 8)), grid),
        "trips": (lambda n: apart(line(n)), distances),
    }


def in_kernels(short: bool) -> str:
    """One kernel of seconds ends a fraction of a second after Ctrl-C, on one thread and on two."""
    slowest, rounds = 0.0, 1 if short else 5
    for threads in (1, 2):
        for name, (call, expected) in kernels(threads).items():
            np.testing.assert_allclose(call(SMALL), expected(SMALL), rtol=1e-12)
            for _ in range(rounds):
                late = interrupted(lambda call=call: call(LARGE))
                demand(late < LATE, f"{name} ended {late:.2f} s after Ctrl-C")
                slowest = max(slowest, late)
            np.testing.assert_allclose(call(SMALL), expected(SMALL), rtol=1e-12)
    return f"{rounds} times each kind, ended within {slowest:.3f} s"


def handlers(short: bool) -> str:
    """A handler that raises nothing runs in the middle of a call, which goes on."""
    seen: list[float] = []
    before = signal.signal(signal.SIGALRM, lambda *_: seen.append(time.perf_counter()))
    call, expected = loops()["fori_loop"]
    call(3)
    trips, inside = 10_000, 0
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
        while inside < 2:  # until a call is long enough for two handlers, however fast the machine
            trips *= 2
            demand(trips < 1 << 32, "no handler ran during the call")
            start = time.perf_counter()
            found = call(trips)
            end = time.perf_counter()
            inside = sum(start < t < end for t in seen)
            demand(inside or end - start < 2, f"no handler ran during {end - start:.1f} s")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    np.testing.assert_allclose(found, call(trips), rtol=0)
    np.testing.assert_allclose(call(20_000), expected(20_000), rtol=1e-9)
    return f"{inside} handlers ran inside a call of {end - start:.1f} s"


def other_threads(short: bool) -> str:
    """A call in another thread is left alone; Ctrl-C reaches the main thread."""
    call, expected = loops()["fori_loop"]
    call(3)
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(call(10_000)))
    thread.start()
    late = interrupted(lambda: time.sleep(60), 0.1)
    thread.join()
    np.testing.assert_allclose(results[0], expected(10_000), rtol=1e-9)
    return f"the main thread had it after {late:.3f} s, the call ended right"


def in_compiles(short: bool) -> str:
    """Compiles that end at any moment leave nothing that makes the next one wrong."""
    rounds, cut = 12 if short else 300, 0
    usual = float("inf")
    rng, before = random.Random(1), signal.signal(signal.SIGALRM, signal.default_int_handler)

    def compiled(k: float) -> Any:
        loss = lambda w, x: (dlvm.tanh(x @ w) ** 2 + k).sum()  # noqa: E731
        return dlvm.function(dlvm.grad(loss))

    w, x = np.ones((8, 4)), np.ones((5, 8))
    compiled(0.25)(w, x)
    for k in range(3):
        start = time.perf_counter()
        compiled(0.5 + k / 16)(w, x)
        usual = min(usual, time.perf_counter() - start)
    t = np.tanh(x @ w)
    expected = x.T @ (2 * t * (1 - t * t))
    try:
        for k in range(rounds):
            f = compiled(1.0 + k)
            try:
                signal.setitimer(signal.ITIMER_REAL, rng.uniform(1e-4, usual))
                f(w, x)
                signal.setitimer(signal.ITIMER_REAL, 0)
            except KeyboardInterrupt:
                cut += 1
            np.testing.assert_allclose(f(w, x), expected, rtol=1e-12)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    demand(cut > 0, f"none of {rounds} compiles was cut short")
    return f"{cut} of {rounds} compiles of {usual:.2f} s cut short, each right when called again"


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # shells ignore it behind a "&"
    sys.exit(run(__doc__, in_loops, in_kernels, handlers, other_threads, in_compiles))
