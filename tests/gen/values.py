"""Numbers with edges among them, and equality to the bit."""

import numpy as np

EDGES = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -2.5,
    np.inf,
    -np.inf,
    np.nan,
    1e30,
    -1e30,
    3.4e38,
    88.8,
    -103.9,
]


def numbers(dtype, shape, rng, edges=True):
    """Random elements of a dlvm dtype; the first of many are edges."""
    count = int(np.prod(shape, dtype=int))
    if dtype.kind == "b":
        flat = rng.integers(0, 2, count).astype(bool)
    elif dtype.is_integer:
        low, high = int(dtype.lowest), int(dtype.highest)
        flat = rng.integers(-9, 10, count).astype(dtype.numpy)
        special = np.array([low, high, 0, 1, high - 1, high // 2], dtype.numpy)
        if edges and count >= 60:
            flat[rng.permutation(count)[:24]] = np.resize(special, 24)
    else:
        flat = (rng.standard_normal(count) * rng.choice([0.1, 1, 30], count)).astype(np.float64)
        tiny = [float(np.finfo(np.float32).tiny) / 3, 1e-30, -1e-40]
        special = np.array(EDGES + tiny)
        if edges and count >= 60:
            flat[rng.permutation(count)[: 2 * len(special)]] = np.resize(special, 2 * len(special))
        with np.errstate(all="ignore"):
            flat = flat.astype(dtype.numpy)
    return flat.reshape(shape)


def bits(array):
    """The bits of an array, with every NaN the same."""
    array = np.asarray(array)
    if array.dtype.kind not in "biu":
        array = np.where(array != array, np.asarray(np.nan, array.dtype), array)
    return array.view(f"u{array.dtype.itemsize}")


def same_bits(a, b):
    """Whether two arrays agree to the bit, NaN being NaN."""
    return a.dtype == b.dtype and a.shape == b.shape and bool(np.all(bits(a) == bits(b)))
