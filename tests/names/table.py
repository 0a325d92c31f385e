"""How the public functions are called that no operation's class describes: arguments, options.

``SILENT`` says why a name gives no array to look at. Nothing is said here of what is right.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dlvm import nn

from .forms import counted, drawn

# ruff: noqa: RUF024  (names share a list of calls, which nobody changes)

X, Y, W = drawn(3, 4), drawn(3, 4), drawn(4, 3)
V, U = drawn(5), drawn(5)
T = drawn(2, 3, 4)
SQUARE = drawn(3, 3)
LABELS = counted(3, below=4)
MASK = counted(3, 4, below=2) > 0
RISING = np.sort(drawn(6))
METHODS = (
    *("linear", "lower", "higher", "midpoint", "nearest", "inverted_cdf", "hazen", "weibull"),
    *("averaged_inverted_cdf", "closest_observation", "interpolated_inverted_cdf"),
    *("median_unbiased", "normal_unbiased"),
)
KEY = np.array([7, 11], np.uint32)
Entry = tuple[tuple[Any, ...], dict[str, Any]]


def of(*args: Any, **options: Any) -> Entry:
    """One call."""
    return args, options


ONE = [of(X)]
TWO = [of(X, Y), of(X, V[:4])]
AXES = [of(X), of(X, axis=1), of(X, axis=-2, keepdims=True), of(T, axis=(0, -1))]
STACKED = [of([X, Y]), of([V, U, V])]
TABLE: dict[str, list[Entry]] = {
    # of elements
    "where": [of(MASK, X, Y), of(MASK, X, V[:4])],
    "select": [of([MASK, X > 0], [X, Y], 0.5)],
    "clip": [of(X, -0.5, 0.75), of(X, None, 1.0), of(X, Y - 1, Y + 1)],
    **dict.fromkeys(("fmax", "fmin", "heaviside", "divmod"), TWO),
    **dict.fromkeys(("less", "less_equal", "equal", "greater", "greater_equal"), TWO),
    **dict.fromkeys(("not_equal", "isclose"), TWO),
    **dict.fromkeys(("logical_and", "logical_or", "logical_xor"), [of(X > 0, MASK), of(X, Y)]),
    "logical_not": [of(X), of(MASK)],
    **dict.fromkeys(("allclose", "array_equal"), [of(X, Y), of(X, X)]),
    "isin": [of(X, V), of(counted(3, 4, below=5), np.arange(3))],
    **dict.fromkeys(("square", "reciprocal", "degrees", "radians", "nan_to_num", "fabs"), ONE),
    **dict.fromkeys(("positive", "real", "imag", "conj", "sinc", "copy"), ONE),
    **dict.fromkeys(("real_if_close", "iscomplex", "isreal"), ONE),
    "angle": [of(X), of(X, deg=True)],
    **dict.fromkeys(("isposinf", "isneginf"), ONE),
    "round": [of(X), of(X, 1), of(X * 100, -1)],
    **dict.fromkeys(
        ("pow", "power"), [of(np.abs(X), Y), of(X, 3), of(X, 2), of(np.abs(X), 0.5), of(X, -1)]
    ),
    "polygamma": [of(1, np.abs(X)), of(0, np.abs(X)), of(2, np.abs(X))],
    "stop_gradient": ONE,
    "tap": [of(X, "seen")],
    # over axes
    **dict.fromkeys(("any", "all"), [*AXES, of(X > 0, axis=0, where=MASK)]),
    "count_nonzero": [of(X), of(X, axis=1), of(X, axis=0, keepdims=True)],
    "ptp": AXES,
    "mean": [*AXES, of(X, axis=0, where=MASK)],
    **dict.fromkeys(("var", "std"), [*AXES, of(X, axis=1, ddof=1), of(X, axis=1, correction=1)]),
    **dict.fromkeys(("nansum", "nanprod", "nanmean", "nanvar", "nanstd"), AXES),
    **dict.fromkeys(("nanmax", "nanmin"), AXES),
    **dict.fromkeys(("nanargmax", "nanargmin"), [of(X), of(X, axis=1)]),
    **dict.fromkeys(("argmax", "argmin"), [of(X), of(X, axis=0), of(X, axis=-1, keepdims=True)]),
    "average": [
        of(X),
        of(X, axis=1),
        of(X, axis=0, weights=np.abs(V[:3])),
        of(X, weights=np.abs(Y)),
    ],
    "cov": [of(X), of(X, Y), of(X, rowvar=False), of(V, bias=True)],
    "corrcoef": [of(X), of(V, U)],
    "median": [*AXES, of(V), of(V[:4])],
    "quantile": [
        of(X, 0.3),
        of(X, 0.3, axis=1),
        of(X, np.array([0.1, 0.6]), axis=0),
        *(of(V, 0.55, method=m) for m in METHODS),
        *(of(X, np.array([0.05, 0.3, 0.6, 0.97]), axis=1, method=m) for m in METHODS[1:]),
    ],
    "percentile": [of(X, 30), of(X, np.array([10.0, 60.0]), axis=1, keepdims=True)],
    **dict.fromkeys(("cumsum", "cumprod"), [of(X), of(X, axis=1), of(V)]),
    "linear_recurrence": [
        of(V, U),
        of(X, Y, axis=0),
        of(X, Y, reverse=True),
        of(X, Y, exclusive=True),
    ],
    "diff": [of(V), of(X, n=2), of(X, axis=0), of(X, prepend=X[:, :1], append=X[:, :2])],
    # in order
    **dict.fromkeys(
        ("sort", "argsort"), [of(X), of(X, axis=0), of(X, axis=None), of(X, descending=True)]
    ),
    **dict.fromkeys(("partition", "argpartition"), [of(X, 2), of(X, 1, axis=0)]),
    "top_k": [of(X, 2), of(X, 2, axis=0)],
    "searchsorted": [of(RISING, X), of(RISING, X, side="right")],
    "digitize": [
        *(of(X, RISING), of(X, RISING, right=True)),
        *(of(X, RISING[::-1]), of(X, RISING[::-1], right=True)),
    ],
    # curves
    "interp": [of(X, RISING, drawn(6)), of(X, RISING, drawn(6), left=0.5, right=-0.5)],
    "trapezoid": [of(V), of(X, axis=0, dx=0.5), of(X, np.sort(V[:4]))],
    "gradient": [of(V), of(X, 0.5), of(X, axis=0)],
    "convolve": [of(V, U[:3]), of(V, U[:3], mode="same"), of(U[:3], V, mode="valid")],
    "correlate": [of(V, U[:3]), of(V, U[:3], mode="same"), of(U[:3], V, mode="full")],
    "polyval": [of(V[:4], X)],
    "polyadd": [of(V, U[:3]), of(U[:3], V)],
    "polysub": [of(V, U[:3]), of(U[:3], V)],
    "polymul": [of(V, U[:3])],
    "polyder": [of(V), of(V, 2)],
    "polyint": [of(V), of(V, 2)],
    "vander": [of(V), of(V, 3), of(V, 3, increasing=True)],
    "ediff1d": [of(V), of(X)],
    "histogram": [of(X, 4, (-2.0, 2.0)), of(X, RISING)],
    "bincount": [of(LABELS, minlength=4, length=4), of(LABELS, V[:3], minlength=4, length=4)],
    # products
    "matmul": [of(X, W), of(V, U), of(T, W), of(T, V[:4]), of(V[:3], X)],
    "dot": [of(V, U), of(X, W), of(T, W), of(X, V[:4])],
    "inner": [of(V, U), of(X, Y)],
    **dict.fromkeys(("outer", "vdot"), [of(V, U)]),
    "kron": [of(SQUARE, X[:2, :2]), of(V, U)],
    "tensordot": [of(X, W, 1), of(X, Y), of(T, W, ((2, 1), (0, 1)))],
    "vecdot": [of(X, Y), of(X, Y, axis=0)],
    "matvec": [of(T, V[:4]), of(X, V[:4])],
    "vecmat": [of(V[:3], X), of(V[:3], T)],
    "einsum": [
        of("ij,jk->ik", X, W),
        of("ij,ij", X, Y),
        of("ii->i", SQUARE),
        of("ij,jk,kl->il", X, W, X),
        of("ij->ji", X),
        of("ij,j->i", X, V[:4]),
    ],
    "cross": [
        of(SQUARE, drawn(3, 3)),
        of(V[:3], drawn(2, 3)),
        of(X, Y.T[:, :3], 0, 1, 0),
        of(X, Y, axis=0),
    ],
    "trace": [of(SQUARE), of(X, 1), of(T, 0, 1, 2)],
    # shapes
    "reshape": [of(X, (4, 3)), of(X, (2, -1))],
    **dict.fromkeys(("ravel", "flatten", "matrix_transpose", "fliplr", "flipud"), ONE),
    "transpose": [of(X), of(T)],
    "permute_dims": [of(T, (2, 0, 1))],
    "moveaxis": [of(T, 0, -1)],
    "swapaxes": [of(T, 0, -1)],
    "expand_dims": [of(X, 1), of(X, (0, -1))],
    "squeeze": [of(X[:, :1]), of(X[:, :1], 1)],
    "broadcast_to": [of(V[:4], (3, 4)), of(X, (2, 3, 4))],
    "broadcast_arrays": [of(V[:4], X)],
    **dict.fromkeys(("atleast_1d", "atleast_2d", "atleast_3d"), [of(X), of(V), of(V, X)]),
    "flip": [of(X), of(X, 0), of(X, (0, -1))],
    **dict.fromkeys(("fftshift", "ifftshift"), [of(X), of(V), of(T, (0, -1))]),
    "rollaxis": [of(T, 2), of(T, 0, 3), of(T, -1, -2)],
    "rot90": [of(X), of(X, 2), of(T, 1, (0, 2))],
    "roll": [of(X, 2), of(X, (1, -1), (0, 1)), of(X, -1, -1)],
    "repeat": [of(X, 2), of(X, 2, 1)],
    "tile": [of(X, 2), of(V, (2, 3))],
    "pad": [
        of(V, 2),
        of(X, ((1, 0), (2, 1))),
        of(V, 2, mode="edge"),
        of(V, 2, mode="reflect"),
        of(V, 2, mode="symmetric"),
        of(V, 2, mode="wrap"),
    ],
    **dict.fromkeys(("concat", "hstack"), STACKED),
    "stack": [*STACKED, of([X, Y], -1)],
    **dict.fromkeys(("vstack", "dstack", "column_stack"), STACKED),
    "block": [of([[X, Y], [Y, X]])],
    "append": [of(V, U), of(X, Y, 0)],
    "delete": [of(V, 1), of(X, [0, 2], 0)],
    "split": [of(X, 3), of(V, [1, 3])],
    "array_split": [of(V, 2), of(X, 3, 1)],
    "hsplit": [of(X, 2)],
    "vsplit": [of(X, 3)],
    "unstack": [of(X), of(X, -1)],
    "dsplit": [of(T, 2), of(T, [1, 3])],
    "meshgrid": [of(V, U), of(V, U, indexing="ij")],
    "diag": [of(V), of(X), of(V, 1), of(X, -1)],
    "diagonal": [of(X), of(X, 1), of(T, 0, 1, 2)],
    **dict.fromkeys(("tril", "triu"), [of(X), of(X, 1), of(T, -1)]),
    "diagflat": [of(V), of(X, 1)],
    "insert": [of(V, 1, U[:1]), of(X, 1, V[:4], 0)],
    "sliding_window_view": [of(V, 3), of(X, 2, 1), of(X, (2, 2), (1, 0))],
    # places
    "ravel_multi_index": [of((LABELS, LABELS), (4, 4))],
    "unravel_index": [of(LABELS, (2, 3))],
    "take": [
        of(X, LABELS),
        of(X, LABELS, 1),
        of(V, np.array([-9, -2, 0, 3, 9]), mode="clip"),
        of(V, np.array([-9, 9]), mode="wrap"),
    ],
    "take_along_axis": [of(X, counted(3, 2, below=4), 1), of(X, counted(2, 4, below=3), 0)],
    # made of nothing, or of a type
    "arange": [of(5), of(1, 7, 2), of(0.0, 2.0, 0.5)],
    "linspace": [of(0.0, 2.0, 5), of(V, U, 3), of(0.0, 1.0, 4, endpoint=False)],
    "geomspace": [of(1.0, 8.0, 4)],
    "logspace": [of(0.0, 2.0, 5)],
    **dict.fromkeys(("zeros", "ones"), [of((2, 3))]),
    "full": [of((2, 3), 1.5)],
    **dict.fromkeys(("zeros_like", "ones_like"), ONE),
    "full_like": [of(X, 2)],
    **dict.fromkeys(("eye", "tri"), [of(3), of(3, 4, 1)]),
    "identity": [of(3)],
    "asarray": ONE,
    "from_dlpack": ONE,
    "astype": [of(X, np.float64)],
    "bitcast": [of(X, np.int64)],
    # networks
    **{
        f"nn.{n}": ONE
        for n in [
            "relu",
            "relu6",
            "leaky_relu",
            "elu",
            "celu",
            "mish",
            "selu",
            "sigmoid",
            "log_sigmoid",
            "softplus",
            "silu",
            "swish",
            "softsign",
            "hard_tanh",
            "hard_sigmoid",
            "hard_silu",
        ]
    },
    "nn.prelu": [of(X, V[:4]), of(X, V[:1])],
    "nn.glu": [of(X), of(T, 0)],
    "nn.conv": [
        of(drawn(2, 5, 2), drawn(3, 2, 2)),
        of(drawn(1, 4, 5, 2), drawn(2, 2, 1, 2), stride=2, padding=1, groups=2),
        of(drawn(1, 2, 5), drawn(2, 2, 2), dilation=2, layout="channels_first"),
    ],
    "nn.conv_transpose": [
        of(drawn(2, 3, 2), drawn(3, 2, 2), stride=2, padding=1, transpose_kernel=True),
    ],
    "nn.max_pool": [of(drawn(2, 5, 2), 2), of(drawn(1, 4, 5, 2), 3, 2, ((1, 1), (0, 1)))],
    "nn.avg_pool": [of(drawn(2, 5, 2), 2), of(drawn(1, 4, 4, 2), 3, 2, "SAME", False)],
    **{
        f"nn.adaptive_{n}_pool": [of(drawn(2, 5, 2), 3), of(drawn(1, 4, 5, 2), (2, 3))]
        for n in ("avg", "max")
    },
    "nn.interpolate": [of(drawn(2, 5, 2), 3), of(drawn(1, 3, 2, 2), scale_factor=2)],
    "nn.gelu": [of(X), of(X, approximate=False)],
    **{f"nn.{n}": [of(X), of(X, 0), of(V)] for n in ("softmax", "log_softmax")},
    "nn.cross_entropy": [of(X, LABELS), of(X, counted(4, below=3), 0)],
    "nn.one_hot": [of(LABELS, 4), of(LABELS, 4, axis=0)],
    # linear algebra
    "linalg.matmul": [of(X, W)],
    "linalg.tensordot": [of(X, Y)],
    "linalg.vecdot": [of(X, Y)],
    "linalg.outer": [of(V, U)],
    "linalg.matrix_transpose": [of(T)],
    "linalg.diagonal": [of(T), of(T, offset=1)],
    "linalg.trace": [of(T)],
    "linalg.multi_dot": [of([X, W, X]), of([V[:3], X, V[:4]])],
    "linalg.matrix_power": [of(SQUARE, 3), of(SQUARE, 0), of(SQUARE, -2)],
    "linalg.cross": [of(SQUARE, drawn(3, 3)), of(V[:3], U[:3])],
    "linalg.vector_norm": [*AXES, *(of(X, axis=1, ord=p) for p in (0, 1, 3, 2.5, np.inf, -np.inf))],
    "linalg.matrix_norm": [
        *(of(T, ord=p) for p in ("fro", 1, -1, np.inf, -np.inf)),
        of(X, keepdims=True),
    ],
    "linalg.norm": [
        of(X),
        of(X, axis=1),
        of(X, 1),
        of(V, 3),
        of(X, np.inf),
        of(T, 1, axis=(0, 2), keepdims=True),
    ],
}
"""By name: calls, whose NumPy arrays are operands."""

SILENT = {
    "at": "it gives an object that reads and writes at a place",
    "assert_": "it has no result",
    "print": "it has no result",
    "put_along_axis": "it writes into its argument and has no result",
    "can_cast": "it speaks of types alone",
    "finfo": "it speaks of types alone",
    "iinfo": "it speaks of types alone",
    "isdtype": "it speaks of types alone",
    "promote_types": "it speaks of types alone",
    "result_type": "it speaks of types alone",
    "ndim": "it speaks of shapes alone",
    "shape": "it speaks of shapes alone",
    "broadcast_shapes": "it speaks of shapes alone",
    "iscomplexobj": "it speaks of types alone",
    "isrealobj": "it speaks of types alone",
    "size": "it speaks of shapes alone",
    "nn.multi_head_attention": "its parameters are a dict, in which no operand is found",
    "nn.summary": "it gives a table of text",
    "nn.batch_norm": "no derivative flows through the state that it gives",
    **{
        f"nn.{n}": "it makes a tree of parameters"
        for n in nn.__all__
        if isinstance(getattr(nn, n), type)
    },
    "empty": "its elements are whatever is there",
    "empty_like": "its elements are whatever is there",
    **{
        n: "the shape of its result depends on elements, so it is refused"
        for n in ("unique", "unique_all", "unique_counts", "unique_inverse", "unique_values")
    },
}
"""Names that give no array that could be looked at, and why."""

RANDOM = {
    "random_bits": [of(KEY, (3,))],
    "random.key": [of(5)],
    "random.split": [of(KEY), of(KEY, 3)],
    "random.fold_in": [of(KEY, 3)],
    "random.bits": [of(KEY, (3,))],
    "random.uniform": [of(KEY, (3,), "f64", np.array(-1.0), np.array(2.0))],
    **{
        f"random.{n}": [of(KEY, (3,)), of(KEY, (2, 2), "f32")]
        for n in ("normal", "exponential", "gumbel", "laplace", "cauchy")
    },
    "random.rademacher": [of(KEY, (3,))],
    "random.truncated_normal": [of(KEY, np.array([-1.0, 0.5]), np.array(2.0), None, "f64")],
    "random.multivariate_normal": [of(KEY, V[:2], np.array([[2.0, 0.5], [0.5, 1.0]]), None, "f64")],
    "random.orthogonal": [of(KEY, 3, (), "f64", 2)],
    "random.choice": [of(KEY, V, (3,)), of(KEY, 5, (2,), False)],
    **{f"random.{n}": [of(KEY, np.array([0.5, 2.0]), None, "f64")] for n in ("gamma", "loggamma")},
    "random.beta": [of(KEY, np.array(0.5), np.array(2.0), None, "f64")],
    "random.dirichlet": [of(KEY, np.array([0.5, 2.0]), None, "f64")],
    "random.t": [of(KEY, np.array(3.0), (), "f64")],
    "random.poisson": [of(KEY, np.array([0.5, 20.0]))],
    "random.bernoulli": [of(KEY, np.array([0.2, 0.7]))],
    "random.randint": [of(KEY, (3,), 0, 9)],
    "random.categorical": [of(KEY, X)],
    "random.permutation": [of(KEY, 5), of(KEY, V)],
}
"""Functions whose values no other library says; ``tests/test_random.py`` holds them."""
TABLE |= RANDOM

ROWS, FACTORS, WEIGHTS = drawn(2, 3, 4), drawn(4, low=0.5), drawn(4, 2)
HEADS = drawn(1, 3, 2, 4)
KERNELS = [drawn(4, 6), drawn(2, 6), drawn(6), drawn(6)]
GATES = [drawn(4, 8), drawn(2, 8), drawn(8), drawn(8)]
LAYERS = {
    "nn.dense": [of(X, WEIGHTS), of(ROWS, WEIGHTS, V[:2])],
    "nn.embedding": [of(X, LABELS)],
    "nn.embedding_bag": [of(X, LABELS), of(X, counted(2, 3, below=3), "max")],
    "nn.layer_norm": [of(ROWS, FACTORS, V[:4]), of(ROWS, axis=(1, 2))],
    "nn.rms_norm": [of(ROWS, FACTORS), of(ROWS, axis=1)],
    "nn.group_norm": [of(ROWS, 2, FACTORS, V[:4]), of(ROWS, 3, axis=1)],
    "nn.dropout": [of(KEY, X, 0.3), of(KEY, X, 0.3, False)],
    "nn.dot_product_attention": [of(HEADS, HEADS, HEADS), of(HEADS, HEADS, HEADS, is_causal=True)],
    "nn.rotary": [of(HEADS, np.arange(3))],
    "nn.rnn_cell": [of(X, drawn(3, 2), KERNELS[0][:, :2], KERNELS[1][:, :2])],
    "nn.gru_cell": [of(X, drawn(3, 2), *KERNELS)],
    "nn.lstm_cell": [of(X, (drawn(3, 2), drawn(3, 2)), *GATES)],
    "nn.rnn": [of(ROWS, KERNELS[0][:, :2], KERNELS[1][:, :2])],
    "nn.gru": [of(ROWS, *KERNELS)],
    "nn.lstm": [of(ROWS, *GATES), of(ROWS, *GATES, reverse=True)],
    **{f"nn.{n}": [of(X, Y)] for n in ("mse_loss", "l1_loss", "huber_loss")},
    **{
        f"nn.{n}": [of(X, Y)]
        for n in ("smooth_l1_loss", "log_cosh", "hinge_loss", "cosine_similarity")
    },
    **{f"nn.{n}": [of(X, np.abs(Y) + 1)] for n in ("cosine_distance", "poisson_nll_loss")},
    "nn.gaussian_nll_loss": [of(X, Y, np.abs(Y) + 1)],
    "nn.sigmoid_focal_loss": [of(X, np.abs(Y) / 2)],
    "nn.dice_loss": [of(ROWS, np.abs(drawn(2, 3, 4)) / 2)],
    "nn.ctc_loss": [of(ROWS, np.zeros((2, 3)), counted(2, 2, below=3), np.zeros((2, 2)))],
    "nn.kl_div": [of(X, np.abs(Y))],
    "nn.binary_cross_entropy_with_logits": [of(X, np.abs(Y) / 2)],
}
"""Layers, whose values PyTorch and JAX say; ``tests/nn`` holds them."""
TABLE |= LAYERS

REGULAR = drawn(3, 3) + 4 * np.eye(3)
SMALL = REGULAR[:2, :2]
DEFINITE = REGULAR @ REGULAR.T
MANY = np.stack([REGULAR, REGULAR.T * 0.5])
FACTORED = {
    "linalg.solve": [of(REGULAR, V[:3]), of(MANY, W[:3]), of(REGULAR, drawn(2, 3, 2))],
    "linalg.inv": [of(REGULAR), of(MANY)],
    "linalg.det": [of(REGULAR), of(MANY)],
    "linalg.slogdet": [of(REGULAR), of(MANY)],
    "linalg.cholesky": [of(DEFINITE), of(DEFINITE, upper=True)],
    "linalg.cho_factor": [of(DEFINITE), of(DEFINITE, True)],
    "linalg.cho_solve": [of((REGULAR, True), V[:3]), of((REGULAR, False), W[:3])],
    "linalg.solve_triangular": [
        of(REGULAR, V[:3]),
        of(MANY, W[:3], 1, True),
        of(REGULAR, W[:3], unit_diagonal=True),
    ],
    "linalg.qr": [
        of(REGULAR[:, :2]),
        of(REGULAR[:2]),
        of(REGULAR, "r"),
        of(MANY[..., :2], pivoting=True),
    ],
    "linalg.lstsq": [of(REGULAR[:, :2], W[:3]), of(REGULAR[:2], V[:2])],
    "linalg.eigh": [of(DEFINITE), of(REGULAR, "U"), of(DEFINITE, accuracy="high")],
    "linalg.eigvalsh": [of(DEFINITE), of(REGULAR, "L")],
    "linalg.eigvals_pairs": [of(REGULAR), of(MANY)],
    "linalg.eig_pairs": [of(np.array([[1.0, 4, 0], [-2, 1, 1], [0, 0.5, 3]]))],
    "linalg.schur": [of(REGULAR), of(MANY)],
    "linalg.solve_sylvester": [of(SMALL, REGULAR[2:, 2:], W[:2, :1])],
    "linalg.solve_continuous_lyapunov": [of(SMALL, W[:2, :2])],
    "linalg.solve_discrete_lyapunov": [of(SMALL, W[:2, :2])],
    "linalg.svd": [of(REGULAR[:, :2], False), of(MANY)],
    "linalg.svdvals": [of(REGULAR[:, :2]), of(MANY, accuracy="high")],
    "linalg.pinv": [of(REGULAR[:, :2]), of(MANY, rtol=1e-9)],
    "linalg.matrix_rank": [of(REGULAR[:, :2]), of(MANY, 0.1)],
    "linalg.cond": [of(REGULAR), of(MANY, 1)],
    "linalg.spectral": [of(lambda w: w * w * w, x) for x in (DEFINITE, MANY)],
    "linalg.expm": [of(REGULAR * 0.3), of(MANY * 0.3)],
}
"""Factorisations, which ``tests/linalg`` holds by residuals: elements of singular ones are free."""
TABLE |= FACTORED

IN_ORDER = {"searchsorted": (0,), "digitize": (1,), "interp": (1,)}
"""Which operands must be in order."""

FINITE = {
    **{n: "NumPy's operator takes a square root, which is NaN at -inf" for n in ("pow", "power")},
    "linalg.matrix_power": "the order in which operands are multiplied says what infinities give",
    "einsum": "the order in which three operands are multiplied says what infinities give",
    "linalg.multi_dot": "the order in which operands are multiplied says what infinities give",
    **{
        f"linalg.{n}": "LAPACK stops at a pivot of 0, and gives a NaN a sign: what an infinity or "
        "a NaN comes to is up to the order of the pivots"
        for n in ("det", "slogdet")
    },
    "nn.conv_transpose": "infinite weights meet the zeros between elements, which is NaN",
}
"""Functions whose values at infinities are not determined, and why."""

NO_SLOPE = {
    "stop_gradient": "it is there to stop derivatives",
    "nextafter": "it moves in steps",
    "bitcast": "it moves in steps",
    "linalg.schur": "its factors are no function of the matrix",
    "linalg.cho_factor": "it gives the matrix that cholesky gives, and a bool",
    "from_dlpack": "it takes arrays that are not staged",
}
"""Functions that have no derivative to compare, and why."""

BESIDE_ONE = {
    **{n: "the derivative is y (1 - y), and y is rounded" for n in ("sigmoid", "nn.sigmoid")},
    "lgamma": "it is 0 at 1 and 2, beside which Python's own has an error of the size of 1",
    "tanh": "the derivative is 1 - y y, and y is rounded",
    "nn.softmax": "the derivative is y (dy - sum(y dy)), and the sum is rounded",
    "nn.dot_product_attention": "that of a softmax is y (dy - sum(y dy)), and the sum is rounded",
    **{
        f"nn.{n}{w}": "derivatives of gates are y (1 - y) and 1 - y y, and y is rounded"
        for n in ("rnn", "gru", "lstm")
        for w in ("", "_cell")
    },
    "nn.dice_loss": "probabilities are those of a softmax or of a sigmoid, which are rounded",
    "nn.log_softmax": "where one class is all but sure, it is the logarithm of a sum near 1",
    "nn.cross_entropy": "where one class is all but sure, it is the logarithm of a sum near 1",
}
"""Functions with an error, of theirs or their derivatives, small beside 1 alone, and why."""

SLOPES_BESIDE = {
    **dict.fromkeys(("logsumexp", "cumulative_logsumexp"), 1),
    **dict.fromkeys((f"nn.{n}" for n in ("elu", "selu", "silu", "swish", "softplus")), 1),
    **dict.fromkeys(("nn.log_sigmoid", "nn.glu"), 1),
    **{f"nn.{n}{w}": 8 for n in ("rnn", "gru", "lstm") for w in ("", "_cell")},
    "nn.dot_product_attention": 4,
    "nn.gelu": 40,
}
"""Beside which number alone the error of the second derivative of a function is small.

The class of an element-wise operation says so itself (``saturates``). The gradient of the first is
a softmax, whose own gradient is y (1 - y) with y rounded, and so are those of what saturates. In
that of ``gelu`` 1 - y y is multiplied by x and the square of a slope of 3, in those of recurrent
layers by weights and hidden numbers.
"""

CONSTANT = {"ceil", "floor", "floor_divide", "trunc", "rint", "round", "sign", "heaviside"}
CONSTANT |= {"angle"}
CONSTANT |= {"linalg.vector_norm(float64[3, 4], axis=1, ord=0)"}
CONSTANT |= {"histogram(float64[3, 4], 4, [-2.0, 2.0])"}
CONSTANT |= {"zeros_like", "ones_like", "full_like", "imag", "random.categorical", "random.poisson"}
"""Functions that are constant between jumps: their derivative is exactly 0."""

SHAPED = {"polymul": "NumPy drops leading zeros, which are not known while tracing"}
"""Functions whose shape depends on elements in NumPy, and why it does not here."""

DIFFERS = {
    "bincount(int64[0], float64[0], minlength=4, length=4)": "NumPy counts nothing in integers",
    "bincount(int64[0], float32[0], minlength=4, length=4)": "NumPy counts nothing in integers",
    "bincount(int64[0], float16[0], minlength=4, length=4)": "NumPy counts nothing in integers",
    "bincount(int64[0], bfloat16[0], minlength=4, length=4)": "NumPy counts nothing in integers",
    "conj(bool[3, 4])": "NumPy makes i8 of truths, and the conjugate is the operand itself",
    "reciprocal(int32[3, 4])": "what 1 // 0 is NumPy leaves open; ours is 0",
    "reciprocal(int8[3, 4])": "what 1 // 0 is NumPy leaves open; ours is 0",
    **{
        f"quantile({t}[3, 4], {t}[2], axis=0)": "NumPy gives whole numbers between whole shares"
        for t in ("int32", "int8", "bool")
    },
    "einsum('ii->i', float64[0, 3])": "NumPy takes an axis of no elements for a diagonal",
}
"""Calls whose values or types are another decision than NumPy's, and why."""
