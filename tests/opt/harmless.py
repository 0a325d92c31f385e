"""Mistakes in laws that change no answer, and why; ``mutants`` says which there are.

A reason stands for several mistakes of one function. Some make a law apply to less than it could:
what is computed stays right, and ``test_pairs`` and ``test_chains`` hold the cost.
"""

from __future__ import annotations

LESS = "applies to less, and what it refuses stays as it is"
COST = "decides only which of two equal forms is computed"
IMPLIED = "the condition follows from the others, or from the types"
SAME = "both sides are one value"
NEVER = "steps are never 0"
AGAIN = "proposes the product as it is, which saves nothing and is not taken"

REASONS: dict[str, dict[str, tuple[str, ...]]] = {
    "_add": {
        LESS: ("product.factors[1:] ==", "product.factors[-2:] =="),
        COST: ("if _open(product, value", "product.opened <= MOST"),
        SAME: ("factor = Factor(value, turned)",),
    },
    "_against": {
        SAME: ("case Mul(y, x) if op.axes",),
        LESS: ("(x, y) if not isinstance(y, Matmul) else (y, x)",),
    },
    "_along": {
        IMPLIED: ("if not isinstance(value, Broadcast):",),
        LESS: ("range(rank - 3)",),
    },
    "_built": {COST: ("fewest = min(",)},
    "_divisor": {
        LESS: ("type(2 / float(found))",),
        SAME: (
            "if found is None or float(found) in (0, 1):",
            "in (0, 2):",
            "finite = np.isfinite(op.dtype.numpy.type(1 / float(found)))",
        ),
    },
    "_is_turned_vector": {
        LESS: (
            "len(before) != len(after)",
            "before[:-2] == after[:2]",
            "before[:-3] == after[:-2]",
            "before[:2] == after[:-2]",
            "before[:-2] == after[:-3]",
            "len(after) >= 3",
            "(before[-3:] ==",
            "(after[-2], after[-2])",
            "1 in before[2:]",
            "(before[2:] ==",
        ),
        IMPLIED: ("both = before[:-2] == after[:-2]", "(after[1], after[-2])"),
    },
    "kronecker_of": {
        LESS: ("((1, 4), (0, 2)):", "((1, 3), (0, 3)):", "((1, 3), (1, 2)):"),
        IMPLIED: (
            "== ((2, 3), (0, 2)):",
            "isinstance(value, Permute):",
            "if is_transpose(value) and value.type.rank == 2:",
        ),
    },
    "kronecker_times": {IMPLIED: ("x.shape[1])",)},
    "_open": {
        COST: ("product.opened += 2", "return _take_apart(product, value, turned, opened)"),
        SAME: ("is_identity(value): return False",),
    },
    "_of_operands": {IMPLIED: ("if not isinstance(op, Elementwise) or not op.shape_free:",)},
    "places_of": {COST: ("i = structure.one_hot_of(structure.matrix_of_rows(x))",)},
    "_picked": {
        LESS: ("axis == last == len(axes)",),
        IMPLIED: ("case [Broadcast(i, _, axes), Broadcast(Iota(), _, [axis])]:",),
    },
    "_take_apart": {
        COST: (
            "if 1 not in (rows, rows)",
            "if 1 not in (columns, columns)",
            "case Assume(x):",
            "isinstance(x, Op) or not isinstance(x, Assume)",
            "case Assume(x) if isinstance(x, Op):",
            "case Assume(x) if not isinstance(x, Assume):",
            "case Assume(x) if not (isinstance(x, Op)",
            "isinstance(x, Op) and isinstance(x, Assume)",
        ),
    },
    "_take_apart_scaling": {
        LESS: (
            "if (vector :=",
            "((value.x, value.y), (value.y, value.y)):",
            "(structure.along_rows(scale), structure.along_rows(scale))",
        ),
    },
    "_scaled": {
        COST: (
            "if not x.diagonal:",
            "if not y.diagonal:",
            "if not x.diagonal or not y.diagonal:",
        ),
    },
    "_turned": {IMPLIED: ("return (inner, swapped)",)},
    "_whole": {
        COST: ("step > 1 for", "window.starts == window.x.shape"),
        NEVER: ("step >= 0",),
    },
    "accumulate_in_place": {
        SAME: ("case Add(a, ScatterAdd(zero, i, u, axis, batch, mode)):", "batch, mode), a):")
    },
    "diagonal_of": {
        LESS: (
            "vector = along_columns(d)",
            "return along_columns(d) if",
            "return along_rows(d) if vector is None",
        ),
    },
    "diagonal_of_formula": {IMPLIED: ("return _of_operands(op.x, Diagonal)",)},
    "diagonal_of_reshaped_batch": {
        IMPLIED: ("x.type.rank >= 1", "case Reshape(x) if x.shape[-2:] == op.x.shape[-2:]:"),
        LESS: ("x.shape[-3:] == op.x.shape[-2:]",),
    },
    "diagonal_of_triangular_product": {SAME: ("case Matmul(y, x)",)},
    "divide_by_constant": {COST: ("return op.x * (splat(1, op.type) / op.y)",)},
    "divide_by_power_of_two": {
        IMPLIED: ("type(2 / divisor)", "return op.x * splat(1 / divisor, op.type)"),
    },
    "Factor.matrix": {SAME: ("if 1 in (",)},
    "broadcast_along_ones": {SAME: ("if all((d == 1 for d in added))",)},
    "matrix_of_rows": {
        IMPLIED: ("if x.shape[-1:] == value.shape[-1:]:", "x.shape[-1:] == value.shape[1:]:"),
    },
    "one_hot_of": {SAME: ("case Cast(Equal(b, a)):",)},
    "diagonal_of_transpose": {LESS: ("range(rank - 3)",)},
    "multiplied": {COST: ("(*x.shape[:-1], y.shape[-2])", "(*x.shape[:-1], y.shape[1])")},
    "number_behind_product": {COST: ("if (found := _number_and_rest(x)) is None:",)},
    "one_factor_for_all": {SAME: ("axes)) if axes ==", "if rank >= 2 and axes")},
    "outer_of": {SAME: ("case Mul(y, x):",)},
    "reordered": {
        AGAIN: (
            "as_it_is",
            "plain = [Factor(op.x), Factor(op.x)]",
            "plain = [Factor(op.y), Factor(op.y)]",
            "pass",
        ),
    },
    "product_of_vectors": {SAME: ("flat, compute = ((*op.shape[:2],",)},
    "rows_of_formula": {
        COST: ("op.mode == 'drop':",),
        IMPLIED: ("if op.mode == 'drop' or",),
    },
    "rows_of_identity_times": {
        IMPLIED: (
            "if structure.is_identity(eye) and op.x.type.rank == 2:",
            "if structure.is_identity(eye):",
        ),
        COST: ("found.origin = op.y.origin",),
    },
    "scaled": {SAME: ("case Mul(y, x) if value.shape",), IMPLIED: ("case Mul(x, y):",)},
    "select_same": {SAME: ("return op.y if op.x is op.y",)},
    "slice_of_everything": {NEVER: ("step >= 0",)},
    "subtract_itself_of_floats": {SAME: ("zeros(op.type) * -1",)},
    "multiply_floats_by_zero": {SAME: ("_zero_factor(op) * -1",)},
    "product_of_floats_with_zero": {SAME: ("_zero_operand(op) * -1",)},
    "sum_against_product": {SAME: ("return ways[1] if ways",)},
    "sum_of_products": {IMPLIED: ("case Matmul(Permute(x, perm), y):",)},
    "sum_twice": {SAME: ("(*(left[a] for a in outer), *inner)",)},
    "transpose_of_product": {
        IMPLIED: ("if op.perm != (*range(rank - 2)", "if rank < 2 and"),
        LESS: ("(*range(rank - 3)",),
    },
    "transpose_of_symmetric": {
        IMPLIED: ("turned = are_transposes(op, op.x)", "turned = op.type.rank >= 1"),
    },
    "update_of_everything": {NEVER: ("step >= 0",)},
    "window_of_formula": {IMPLIED: ("pass",)},
    "window_of_pieces": {LESS: ("1 < len(found)",), IMPLIED: ("0 <= len(found)",)},
}


def harmless(function: str, after: str) -> str:
    """Why a change of a function changes no answer; nothing of one that must be noticed."""
    for reason, texts in REASONS.get(function, {}).items():
        if any(text in after for text in texts):
            return reason
    return ""
