"""A process that has compiled and used threads forks: parent and child go on, and are right.

python -m tests.robust.forks [--short]
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import warnings
from typing import Any

import numpy as np

import dlvm

from .script import demand, run

SECONDS = 120
X = np.random.default_rng(0).normal(size=(400, 1500))
KNOWN = np.tanh(X @ X.T).sum(0)
"""Made once: a fork waits for the threads of NumPy's products, which may be for ever."""


@dlvm.function(threads=4)
def known(x: Any) -> Any:
    """Compiled before the fork; large enough to be shared by threads."""
    return dlvm.tanh(x @ x.T).sum(0)


def right(factor: float) -> bool:
    """A call of what is compiled, and of something new."""
    fresh = dlvm.function(lambda x: dlvm.exp(x * factor).sum(1), threads=2)
    old = np.allclose(known(X), KNOWN)
    return old and np.allclose(fresh(X), np.exp(X * factor).sum(1))


def forked(short: bool) -> str:
    """``os.fork`` after use: the child computes, compiles, and forks again."""
    rounds = 3 if short else 50
    right(0.5)
    for k in range(rounds):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # 3.12 on: threads are about
            child = os.fork()
        if not child:
            signal.alarm(SECONDS)
            good = right(0.1 + k / 100)
            grandchild = os.fork() if k == 0 else 0
            if grandchild:
                good = good and os.waitpid(grandchild, 0)[1] == 0
            os._exit(0 if good else 1)
        demand(os.waitpid(child, 0)[1] == 0, f"child {k} was wrong or hung")
        demand(right(0.5), "the parent is wrong after a fork")
    return f"{rounds} children and the parent computed and compiled right"


def while_running(short: bool) -> str:
    """Forks while other threads are in calls and in compiles."""
    stop, rounds = threading.Event(), 3 if short else 30
    wrong: list[int] = []
    right(0.5)  # so that no thread imports anything: Python does not wait for that

    def busy(own: int) -> None:
        k = 0
        while not stop.is_set():
            k += 1
            if not right(0.2 + own + k / 7 if k % 4 == 0 else 0.2):
                wrong.append(own)

    threads = [threading.Thread(target=busy, args=(i,), daemon=True) for i in range(3)]
    for t in threads:
        t.start()
    try:
        for k in range(rounds):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)
                child = os.fork()
            if not child:
                signal.alarm(SECONDS)
                os._exit(0 if right(0.3) else 1)
            demand(os.waitpid(child, 0)[1] == 0, f"child {k} was wrong or hung")
    finally:
        stop.set()
        for t in threads:
            t.join(SECONDS)
    demand(not wrong, "a thread was wrong beside forks")
    return f"{rounds} children of a process with 3 busy threads were right"


def pools(short: bool) -> str:
    """``multiprocessing`` by fork and by spawn."""
    right(0.5)
    for method in ("fork",) if short else ("fork", "spawn", "forkserver"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            with multiprocessing.get_context(method).Pool(2) as pool:
                found = pool.map_async(right, [0.1, 0.2, 0.3, 0.4]).get(SECONDS)
        demand(all(found), f"a worker by {method} was wrong")
    return "workers of process pools were right"


if __name__ == "__main__":
    sys.exit(run(__doc__, forked, while_running, pools))
