"""Eleven kinds of program, with arguments: what a GPU must run."""

import numpy as np

import dlvm

RNG = np.random.default_rng(0)


def f32(*shape):
    return RNG.normal(size=shape).astype("f4")


def gelu(x):
    return 0.5 * x * (1 + dlvm.tanh(0.79788456 * (x + 0.044715 * x**3)))


def softmax(x):
    e = dlvm.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def layer_norm(x, scale, shift):
    d = x - x.mean(axis=1, keepdims=True)
    return d / dlvm.sqrt((d * d).mean(axis=1, keepdims=True) + 1e-5) * scale + shift


def loss(w1, b1, w2, b2, x, y):
    z = dlvm.maximum(x @ w1 + b1, 0) @ w2 + b2
    z = z - z.max(axis=1, keepdims=True)
    return dlvm.log(dlvm.exp(z).sum(axis=1)).mean() - (z * y).sum() / y.shape[0]


LABELS = np.eye(10, dtype="f4")[RNG.integers(0, 10, 17)]
NETWORK = f32(20, 33), f32(33), f32(33, 10), f32(10), f32(17, 20), LABELS
KINDS = {
    "axpy": (lambda a, x, y: a * x + y, (np.float32(2), f32(1000), f32(1000))),
    "gelu": (gelu, (f32(33, 100),)),
    "softmax": (softmax, (f32(10, 300),)),
    "layer norm": (layer_norm, (f32(10, 100), f32(100), f32(100))),
    "column sum": (lambda x: x.sum(axis=0), (f32(300, 70),)),
    "product": (lambda a, b: a @ b, (f32(70, 50), f32(50, 30))),
    "dense": (lambda a, b, c: dlvm.maximum(a @ b + c, 0), (f32(70, 50), f32(50, 30), f32(30))),
    "gather": (lambda a, i: a[i], (f32(70, 50), RNG.integers(-70, 70, 20))),
    "transpose": (lambda a: a.T + 1, (f32(70, 50),)),
    "loop": (
        lambda x: dlvm.while_loop(lambda c: (c * c).sum() < 1e6, lambda c: c * 2, x),
        (f32(50),),
    ),
    "gradient": (dlvm.value_and_grad(loss, wrt=(0, 1, 2, 3)), NETWORK),
}
