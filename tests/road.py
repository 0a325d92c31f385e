"""Running a program both ways, by machine code and by the interpreter, and differencing it."""

import numpy as np

import dlvm

RNG = np.random.default_rng(7)


def normal(*shape, dtype=np.float32):
    return RNG.normal(size=shape).astype(dtype)


def interpreted(f, *args):
    """The leaves of the results by the interpreter, on the module that is traced."""
    module = dlvm.trace(f, *args)
    leaves = [np.asarray(x) for x in dlvm.tree.leaves(args)]
    return module.run(module.main.name, *leaves)


def agree(f, *args, rtol=2e-5, atol=1e-6):
    """Compiled equals interpreted; the compiled result."""
    expected = interpreted(f, *args)
    found = f(*args)
    leaves = dlvm.tree.leaves(found)
    assert len(leaves) == len(expected)
    for a, b in zip(leaves, expected, strict=True):
        assert np.asarray(a).dtype == b.dtype and np.shape(a) == b.shape
        np.testing.assert_allclose(a, b, rtol=rtol, atol=atol)
    return found


def differences(f, x, h=1e-6):
    """The gradient of a scalar function of one f64 array, by central differences."""
    out = np.zeros_like(x)
    for i in np.ndindex(*x.shape):
        step = np.zeros_like(x)
        step[i] = h
        out[i] = (float(f(x + step)) - float(f(x - step))) / (2 * h)
    return out
