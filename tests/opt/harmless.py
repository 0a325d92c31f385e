"""Mistakes in laws that change no answer, where no form shows it, and why.

A reason stands for several mistakes of one function. Some make a law apply to less than it could:
what is computed stays right, and ``test_pairs`` and ``test_chains`` hold the cost.
"""

from __future__ import annotations

LESS = "applies to less, and what it refuses stays as it is"
COST = "decides only which of two equal forms is computed"
MORE = "applies to more, where the equation holds as well"
IMPLIED = "the condition follows from the others, or from the types"
SAME = "both sides are one value"
NEVER = "steps are never 0"
AGAIN = "proposes what is there already, which saves nothing and is not taken"

REASONS: dict[str, dict[str, tuple[str, ...]]] = {
    "products_of_parts": {
        MORE: ("if (whole := alike.batch(op.xs)) is None or", "alike.batch(op.xs)) is None:")
    },
    "_add": {COST: ("if _open(product, value", "product.opened <= MOST")},
    "Alike.__init__": {MORE: ("self.products = 1",), LESS: ("self._deep = 1",)},
    "_along": {IMPLIED: ("if not isinstance(value, Broadcast):",)},
    "bitcast_to_itself": {MORE: ("return op.x if op.dtype_to == op.x.dtype else None",)},
    "_built": {COST: ("fewest = min(",)},
    "_divisor": {SAME: ("if found is None or float(found) in (0, 1):", "in (0, 2):")},
    "_factors": {COST: ("case Mul(y, x):",), LESS: ("len(factors) >= MOST",)},
    "_is_centred": {
        COST: (
            "if summands and all(",
            "_is_centred(v, along, deep + 1)",
            "_is_centred(v, along, deep - 2)",
        )
    },
    "_is_symmetric": {LESS: ("Broadcast(Part(LU(a), 1)):",)},
    "_is_turned_vector": {IMPLIED: ("both = before[:-2] == after[:-2]",)},
    "kronecker_times": {IMPLIED: ("x.shape[1])",)},
    "_PassedFirst._flipped": {COST: ("case Broadcast(w, _,", "case Permute(Broadcast(w, _,")},
    "_open": {COST: ("product.opened += 2",)},
    "_of_operands": {IMPLIED: ("if not isinstance(op, Elementwise) or not op.shape_free:",)},
    "opaque": {COST: ("return len(factors) == 2", "return len(factors) == 1", "kind != 'dense'")},
    "_outer_of": {IMPLIED: ("if is_transpose(x):",)},
    "_placed": {
        COST: (
            "while isinstance(value, Update) and len(placed) <= PIECES:",
            "while isinstance(value, Update):",
        )
    },
    "_solving": {COST: ("return Solve(like.a, like.packed, like.order, b, turned)",)},
    "_special": {COST: ("case [left, right]:",)},
    "_take_apart": {
        COST: (
            "if 1 not in (rows, rows)",
            "if 1 not in (columns, columns)",
            "axes) if len(axes) < 2",
            "case Assume(x) if not isinstance(x, Assume):",
        )
    },
    "_take_apart_scaling": {LESS: ("if (vector :=",)},
    "_terms": {
        COST: (
            "if len(together) == len(every):",
            "if len(every) < 2 and len(together)",
            "if len(every) < 2:",
            "len(every) <= MOST:",
        )
    },
    "_turned": {IMPLIED: ("return (inner, swapped)",)},
    "_window_of_identity": {IMPLIED: ("Iota(eye.shape[1])",)},
    "_whole": {NEVER: ("step >= 0",)},
    "apart": {COST: ("_add(product, value, True, opened)",)},
    "diagonal_of_formula": {IMPLIED: ("return _of_operands(op.x, Diagonal)",)},
    "diagonal_of_reshaped_batch": {
        IMPLIED: ("x.type.rank >= 1", "case Reshape(x) if x.shape[-2:] == op.x.shape[-2:]:"),
        LESS: ("x.shape[-3:] == op.x.shape[-2:]",),
    },
    "diagonal_of_triangular_product": {SAME: ("case Matmul(y, x)",)},
    "divide_by_constant": {COST: ("return op.x * (splat(1, op.type) / op.y)",)},
    "divide_by_power_of_two": {
        IMPLIED: ("type(2 / divisor)", "return op.x * splat(1 / divisor, op.type)")
    },
    "matrix_of_rows": {
        IMPLIED: ("if x.shape[-1:] == value.shape[-1:]:", "x.shape[-1:] == value.shape[1:]:")
    },
    "one_hot_of": {SAME: ("case Cast(Equal(b, a)):",)},
    "multiplied": {COST: ("(*x.shape[:-1], y.shape[-2])", "(*x.shape[:-1], y.shape[1])")},
    "outer_of": {SAME: ("case Mul(y, x):",)},
    "reordered": {AGAIN: ("as_it_is", "pass")},
    "product_over_nothing": {LESS: ("op.x.shape[1] == 0",)},
    "rows_of_formula": {IMPLIED: ("if op.mode == 'drop' or",)},
    "rows_of_identity_times": {
        IMPLIED: ("if structure.is_identity(eye) and op.x.type.rank == 2:",),
        COST: ("found.origin = op.y.origin",),
    },
    "scaled": {IMPLIED: ("case Mul(x, y):",)},
    "select_same": {SAME: ("return op.y if op.x is op.y",)},
    "slice_of_everything": {NEVER: ("step >= 0",)},
    "solve_of_symmetric": {SAME: ("return _solving(op, op.b, True)",)},
    "sum_of_products": {IMPLIED: ("case Matmul(Permute(x, perm), y):",)},
    "sum_twice": {SAME: ("(*(left[a] for a in outer), *inner)",)},
    "times": {COST: ("if not x.kind == 'dense' != y.kind:",)},
    "update_of_everything": {NEVER: ("step >= 0",)},
    "window_of_formula": {IMPLIED: ("pass",)},
}


def harmless(function: str, after: str) -> str:
    """Why a change of a function changes no answer; nothing of one that must be noticed."""
    for reason, texts in REASONS.get(function, {}).items():
        if any(text in after for text in texts):
            return reason
    return ""
