"""Sums of products and parts of products, near to what the laws of linear algebra speak of."""

from __future__ import annotations

from dlvm.ir import splat, zeros
from dlvm.ops import Add, Diagonal, LessEqual, Matmul, Mul, Permute, Select, Sub, Sum, transposed
from dlvm.opt.algebra.examples import triangle

from .near_products import Group, columns, counted, rows

PARTS: list[Group] = [
    (
        ("n[N,N]", "n[N,N]", "n[N,N]", "n[N,N]"),
        {
            "no common factor": lambda a, b, c, d: Add(Matmul(a, b), Matmul(c, d)),
            "crossed": lambda a, b, c, d: Add(Matmul(a, b), Matmul(b, a)),
            "crossed at one": lambda a, b, c, d: Add(Matmul(a, b), Matmul(c, a)),
            "crossed at the other": lambda a, b, c, d: Sub(Matmul(a, b), Matmul(b, d)),
            "one product first": lambda a, b, c, d: Add(Matmul(a, b), c),
            "one product last": lambda a, b, c, d: Sub(c, Matmul(a, b)),
            "no product": lambda a, b, c, d: Add(Mul(a, b), Mul(a, c)),
            "one a product of elements": lambda a, b, c, d: Sub(Matmul(a, b), Mul(a, c)),
            "the other one": lambda a, b, c, d: Sub(Mul(a, b), Matmul(a, c)),
            "all of elements, last": lambda a, b, c, d: Sub(Mul(a, c), Mul(b, c)),
            "part of a sum against": lambda a, b, c, d: Sum(Mul(Matmul(a, b), c), (0,)),
            "against no product": lambda a, b, c, d: Sum(Mul(a, Mul(b, c)), (0, 1)),
            "a sum of a product and more": lambda a, b, c, d: Sum(Add(Matmul(a, b), c), (0, 1)),
            "against one last": lambda a, b, c, d: Sum(Mul(c, Matmul(a, b)), (0, 1)),
            "against one first": lambda a, b, c, d: Sum(Mul(Matmul(a, b), c), (0, 1)),
            "a diagonal of both sides": lambda a, b, c, d: Diagonal(
                Matmul(triangle(a, True), triangle(b, False))
            ),
            "a diagonal of one side": lambda a, b, c, d: Diagonal(Matmul(triangle(a, True), b)),
            "transpose of another": lambda a, b, c, d: transposed(Matmul(a, transposed(b))),
            "transpose of two": lambda a, b, c, d: transposed(Matmul(transposed(a), transposed(b))),
            "in order": lambda a, b, c, d: Permute(Matmul(transposed(a), transposed(b)), (0, 1)),
            "transposes in order": lambda a, b, c, d: transposed(
                Matmul(Permute(a, (0, 1)), Permute(b, (0, 1)))
            ),
            "transpose of no symmetric one": lambda a, b, c, d: transposed(Add(a, b)),
            "order of a symmetric one": lambda a, b, c, d: Permute(Add(a, transposed(a)), (0, 1)),
            "a triangle of the other": lambda a, b, c, d: triangle(triangle(a, True), False),
            "the other triangle of one": lambda a, b, c, d: triangle(triangle(a, False), True),
            "a triangle": lambda a, b, c, d: triangle(a, True),
            "a triangle beside ones": lambda a, b, c, d: Select(
                LessEqual(counted(a, -1), counted(a, -2)), triangle(a, True), splat(1, a.type)
            ),
            "between rows": lambda a, b, c, d: Select(
                LessEqual(counted(a, -2), counted(a, -2)), triangle(a, True), zeros(a.type)
            ),
            "a mask of vectors below": lambda a, b, c, d: Select(
                LessEqual(columns(Diagonal(b), a), rows(Diagonal(c), a)),
                triangle(a, True),
                zeros(a.type),
            ),
            "a mask of vectors above": lambda a, b, c, d: Select(
                LessEqual(rows(Diagonal(b), a), columns(Diagonal(c), a)),
                triangle(a, False),
                zeros(a.type),
            ),
            "another mask": lambda a, b, c, d: Select(
                LessEqual(b, a), triangle(a, True), zeros(a.type)
            ),
        },
    ),
    (
        ("n[B,N,N]", "n[B,N,N]"),
        {
            "batches of one": lambda a, b: Add(Matmul(a, b), Matmul(b, a)),
            "sum over batches": lambda a, b: Sum(Matmul(a, b), (0,)),
            "sum over batches and rows": lambda a, b: Sum(Matmul(a, b), (0, 1)),
            "sum over batches and columns": lambda a, b: Sum(Matmul(a, b), (0, 2)),
            "sum over rows": lambda a, b: Sum(Matmul(a, b), (1,)),
            "sum over columns": lambda a, b: Sum(Matmul(a, b), (2,)),
            "sum over all": lambda a, b: Sum(Matmul(a, b), (0, 1, 2)),
            "sum over both": lambda a, b: Sum(Matmul(a, b), (1, 2)),
            "sum over none": lambda a, b: Sum(Matmul(a, b), ()),
            "sum of turned ones": lambda a, b: Sum(Matmul(transposed(a), b), (0,)),
            "sum of rows of turned ones": lambda a, b: Sum(Matmul(transposed(a), b), (0, 1)),
            "sum of others turned": lambda a, b: Sum(Matmul(Permute(a, (0, 1, 2)), b), (0,)),
            "diagonals": lambda a, b: Diagonal(Matmul(a, b)),
            "diagonals of turned ones": lambda a, b: Diagonal(transposed(a)),
            "transposes": lambda a, b: transposed(Matmul(transposed(a), transposed(b))),
            "transposes of symmetric ones": lambda a, b: transposed(Add(a, transposed(a))),
            "against": lambda a, b: Sum(Mul(Matmul(a, b), a), (0, 1, 2)),
        },
    ),
    (
        ("n[2,N,3,4]", "n[2,N,3,2]"),
        {
            "sum of some batches": lambda a, b: Sum(Matmul(transposed(a), b), (0,)),
            "sum of all batches": lambda a, b: Sum(Matmul(transposed(a), b), (0, 1)),
            "sum of other batches": lambda a, b: Sum(Matmul(transposed(a), b), (1,)),
            "sum of all": lambda a, b: Sum(Matmul(transposed(a), b), (0, 1, 2, 3)),
            "columns and a batch": lambda a, b: Sum(Matmul(transposed(a), b), (1, 3)),
            "rows and a batch": lambda a, b: Sum(Matmul(transposed(a), b), (0, 2)),
        },
    ),
    (
        ("n[2,2,2]", "n[2,2,2]"),
        {
            "turned around": lambda a, b: Sum(Matmul(Permute(a, (2, 0, 1)), b), (0,)),
            "batches exchanged": lambda a, b: Permute(
                Matmul(transposed(a), transposed(b)), (1, 0, 2)
            ),
            "exchanged in both": lambda a, b: Permute(
                Matmul(Permute(a, (1, 0, 2)), Permute(b, (1, 0, 2))), (1, 0, 2)
            ),
            "symmetric ones exchanged": lambda a, b: Permute(Add(a, transposed(a)), (1, 0, 2)),
            "diagonals of exchanged ones": lambda a, b: Diagonal(Permute(a, (2, 1, 0))),
            "diagonals of batches exchanged": lambda a, b: Diagonal(Permute(a, (1, 0, 2))),
            "batches of sums exchanged": lambda a, b: Permute(
                Add(a, Permute(a, (1, 0, 2))), (1, 0, 2)
            ),
        },
    ),
]
