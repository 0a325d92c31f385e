"""Remedies are followed to the letter: the program that a message asks for gives NumPy's answer."""

from __future__ import annotations

import math

import numpy as np
import pytest

import dlvm
from tests.dsl.words.remedied import CASES, Remedy, X, case, follow

M = np.arange(6.0).reshape(2, 3)
TABLE = np.array([10.0, 20.0, 30.0, 40.0])
COUNT = np.arange(3)


@case("write n = dlvm.zeros(3) at line", np.array([0.0, 1.0, 2.0]))
class AddedIntoAnArrayMadeInside:
    def wrong(x):
        n = np.zeros(3)
        n[1:] += x[1:]
        return n

    def right(x):
        n = dlvm.zeros(3)
        n[1:] += x[1:]
        return n


@case("write n = dlvm.zeros((2, 3)) at line", np.stack([X, X * 0]))
class PutIntoAnArrayMadeInside:
    def wrong(x):
        n = np.zeros((2, 3))
        n[0] = x
        return n

    def right(x):
        n = dlvm.zeros((2, 3))
        n[0] = x
        return n


@case("write w = dlvm.copy(TABLE), and assign into w", np.array([3.0, 20, 30, 40]))
class PutIntoACapturedArray:
    def wrong(x):
        TABLE[0] = x[0]
        return TABLE

    def right(x):
        w = dlvm.copy(TABLE)
        w[0] = x[0]
        return w


@case("write dlvm.asarray(TABLE)[i]", 40.0)
class AStagedIndexIntoACapturedArray:
    def wrong(x):
        i = x[0].astype(int)
        return TABLE[i]

    def right(x):
        i = x[0].astype(int)
        return dlvm.asarray(TABLE)[i]


@case("write dlvm.asarray(TABLE)[i]", 40.0)
class AStagedIndexIntoWhatAsarrayGives:
    def wrong(x):
        i = x[0].astype(int)
        return np.asarray(TABLE)[i]

    def right(x):
        i = x[0].astype(int)
        return dlvm.asarray(TABLE)[i]


@case(
    "write dlvm.random.randint(key, (), 0, n), with key = dlvm.random.key(seed)", True, dynamic=True
)
class ANumberBelowASymbolicSize:
    def wrong(x):
        n = x.shape[0]
        rng = np.random.default_rng(0)
        i = rng.integers(n)
        return i < n

    def right(x):
        n, seed = x.shape[0], 0
        key = dlvm.random.key(seed)
        i = dlvm.random.randint(key, (), 0, n)
        return (i >= 0) & (i < n)


@case("write x.mean(where=m)", 2.5)
class TheMeanOfWhatAMaskTakes:
    def wrong(x):
        m = x > 1
        return x[m].mean()

    def right(x):
        m = x > 1
        return x.mean(where=m)


@case("write dlvm.sum(x, where=x > 1)", 5.0)
class TheSumOfWhatAMaskTakes:
    def wrong(x):
        return np.sum(x[x > 1])

    def right(x):
        return dlvm.sum(x, where=x > 1)


@case("write dlvm.max(x), without float()", X / 3)
class AFloatOfALargest:
    def wrong(x):
        return x / float(np.max(x))

    def right(x):
        return x / dlvm.max(x)


@case("write dlvm.sin(x[0])", np.sin(3.0))
class ASineOfMath:
    def wrong(x):
        return math.sin(x[0])

    def right(x):
        return dlvm.sin(x[0])


@case("write x[0] ** 2", 9.0)
class APowerOfMath:
    def wrong(x):
        return math.pow(x[0], 2)

    def right(x):
        return x[0] ** 2


@case("write dlvm.sqrt(x)", np.sqrt(X))
class ARootOfEach:
    def wrong(x):
        return list(map(math.sqrt, x))

    def right(x):
        return dlvm.sqrt(x)


@case("write dlvm.sort(x)", np.sort(X))
class Sorted:
    def wrong(x):
        return sorted(x)

    def right(x):
        return dlvm.sort(x)


@case("write it as a float, 1.1805916207174113e+21", COUNT + float(2**70), COUNT)
class ANumberThatNoIntegerHolds:
    def wrong(n):
        return n + 2**70

    def right(n):
        return n + 1.1805916207174113e21


@case("write np.int64(300)", np.arange(3) + 300, COUNT.astype(np.int8))
class ANumberThatASmallIntegerDoesNotHold:
    def wrong(n):
        return n + 300

    def right(n):
        return n + np.int64(300)


@case("write c = c + i", X + 3)
class AddedIntoACarry:
    def wrong(x):
        def body(i, c):
            c += i
            return c

        return dlvm.fori_loop(0, 3, body, x)

    def right(x):
        def body(i, c):
            c = c + i
            return c

        return dlvm.fori_loop(0, 3, body, x)


@case("write c = c * i", X * 0)
class MultipliedIntoACarry:
    def wrong(x):
        def body(c, i):
            c *= i
            return c, None

        return dlvm.scan(body, x, COUNT)[0]

    def right(x):
        def body(c, i):
            c = c * i
            return c, None

        return dlvm.scan(body, x, COUNT)[0]


@case("change a copy and return it: c = c.copy()", np.array([1.0, 1, 2]))
class PutIntoACarry:
    def wrong(x):
        def body(i, c):
            c[0] = 1
            return c

        return dlvm.fori_loop(0, 3, body, x)

    def right(x):
        def body(i, c):
            c = c.copy()
            c[0] = 1
            return c

        return dlvm.fori_loop(0, 3, body, x)


@case("write axis=1, along which their sizes may differ", np.concatenate([M, M[:, :2]], 1), M)
class JoinedAlongTheWrongAxis:
    def wrong(m):
        return dlvm.concat([m, m[:, :2]])

    def right(m):
        return dlvm.concat([m, m[:, :2]], axis=1)


@case("column_stack along 1: f64[3,1] and f64[2,1]", np.column_stack([X[:2], X[:2]]))
class ColumnsOfTwoLengths:
    def wrong(x):
        return dlvm.column_stack([x, x[:2]])

    def right(x):
        return dlvm.column_stack([x[:2], x[:2]])


@case("found [1, 2]: x[None] adds one", np.concatenate([M, X[None]]), M, X)
class JoinedOfTwoRanks:
    def wrong(m, x):
        return dlvm.concat([m, x])

    def right(m, x):
        return dlvm.concat([m, x[None]])


@case("write -1 for the last size, which takes what is left: (2, -1)", M, M)
class AShapeOfTooFew:
    def wrong(m):
        return m.reshape(2, 2)

    def right(m):
        return m.reshape((2, -1))


@case("write a shape of 3 elements, such as (3,)", X)
class AShapeThatDoesNotFit:
    def wrong(x):
        return x.reshape(2, 2)

    def right(x):
        return x.reshape((3,))


@case("cut them to one size", M[:, :2] @ X[:2], M, X)
class AContractionOfTwoSizes:
    def wrong(m, x):
        return dlvm.einsum("ij,j->i", m, x[:2])

    def right(m, x):
        return dlvm.einsum("ij,j->i", m[:, :2], x[:2])


@case("write 1 letters for it, as in 'i'", X @ X)
class TooManyLabels:
    def wrong(x):
        return dlvm.einsum("ij,i->", x, x)

    def right(x):
        return dlvm.einsum("i,i->", x, x)


@case("the text after the call: return x[0]", 3.0)
class TextOfAValue:
    def wrong(x):
        return f"{x[0]:.2f}"

    def right(x):
        return x[0]


@case("write dlvm.print('largest', x.max())", X)
class TextThatIsPrinted:
    def wrong(x):
        print(f"largest {x.max():.2f}")
        return x

    def right(x):
        dlvm.print("largest", x.max())
        return x


@case("leave it out: wrong returns arrays", X)
class AStringThatIsReturned:
    def wrong(x):
        return x, "done"

    def right(x):
        return x


@case("write axis=0", X)
class SqueezedAlongAnotherAxis:
    def wrong(x):
        return x[None, :].squeeze(1)

    def right(x):
        return x[None, :].squeeze(axis=0)


@case("write x[:, 0] to take the first element of axis 1", M[:, 0], M)
class SqueezedWhereNoSizeIsOne:
    def wrong(x):
        return dlvm.squeeze(x, axis=1)

    def right(x):
        return x[:, 0]


@case("dlvm.grad gives a function, which takes the arguments: dlvm.grad(f)(x)", 2 * X)
class AGradientThatIsGivenItsArgument:
    def wrong(x):
        return dlvm.grad(lambda x: (x * x).sum(), x)

    def right(x):
        return dlvm.grad(lambda x: (x * x).sum())(x)


@case("write x[2].astype(int)", 2.0, COUNT + 0.0)
class AnIntOfAValue:
    def wrong(x):
        return x[int(x[2])]

    def right(x):
        return x[x[2].astype(int)]


@case("write dlvm.mean(dlvm.stack([x, 2 * x]), axis=0)", 1.5 * X)
class AMeanOfAList:
    def wrong(x):
        return np.mean([x, 2 * x], axis=0)

    def right(x):
        return dlvm.mean(dlvm.stack([x, 2 * x]), axis=0)


JOINED = np.array([3.0, 1.0, 2.0, 7.0, 0.0, 1.0, 3.0])


@case("write dlvm.concat(dlvm.atleast_1d(x, 7.0, dlvm.arange(0, 2, 1), x[0]))", JOINED)
class VectorsJoinedInBrackets:
    def wrong(x):
        return np.r_[x, 7.0, :2, x[0]]

    def right(x):
        return dlvm.concat(dlvm.atleast_1d(x, 7.0, dlvm.arange(0, 2, 1), x[0]))


@case("write dlvm.concat([dlvm.atleast_1d(x * 2)])", 2 * X)
class OneVectorInBrackets:
    def wrong(x):
        return np.r_[x * 2]

    def right(x):
        return dlvm.concat([dlvm.atleast_1d(x * 2)])


@case("write dlvm.column_stack([x, 2 * x]), the dlvm.concat of columns", np.c_[X, 2 * X])
class ColumnsInBrackets:
    def wrong(x):
        return np.c_[x, 2 * x]

    def right(x):
        return dlvm.column_stack([x, 2 * x])


@pytest.mark.parametrize(
    "found", CASES[__name__], ids=lambda c: c.wrong.__qualname__.partition(".")[0]
)
def test_the_remedy_works_when_it_is_followed_to_the_letter(found: Remedy):
    follow(found)
