"""The one table of names and patterns from which error messages take their remedies.

``OURS`` maps names of other libraries to names of dlvm, ``ADVICE`` says what to do about names
without a counterpart, ``KEYWORDS`` maps names of options, and ``PATTERNS`` has code that can't be
staged, each beside the code to write on staged values.
"""

from __future__ import annotations

from dataclasses import dataclass

LOSSES = {
    "MSE": "mse_loss",
    "L1": "l1_loss",
    "Huber": "huber_loss",
    "SmoothL1": "smooth_l1_loss",
    "KLDiv": "kl_div",
    "CTC": "ctc_loss",
    "CrossEntropy": "cross_entropy",
    "BCEWithLogits": "binary_cross_entropy_with_logits",
    "GaussianNLL": "gaussian_nll_loss",
    "PoissonNLL": "poisson_nll_loss",
}
TITLED = (
    *("SGD", "Adam", "AdamW", "Adamax", "Adadelta", "Adafactor", "Adagrad", "RAdam", "RMSprop"),
    *("LBFGS", "Lion", "Muon"),
)
RATES = {
    "CosineAnnealing": "cosine_decay_schedule",
    "OneCycle": "cosine_onecycle_schedule",
    "Step": "exponential_decay",
    "Exponential": "exponential_decay",
    "Linear": "linear_schedule",
    "Sequential": "join_schedules",
}

OURS = {
    "concatenate": "concat",
    "amax": "max",
    "amin": "min",
    "invert": "bitwise_invert",
    "left_shift": "bitwise_left_shift",
    "right_shift": "bitwise_right_shift",
    "absolute": "abs",
    "fsum": "sum",
    "conjugate": "conj",
    "around": "round",
    "deg2rad": "radians",
    "rad2deg": "degrees",
    "fix": "trunc",
    "trapz": "trapezoid",
    "fft.fftshift": "fftshift",
    "fft.ifftshift": "ifftshift",
    "lib.stride_tricks.sliding_window_view": "sliding_window_view",
    **{f"arc{f}": f"a{f}" for f in ("sin", "cos", "tan", "tan2", "sinh", "cosh", "tanh")},
    **dict.fromkeys(("array", "asanyarray", "ascontiguousarray", "tensor"), "asarray"),
    **dict.fromkeys(("jit", "njit", "compile"), "function"),
    **dict.fromkeys(("jacfwd", "jacrev"), "jacobian"),
    **dict.fromkeys(("remat", "rematerialize"), "checkpoint"),
    **dict.fromkeys(("detach", "no_grad"), "stop_gradient"),
    **dict.fromkeys(("PRNGKey", "seed", "default_rng"), "random.key"),
    **dict.fromkeys(("randn", "standard_normal"), "random.normal"),
    **dict.fromkeys(("rand", "random_sample"), "random.uniform"),
    "multinomial": "random.categorical",
    **dict.fromkeys(("shuffle", "randperm"), "random.permutation"),
    "integers": "random.randint",
    "tree_map": "tree.map",
    "tree_leaves": "tree.leaves",
    "tree_flatten": "tree.flatten",
    "tree_unflatten": "tree.unflatten",
    "tree_reduce": "tree.reduce",
    "tree_structure": "tree.structure",
    **dict.fromkeys(("tree_map_with_path", "tree.tree_map_with_path"), "tree.map_with_path"),
    **dict.fromkeys(
        ("tree_leaves_with_path", "tree.tree_leaves_with_path"), "tree.leaves_with_path"
    ),
    "ravel_pytree": "tree.ravel",
    **dict.fromkeys(("tree_at", "tree.tree_at"), "tree.at"),
    **dict.fromkeys(("tree_equal", "tree.tree_equal"), "tree.equal"),
    "save_file": "save",
    "load_file": "load",
    "DataLoader": "batches",
    "cat": "concat",
    "unsqueeze": "expand_dims",
    "expit": "sigmoid",
    **dict.fromkeys(("gammaln", "loggamma"), "lgamma"),
    "psi": "digamma",
    "permute": "permute_dims",
    "view": "reshape",
    "clone": "copy",
    "topk": "top_k",
    "gather": "take_along_axis",
    "mul": "multiply",
    "div": "divide",
    "sub": "subtract",
    "neg": "negative",
    **dict.fromkeys(("mm", "bmm"), "matmul"),
    "custom_gradient": "custom_vjp",
    **{
        f"{name}{axes}d": f"nn.{name}"
        for name in ("Conv", "ConvTranspose", "MaxPool", "AvgPool", "AdaptiveMaxPool")
        for axes in (1, 2, 3)
    },
    **{f"AdaptiveAvgPool{axes}d": "nn.AdaptiveAvgPool" for axes in (1, 2, 3)},
    **{
        f"{name}Norm{axes}d": f"nn.{name}Norm"
        for name in ("Batch", "Instance")
        for axes in (1, 2, 3)
    },
    "Swish": "nn.SiLU",
    "Identity": "nn.Lambda",
    "MultiheadAttention": "nn.MultiHeadAttention",
    "multi_transform": "optim.partition",
    "MultiSteps": "optim.accumulate",
    "apply_updates": "optim.apply",
    **{f"{name}Loss": f"nn.{ours}" for name, ours in LOSSES.items()},
    **{f"{name}Cell": f"nn.{name.lower()}_cell" for name in ("RNN", "GRU", "LSTM")},
    "Embed": "nn.Embedding",
    "Dense": "nn.Linear",
    "MultiHeadDotProductAttention": "nn.MultiHeadAttention",
    **dict.fromkeys(("LoRALinear", "LoRAParam"), "nn.LoRA"),
    "weight_norm": "nn.WeightNorm",
    "spectral_norm": "nn.SpectralNorm",
    "tabulate": "nn.summary",
    "CosineSimilarity": "nn.cosine_similarity",
    "UpsamplingBilinear2d": "nn.Upsample",
    **{name: f"optim.{name.lower()}" for name in TITLED},
    **{f"{name}LR": f"optim.{ours}" for name, ours in RATES.items()},
    "GradScaler": "optim.loss_scale",
    "clip_grad_norm_": "optim.clip_by_global_norm",
    "clip_grad_value_": "optim.clip",
    "sigmoid_binary_cross_entropy": "nn.binary_cross_entropy_with_logits",
    "softmax_cross_entropy_with_integer_labels": "nn.cross_entropy",
    "squared_error": "nn.mse_loss",
    "value_and_grad_from_state": "value_and_grad",
    "ReduceLROnPlateau": "optim.reduce_on_plateau",
}
"""Names in NumPy, ``math`` and other libraries, and our names for the same functions."""

MASKED = (
    "how many there are is not known while tracing: keep the mask, and give it to what reduces: "
    "x.sum(where=mask)"
)
UNSIZED = {
    **dict.fromkeys(("where", "nonzero", "argwhere", "flatnonzero", "extract"), MASKED),
    **dict.fromkeys(("intersect1d", "setdiff1d"), "keep the mask: dlvm.isin(x, y)"),
}
"""Remedies for functions whose results have sizes that depend on the elements."""

GRADIENT = "dlvm.grad(f)(x) gives the gradient of a function"
PAIRS = (
    "write dlvm.linalg.{}_pairs(x), which gives real and imaginary parts, or {}h if x is symmetric"
)
CALLED = "call it outside of staged functions and pass the result"
COUNTED = "it needs shapes that depend on data: call it on the results of a call"
STACKED = "write a list of dlvm.nn.TransformerEncoderLayer, or of decoder layers, and a loop"
OTHER = "take dlvm.optim.adamw, or write an init and an update of your own"
ADVICE = {
    **{name: f"it needs shapes that depend on data; {why}" for name, why in UNSIZED.items()},
    **{name: PAIRS.format(name, name) for name in ("eig", "eigvals")},
    **dict.fromkeys(("apply_along_axis", "vectorize"), "write dlvm.vmap(f), with in_axes="),
    "fill_diagonal": "write a = dlvm.where(dlvm.eye(a.shape[0], dtype=bool), value, a)",
    "choose": "write dlvm.take_along_axis(dlvm.stack(choices), a[None], axis=0)[0]",
    "copyto": "write dst = dlvm.where(where, src, dst)",
    **dict.fromkeys(("put", "place", "putmask"), "write a = a.at[i].set(v), or dlvm.where"),
    "apply_over_axes": "call the function with axis=(0, 1)",
    "lexsort": "sort by one key after the other: dlvm.argsort is stable",
    "ix_": "index with rows[:, None] and columns[None, :]",
    **dict.fromkeys(("union1d", "setxor1d", "trim_zeros"), COUNTED),
    **dict.fromkeys(("gcd", "lcm", "bitwise_count", "packbits", "unpackbits"), CALLED),
    **dict.fromkeys(("frexp", "ldexp", "spacing"), "scale by dlvm.exp2 of a whole number"),
    "nancumsum": "write dlvm.cumsum(dlvm.where(dlvm.isnan(x), 0, x))",
    "nancumprod": "write dlvm.cumprod(dlvm.where(dlvm.isnan(x), 1, x))",
    **dict.fromkeys(("roots", "polyfit", "polydiv", "poly"), CALLED),
    **dict.fromkeys(("save", "savetxt", "savez", "savez_compressed"), "save the results of a call"),
    **dict.fromkeys(("array2string", "array_repr", "array_str"), "dlvm.print writes in each call"),
    **dict.fromkeys(("argnums", "static_argnums"), "options of ours are wrt= and static="),
    **dict.fromkeys(("device_put", "device", "cuda"), "arrays are NumPy's, so leave it out"),
    # layers and optimisers
    "nn.Module": "write a dataclass with a call, whose fields are parameters and layers",
    **dict.fromkeys(("nn.Parameter", "nn.Param"), "write the array as a field of a dataclass"),
    **dict.fromkeys(("ModuleList", "ModuleDict"), "write a list or a dict as a field"),
    "nn.remat": "write dlvm.nn.Recompute(layer), or dlvm.checkpoint(f) for a function",
    "nn.split": "a layer is a tree: dlvm.tree.partition(net, filter) gives a part and the rest",
    "nn.merge": "write dlvm.tree.combine(part, rest)",
    "Rngs": "write keys = dlvm.random.split(dlvm.random.key(0), count)",
    **dict.fromkeys(("TransformerEncoder", "TransformerDecoder", "Transformer"), STACKED),
    **dict.fromkeys(("BCELoss", "NLLLoss", "nll_loss"), "pass logits: their loss keeps digits"),
    "PixelShuffle": "reshape the channels, permute the axes and reshape again",
    **dict.fromkeys(("ZeroPad2d", "ReflectionPad2d"), "write dlvm.pad(x, widths, mode)"),
    **dict.fromkeys(("nadam", "NAdam"), "write dlvm.optim.adam(rate, nesterov=True)"),
    "nadamw": "write dlvm.optim.adamw(rate, nesterov=True)",
    "softmax_cross_entropy": "write dlvm.nn.cross_entropy(logits, labels)",
    "incremental_update": "write dlvm.tree.map(lambda x, y: x + step * (y - x), slow, params)",
    "lookahead": "keep slow weights beside the fast ones, and mix them every few steps",
    **dict.fromkeys(("rprop", "Rprop"), "take dlvm.optim.lbfgs for whole batches"),
    **dict.fromkeys(("sm3", "yogi", "fromage", "novograd", "schedule_free"), OTHER),
    "pmap": "dlvm.vmap(f) runs side by side; threads= of dlvm.function says on how many threads",
    "lax": "loops and branches are dlvm.scan, dlvm.fori_loop, dlvm.while_loop and dlvm.cond",
    "numpy": "call NumPy's functions, or those of dlvm: dlvm.sum(x)",
    "backward": GRADIENT,
    # attributes of arrays
    **dict.fromkeys(("x.grad", "x.backward", "x.requires_grad"), GRADIENT),
    "x.numpy": "return it: the results of a call are NumPy arrays",
    "x.cpu": "leave it out: arrays are NumPy's",
    "x.to": "write x.astype(dtype)",
    "x.float": "write x.astype(dlvm.float32)",
    "x.view": "write x.reshape(shape), or x.astype(dtype) for other elements",
    # methods of ufuncs
    "add.reduce": "write dlvm.sum(x, axis=0)",
    "multiply.reduce": "write dlvm.prod(x, axis=0)",
    "maximum.reduce": "write dlvm.max(x, axis=0)",
    "minimum.reduce": "write dlvm.min(x, axis=0)",
    "logical_and.reduce": "write dlvm.all(x, axis=0)",
    "logical_or.reduce": "write dlvm.any(x, axis=0)",
    "add.accumulate": "write dlvm.cumsum(x, axis=0)",
    "multiply.accumulate": "write dlvm.cumprod(x, axis=0)",
    "add.at": "write x = x.at[i].add(v)",
    "at": "write x = x.at[i].set(v)",
    "outer": "broadcast: the function of x[:, None] and y[None, :]",
    **dict.fromkeys(("reduce", "accumulate", "reduceat"), "write a loop: dlvm.scan"),
    # options of NumPy's functions
    "where=": "choose afterwards: dlvm.where(mask, result, otherwise)",
    "dtype=": "convert the operands: x.astype(dtype)",
    "order=": "leave it out: elements are in row-major order; x.T has its columns first",
    "device=": 'leave it out, or write device="cpu": arrays are NumPy\'s, on the processor',
    "shape=": "write dlvm.full(shape, value, dtype=x.dtype)",
    "subok=": "leave it out: there are no subclasses of arrays",
    "initial=": "write dlvm.maximum(result, initial), or dlvm.minimum",
    "weights=": CALLED,
    "fweights=": "repeat the observations: dlvm.repeat(m, times, axis=1)",
    "aweights=": CALLED,
    "mean=": "leave it out: the mean is computed once",
    "period=": "write x % period, and the first point again at the end of xp and fp",
    "to_end=": "write dlvm.concat([differences, to_end])",
    "to_begin=": "write dlvm.concat([to_begin, differences])",
    "edge_order=": "leave it out, or call it outside of staged functions",
    "k=": "add it to the last coefficient of the result",
    "ndmin=": "write dlvm.atleast_2d(x), or x[None]",
    "writeable=": "write y = dlvm.copy(view), which may be assigned into",
    "casting=": "convert the operands: x.astype(dtype)",
    "signature=": "convert the operands: x.astype(dtype)",
}
"""Remedies for names that dlvm does not have, including attributes, methods and options."""

KEYWORDS = {
    "argnums": "wrt",
    "static_argnums": "static",
    "static_argnames": "static",
    "donate_argnums": "donate",
    "donate_argnames": "donate",
    "nondiff_argnums": "nondiff_args",
    "dim": "axis",
    "dims": "axis",
    "axes": "axis",
    "keepdim": "keepdims",
    "size": "shape",
}
"""Our names for options that other libraries name otherwise."""


# -- pieces of Python --------------------------------------------------------------------------

TRUTH, INDEX, ARRAY, TEXT = "a truth value", "an index or a size", "a NumPy array", "text"
CHANGE, MASK, COUNT, INTO = "changed in place", "a mask", "a Python int", "into"
FLOAT, INT, COMPLEX, ITEM = "float", "int", "complex", "a number"
ATTRIBUTE = "a call of what is no method"
NUMBERS = (FLOAT, INT, COMPLEX, ITEM, INDEX, COUNT, ARRAY)


@dataclass(frozen=True, slots=True)
class Pattern:
    """A pattern of Python code, when it is searched, and what to write instead.

    ``asked`` is what Python asked of the staged value. In ``code`` a small letter matches any
    expression, ``F`` any function of dlvm, also by a name in ``OURS``, ``T`` any element type, and
    ``args`` all arguments; an index ``i`` is one that is computed. In
    ``remedy`` ``{a:d}`` is that expression with functions of NumPy replaced by ours, ``{a:p}`` has
    parentheses around an operator, and a remedy
    of one word, such as ``{left}``, is written by a function of ``branches``. ``within`` is the
    surrounding code: ``"loop"`` is ``while True``, ``"recursion"`` a function that calls itself.
    """

    asked: tuple[str, ...]
    code: str
    remedy: str
    within: str = ""


BRANCHES = "dlvm.cond({c}, lambda: ..., lambda: ...) in a function with @dlvm.function"
PATTERNS = (
    Pattern((TRUTH,), "if c: break", "{left}"),
    Pattern((TRUTH,), "if c: return v", "{left}", "loop"),
    Pattern(
        (TRUTH,),
        "if c: break",
        "dlvm.while_loop(condition, body, state) in place of the loop: the state is a tuple of "
        "what the loop changes, condition(state) says whether it goes on, ~({c}), and body(state) "
        "returns the next state",
        "loop",
    ),
    Pattern((TRUTH,), "if c: ...", BRANCHES, "recursion"),
    Pattern((TRUTH,), "a if c else b", BRANCHES, "recursion"),
    Pattern((TRUTH,), "if c: raise v", 'dlvm.assert_(~({c}), "message")'),
    Pattern((TRUTH,), "if c: ...", "{chosen}"),
    Pattern(
        (TRUTH,),
        "if c: ...",
        "dlvm.where({c}, a, b) for values, dlvm.cond({c}, then, otherwise) for code",
    ),
    Pattern((TRUTH,), "while c: ...", "{loop}"),
    Pattern(
        (TRUTH,),
        "while c: ...",
        "dlvm.while_loop(lambda state: {c}, body, state), where the state is a tuple of what the "
        "loop changes: the condition must read it",
    ),
    Pattern((TRUTH,), 'assert c, f""', 'dlvm.assert_({c}, "{said}")'),
    Pattern((TRUTH,), "assert c, m", "dlvm.assert_({c}, {m})"),
    Pattern((TRUTH,), "assert c", 'dlvm.assert_({c}, "message")'),
    Pattern((TRUTH,), "a if c else b", "dlvm.where({c}, {a}, {b})"),
    Pattern((TRUTH,), "max(a, b, c)", "dlvm.maximum(dlvm.maximum({a}, {b}), {c})"),
    Pattern((TRUTH,), "min(a, b, c)", "dlvm.minimum(dlvm.minimum({a}, {b}), {c})"),
    Pattern((TRUTH,), "max(a, b)", "dlvm.maximum({a}, {b})"),
    Pattern((TRUTH,), "min(a, b)", "dlvm.minimum({a}, {b})"),
    *(
        Pattern((TRUTH,), f"{name}(a)", f"dlvm.{name}({{a:s}})")
        for name in ("max", "min", "any", "all")
    ),
    Pattern((TRUTH,), "sorted(a)", "dlvm.sort({a:s})"),
    # attributes that are methods in other libraries
    Pattern((ATTRIBUTE,), "a.size(i)", "{a:p}.shape[{i}]"),
    Pattern((ATTRIBUTE,), "a.shape(i)", "{a:p}.shape[{i}]"),
    Pattern((ATTRIBUTE,), "a.size()", "{a:p}.shape"),
    *(
        Pattern((ATTRIBUTE,), f"a.{name}()", f"{{a:p}}.{name}")
        for name in ("shape", "ndim", "dtype", "itemsize", "nbytes", "mT")
    ),
    # conversions
    Pattern((INT,), "int(a)", "{a:dp}.astype(int)"),
    Pattern((FLOAT,), "float(a)", "{a:d}, without float(): it stays staged"),
    Pattern((COMPLEX,), "complex(a)", "{a:d}, without complex(): there are real numbers only"),
    Pattern((ITEM,), "a.item(i)", "{a:p}.ravel()[{i}]"),
    Pattern((ITEM,), "a.item()", "{a:d}, without .item(): it stays staged"),
    Pattern((INDEX,), "range(n)", "{counted}"),
    Pattern((INDEX,), "range(a, n)", "{counted}"),
    Pattern((INDEX,), "range(n)", "dlvm.fori_loop(0, {n}, lambda i, carry: ..., carry)"),
    Pattern((INDEX,), "range(a, n)", "dlvm.fori_loop({a}, {n}, lambda i, carry: ..., carry)"),
    Pattern((COUNT,), "range(args)", "dlvm.fori_loop or dlvm.scan in the place of range"),
    # functions of math and of generators
    Pattern(NUMBERS, "math.pow(a, b)", "{a:p} ** {b:p}"),
    Pattern((*NUMBERS, TRUTH), "math.F(args)", "dlvm.{F}({args:d})"),
    Pattern(NUMBERS, "map(math.F, a)", "dlvm.{F}({a:d})"),
    Pattern(
        NUMBERS,
        "g.integers(n)",
        "dlvm.random.randint(key, (), 0, {n}), with key = dlvm.random.key(seed)",
    ),
    Pattern(
        NUMBERS,
        "g.integers(a, n)",
        "dlvm.random.randint(key, (), {a}, {n}), with key = dlvm.random.key(seed)",
    ),
    # NumPy arrays that staged values go into, or are indices of
    Pattern((*NUMBERS, INTO), "a[i] = v", "{made}"),
    Pattern((*NUMBERS, INTO), "a[i] += v", "{made}"),
    Pattern((INTO,), "a += v", "{made}"),
    Pattern((INDEX, ARRAY), "np.F(args)[i]", "dlvm.{F}({args:d})[{i}]"),
    *(Pattern((ARRAY,), f"np.{name}(a)", "dlvm.asarray({a:d})") for name in ("array", "asarray")),
    Pattern((ARRAY,), "np.array(args)", "dlvm.asarray({args:d})"),
    Pattern(NUMBERS, "np.r_[r]", "dlvm.concat({r:d})"),
    Pattern(NUMBERS, "np.c_[r]", "dlvm.column_stack([{r:d}]), the dlvm.concat of columns"),
    Pattern(NUMBERS, "np.T(a)", "{a:dp}.astype('{T}')"),
    Pattern((*NUMBERS, TRUTH), "np.F(args)", "dlvm.{F}({args:d})"),
    Pattern((INDEX, ARRAY), "a[i]", "dlvm.asarray({a})[{i:s}]"),
    # arrays that can't be changed, or whose size would not be known
    Pattern((CHANGE,), "a += v", "{a} = {a} {op} {v:p}"),
    *(
        Pattern((MASK,), f"{code}", f"{{a:p}}.{name}({{keys}}initial={{{least}}}, where={{m}})")
        for name, least in (("max", "least"), ("min", "most"))
        for code in (f"a[m].{name}(args)", f"a[m].{name}()", f"np.{name}(a[m])")
    ),
    Pattern((MASK,), "a[m].F(args)", "{a:p}.{F}({keys}where={m})"),
    Pattern((MASK,), "a[m].F()", "{a:p}.{F}({keys}where={m})"),
    Pattern((MASK,), "np.F(a[m])", "dlvm.{F}({a}, {keys}where={m})"),
    Pattern((MASK,), "dlvm.F(a[m])", "dlvm.{F}({a}, {keys}where={m})"),
    Pattern((MASK,), "len(a[m])", "{m}.sum()"),
    Pattern((MASK,), "a[m].size", "{m}.sum()"),
    Pattern((MASK,), "a[m] += v", "{a} = dlvm.where({m}, {a} {op} ({v}), {a})"),
    Pattern((MASK,), "a[m] = v", "{a} = dlvm.where({m}, {v}, {a})"),
    Pattern((MASK,), "return a[m]", "return {a}, {m}, and index with the mask after the call"),
    # text
    Pattern((FLOAT, INT, TEXT), 'print("" % a)', "dlvm.print({a}): it writes in each call"),
    Pattern((TEXT,), 'print("".format(args))', "dlvm.print({args}): it writes in each call"),
    Pattern((FLOAT, INT, TEXT), '"" % a', "the text after the call: return {a}"),
    Pattern((TEXT,), '"".format(args)', "the text after the call: return {args}"),
    Pattern((TEXT,), "format(a, v)", "the text after the call: return {a}"),
    Pattern((TEXT,), 'print(f"")', "dlvm.print({parts}): it writes in each call"),
    Pattern((TEXT,), 'f""', "the text after the call: return {values}"),
)
"""Ordered from the most special to the most general; the first that fits is used."""
