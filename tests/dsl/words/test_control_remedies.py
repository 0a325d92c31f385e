"""Remedies for loops, branches and masks, followed to the letter."""

from __future__ import annotations

import numpy as np
import pytest

import dlvm
from tests.dsl.words.remedied import CASES, Remedy, X, case, follow


@case("write x = dlvm.while_loop(lambda x: ~(x[0] > 10), body, x), where body(x) does", X * 4)
class ALoopThatIsLeft:
    def wrong(x):
        while True:
            if x[0] > 10:
                break
            x = x * 2
        return x

    def right(x):
        def body(x):
            return x * 2

        x = dlvm.while_loop(lambda x: ~(x[0] > 10), body, x)
        return x


@case("write x = dlvm.while_loop(lambda x: x[0] < 10, body, x), where body(x) returns", X * 4)
class ALoopWithACondition:
    def wrong(x):
        while x[0] < 10:
            x = x * 2
        return x

    def right(x):
        def body(x):
            return x * 2

        x = dlvm.while_loop(lambda x: x[0] < 10, body, x)
        return x


@case("write x.max(initial=-np.inf, where=m)", 2.0)
class TheLargestOfWhatAMaskTakes:
    def wrong(x):
        m = x < 3
        return x[m].max()

    def right(x):
        m = x < 3
        return x.max(initial=-np.inf, where=m)


@case("write m.sum()", 2)
class HowManyAMaskTakes:
    def wrong(x):
        m = x > 1
        return len(x[m])

    def right(x):
        m = x > 1
        return m.sum()


@case("write return dlvm.where(x.sum() > 0, x, -x)", X)
class ABranchThatReturns:
    def wrong(x):
        if x.sum() > 0:
            return x
        return -x

    def right(x):
        return dlvm.where(x.sum() > 0, x, -x)


@case("write x = dlvm.fori_loop(0, n, body, x), where body(i, x) returns", X * 0)
class ALoopOfAStagedLength:
    def wrong(x):
        n = x[0].astype(int)
        for i in range(n):
            x = x * i
        return x

    def right(x):
        n = x[0].astype(int)

        def body(i, x):
            return x * i

        x = dlvm.fori_loop(0, n, body, x)
        return x


def factorial(n):
    if n <= 1:
        return 1.0
    return n * factorial(n - 1)


@dlvm.function
def staged_factorial(n):
    return dlvm.cond(n <= 1, lambda: 1.0, lambda: n * staged_factorial(n - 1))


@case("write dlvm.cond(n <= 1, lambda: ..., lambda: ...) in a function with @dlvm.function", 6.0)
class AFunctionThatCallsItself:
    def wrong(x):
        return factorial(x[0])

    def right(x):
        return staged_factorial(x[0])


@pytest.mark.parametrize(
    "found", CASES[__name__], ids=lambda c: c.wrong.__qualname__.partition(".")[0]
)
def test_the_remedy_works_when_it_is_followed_to_the_letter(found: Remedy):
    follow(found)
