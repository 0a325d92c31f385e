"""Programs with each kind of control, and arguments; all numbers are small whole ones, so that
every way to run them gives the same bits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dlvm.ir import Module, parse


@dataclass(frozen=True)
class Case:
    """A program and several lists of arguments."""

    name: str
    text: str
    calls: tuple[tuple[Any, ...], ...]

    @property
    def module(self) -> Module:
        return parse("dlvm 1\n" + self.text).verify()


def whole(*shape: int) -> np.ndarray[Any, Any]:
    """Different small whole numbers."""
    return (np.arange(np.prod(shape, dtype=int)) * 7 % 11 - 3).reshape(shape).astype(np.float32)


COND = """
func @f(%p: bool, %x: f32[4], %y: f32[4]) -> (f32[4], f32[4], f32) {
  %0, %1 = cond %p, [%x, %y] : f32[4], f32[4]
    then(%x: f32[4], %y: f32[4]) -> (f32[4], f32[4]) {
      %a = add %x, %y : f32[4]
      return %a, %x
    }
    otherwise(%x: f32[4], %y: f32[4]) -> (f32[4], f32[4]) {
      return %y, %y
    }
  %s = sum %0 axes=(0) : f32
  return %0, %1, %s
}
"""

WHILE = """
func @f(%x: f32[3], %n: i64) -> (f32[3], f32[3], i64) {
  %zero = constant value=0 : i64
  %0, %1, %2 = while [%x, %x, %zero], [%n] : f32[3], f32[3], i64
    condition(%a: f32[3], %b: f32[3], %k: i64, %n: i64) -> bool {
      %go = less %k, %n : bool
      return %go
    }
    body(%a: f32[3], %b: f32[3], %k: i64, %n: i64) -> (f32[3], f32[3], i64) {
      %one = constant value=1 : i64
      %k1 = add %k, %one : i64
      %c = sub %b, %a : f32[3]
      return %b, %c, %k1
    }
  return %0, %1, %2
}
"""

SCAN = """
func @f(%c: f32[3], %xs: f32[5,3], %w: f32[3]) -> (f32[3], f32[5,3], f32[5]) {
  %0, %1, %2 = scan [%c], [%xs], [%w] length=5 reverse=REVERSE : f32[3], f32[5,3], f32[5]
    body(%c: f32[3], %x: f32[3], %w: f32[3]) -> (f32[3], f32[3], f32) {
      %a = sub %x, %c : f32[3]
      %b = add %a, %w : f32[3]
      %s = sum %b axes=(0) : f32
      return %b, %c, %s
    }
  return %0, %1, %2
}
"""

SWAP = """
func @f(%a: f32[3], %b: f32[3]) -> (f32[3], f32[3], f32[3]) {
  %0, %1, %2 = scan [%a, %b, %a], [], [] length=3 : f32[3], f32[3], f32[3]
    body(%a: f32[3], %b: f32[3], %c: f32[3]) -> (f32[3], f32[3], f32[3]) {
      return %b, %c, %a
    }
  return %0, %1, %2
}
"""

SCATTER = """
func @f(%c: f32[N], %is: i64[T], %ys: f32[T]) -> (f32[N], f32[T]) {
  %0, %1 = scan [%c], [%is, %ys], [] length=T : f32[N], f32[T]
    body(%c: f32[N], %i: i64, %y: f32) -> (f32[N], f32) {
      %old = gather %c, %i axis=0 : f32
      %c1 = scatter_add %c, %i, %y axis=0 : f32[N]
      return %c1, %old
    }
  return %0, %1
}
"""

SOMETIMES = """
func @f(%c: f32[N], %is: i64[T], %ps: bool[T]) -> f32[N] {
  %one = constant value=1.0 : f32
  %0 = scan [%c], [%is, %ps], [%one] length=T : f32[N]
    body(%c: f32[N], %i: i64, %p: bool, %one: f32) -> f32[N] {
      %d = cond %p, [%c, %i, %one] : f32[N]
        then(%c: f32[N], %i: i64, %one: f32) -> f32[N] {
          %e = scatter_add %c, %i, %one axis=0 : f32[N]
          return %e
        }
        otherwise(%c: f32[N], %i: i64, %one: f32) -> f32[N] {
          return %c
        }
      return %d
    }
  return %0
}
"""

NESTED = """
func @f(%m: f32[B,4], %n: i64) -> (f32[4], f32[B,4], f32[B,4]) {
  %zero = constant value=0.0 : f32
  %start = broadcast %zero shape=(4) axes=() : f32[4]
  %0, %1, %2 = scan [%start], [%m], [%n] length=B : f32[4], f32[B,4], f32[B,4]
    body(%c: f32[4], %row: f32[4], %n: i64) -> (f32[4], f32[4], f32[4]) {
      %z = constant value=0.0 : f32
      %t, %prefix = scan [%z], [%row], [] length=4 : f32, f32[4]
        body(%a: f32, %x: f32) -> (f32, f32) {
          %b = add %a, %x : f32
          return %b, %b
        }
      %k0 = constant value=0 : i64
      %d, %k = while [%c, %k0], [%n, %prefix] : f32[4], i64
        condition(%c: f32[4], %k: i64, %n: i64, %p: f32[4]) -> bool {
          %go = less %k, %n : bool
          return %go
        }
        body(%c: f32[4], %k: i64, %n: i64, %p: f32[4]) -> (f32[4], i64) {
          %one = constant value=1 : i64
          %k1 = add %k, %one : i64
          %c1 = sub %p, %c : f32[4]
          return %c1, %k1
        }
      return %d, %prefix, %d
    }
  return %0, %1, %2
}
"""

TAPE = """
func @f(%x: f32[40], %n: i64) -> (f32[40], f32[40], i64) {
  %zero = constant value=0 : i64
  %empty = empty_tape : tape
  %0, %1, %2 = while [%x, %zero, %empty], [%n] : f32[40], i64, tape
    condition(%a: f32[40], %k: i64, %t: tape, %n: i64) -> bool {
      %go = less %k, %n : bool
      return %go
    }
    body(%a: f32[40], %k: i64, %t: tape, %n: i64) -> (f32[40], i64, tape) {
      %one = constant value=1 : i64
      %k1 = add %k, %one : i64
      %t1 = push %t, [%a, %k] : tape
      %b = sub %a, %a : f32[40]
      %kf = cast %k dtype=f32 : f32
      %kb = broadcast %kf shape=(40) axes=() : f32[40]
      %c = add %b, %kb : f32[40]
      return %c, %k1, %t1
    }
  %3, %4, %5 = while [%x, %1, %2], [%zero] : f32[40], i64, tape
    condition(%a: f32[40], %k: i64, %t: tape, %zero: i64) -> bool {
      %go = less %zero, %k : bool
      return %go
    }
    body(%a: f32[40], %k: i64, %t: tape, %zero: i64) -> (f32[40], i64, tape) {
      %t1, %b, %j = pop %t : tape, f32[40], i64
      %s = sub %b, %a : f32[40]
      return %s, %j, %t1
    }
  return %0, %3, %4
}
"""

TAPE_OF_TAPES = """
func @f(%n: i64, %m: i64) -> i64 {
  %zero = constant value=0 : i64
  %empty = empty_tape : tape
  %0, %1 = while [%zero, %empty], [%n, %m] : i64, tape
    condition(%k: i64, %t: tape, %n: i64, %m: i64) -> bool {
      %go = less %k, %n : bool
      return %go
    }
    body(%k: i64, %t: tape, %n: i64, %m: i64) -> (i64, tape) {
      %one = constant value=1 : i64
      %k1 = add %k, %one : i64
      %none = constant value=0 : i64
      %inner = empty_tape : tape
      %j, %full = while [%none, %inner], [%m, %k] : i64, tape
        condition(%j: i64, %u: tape, %m: i64, %k: i64) -> bool {
          %go = less %j, %m : bool
          return %go
        }
        body(%j: i64, %u: tape, %m: i64, %k: i64) -> (i64, tape) {
          %o = constant value=1 : i64
          %j1 = add %j, %o : i64
          %v = mul %j1, %k : i64
          %u1 = push %u, [%v] : tape
          return %j1, %u1
        }
      %t1 = push %t, [%full, %j] : tape
      return %k1, %t1
    }
  %2, %3, %4 = while [%zero, %0, %1], [%zero] : i64, i64, tape
    condition(%s: i64, %k: i64, %t: tape, %zero: i64) -> bool {
      %go = less %zero, %k : bool
      return %go
    }
    body(%s: i64, %k: i64, %t: tape, %zero: i64) -> (i64, i64, tape) {
      %one = constant value=1 : i64
      %k1 = sub %k, %one : i64
      %t1, %u, %j = pop %t : tape, tape, i64
      %r, %q, %w = while [%s, %j, %u], [%zero] : i64, i64, tape
        condition(%s: i64, %j: i64, %u: tape, %zero: i64) -> bool {
          %go = less %zero, %j : bool
          return %go
        }
        body(%s: i64, %j: i64, %u: tape, %zero: i64) -> (i64, i64, tape) {
          %o = constant value=1 : i64
          %j1 = sub %j, %o : i64
          %u1, %v = pop %u : tape, i64
          %three = constant value=3 : i64
          %s3 = mul %s, %three : i64
          %s1 = add %s3, %v : i64
          return %s1, %j1, %u1
        }
      return %r, %k1, %t1
    }
  return %2
}
"""

REPEATED = """
func @f(%x: f32[4], %i: i64[20], %u: f32[20], %v: f32[6,1], %j: i64[2,1]) -> (f32[4], f32[3,4,1]) {
  %0 = scatter_add %x, %i, %u axis=0 : f32[4]
  %1 = broadcast %x shape=(3,4,1) axes=(1) : f32[3,4,1]
  %2 = reshape %v shape=(3,2,1,1) : f32[3,2,1,1]
  %3 = scatter_add %1, %j, %2 axis=1 : f32[3,4,1]
  return %0, %3
}
"""

ROWS = """
func @f(%x: i32[3,2,A+1], %i: i64[3,2*A+1]) -> i32[3,2*A+1,A+1] {
  %0 = gather %x, %i axis=1 batch=1 mode="clip" : i32[3,2*A+1,A+1]
  return %0
}
"""

PRODUCTS = """
func @f(%x: f32[B,4,5], %y: f32[B,5,6], %z: f32[2,B,3,B], %w: f32[2,B,B,2]) -> (TWO) {
  %0 = matmul %x, %y : f32[B,4,6]
  %1 = matmul %z, %w : f32[2,B,3,2]
  return %0, %1
}
"""

SHAPES = """
func @f(%x: f32[2,3], %y: f32) -> (f32[6], f32[2,3], f32[2,3], f32, f32[2,0], i64[2]) {
  %0 = reshape %x shape=(6) : f32[6]
  %1 = broadcast %y shape=(2,0) axes=() : f32[2,0]
  %2 = constant value=[5, 6] : i64[2]
  return %0, %x, %x, %y, %1, %2
}
"""

BATCH = """
func @f(%x: f32[B,3], %w: f32[3,2]) -> (f32[B,2], f32[2], i64) {
  %0 = matmul %x, %w : f32[B,2]
  %1 = sum %0 axes=(0) : f32[2]
  %2 = dim size=2*B+1 : i64
  return %0, %1, %2
}
"""

CASES = (
    Case("cond", COND, tuple((np.bool_(p), whole(4), whole(4) + 1) for p in (False, True))),
    Case("while", WHILE, tuple((whole(3), np.int64(n)) for n in (0, 1, 2, 50))),
    Case("scan", SCAN.replace("REVERSE", "false"), ((whole(3), whole(5, 3), whole(3)),)),
    Case("scan_reverse", SCAN.replace("REVERSE", "true"), ((whole(3), whole(5, 3), whole(3)),)),
    Case("swap", SWAP, ((whole(3), whole(3) + 5),)),
    Case(
        "scatter",
        SCATTER,
        (
            (whole(8), np.array([0, 3, 3, -1, 7]), whole(5)),
            (whole(8), np.zeros(0, np.int64), whole(0)),
        ),
    ),
    Case(
        "sometimes",
        SOMETIMES,
        ((whole(8), np.array([0, 3, 3, -1, 7]), np.array([1, 0, 1, 1, 0], bool)),),
    ),
    Case("nested", NESTED, tuple((whole(b, 4), np.int64(n)) for b in (0, 1, 6) for n in (0, 3))),
    Case("tape", TAPE, tuple((whole(40), np.int64(n)) for n in (0, 1, 30))),
    Case(
        "tape_of_tapes",
        TAPE_OF_TAPES,
        tuple((np.int64(n), np.int64(m)) for n, m in ((0, 3), (4, 0), (5, 3))),
    ),
    Case(
        "repeated",
        REPEATED,
        ((whole(4), np.arange(20) ** 2 % 4, whole(20), whole(6, 1), np.array([[1], [1]])),),
    ),
    Case(
        "rows",
        ROWS,
        tuple(
            (whole(3, 2, a + 1).astype(np.int32), whole(3, 2 * a + 1).astype(np.int64))
            for a in (0, 3, 40)
        ),
    ),
    Case(
        "products",
        PRODUCTS.replace("TWO", "f32[B,4,6], f32[2,B,3,2]"),
        tuple(
            (whole(b, 4, 5), whole(b, 5, 6), whole(2, b, 3, b), whole(2, b, b, 2))
            for b in (0, 1, 3)
        ),
    ),
    Case("shapes", SHAPES, ((whole(2, 3), np.float32(4)),)),
    Case("batch", BATCH, tuple((whole(b, 3), whole(3, 2)) for b in (0, 1, 17))),
)
