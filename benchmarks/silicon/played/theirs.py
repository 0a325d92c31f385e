"""What PyTorch does for the large programs, by their names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def layer_norm(t: Any, x: Any, scale: Any, shift: Any) -> Any:
    return t.nn.functional.layer_norm(x, scale.shape, scale, shift, 1e-5)


def max_pool(t: Any, x: Any) -> Any:
    return t.nn.functional.max_pool2d(x.permute(0, 3, 1, 2), 2)


def product(t: Any, a: Any, b: Any) -> Any:
    return a @ b


def definite(t: Any, x: Any) -> Any:
    return x @ x.T / x.shape[0] + t.eye(x.shape[0], device=x.device)


def scatter_add(t: Any, x: Any, i: Any, u: Any) -> Any:
    return x.index_add(0, i, u)


THEIRS: dict[str, Callable[..., Any]] = {
    "axpy 2^26": lambda t, x, y: t.add(y, x, alpha=2),
    "gelu 8192x8192": lambda t, x: t.nn.functional.gelu(x, approximate="tanh"),
    "transpose 8192x8192": lambda t, x: x.T + 1,
    "product f32 4096": product,
    "sum of 2^26": lambda t, x: x.sum(),
    "max of 2^26": lambda t, x: x.max(),
    "sum of rows 65536x1024": lambda t, x: x.sum(1),
    "sum of rows 1048576x4": lambda t, x: x.sum(1),
    "sum of columns 65536x512": lambda t, x: x.sum(0),
    "sum of columns 8192x8192": lambda t, x: x.sum(0),
    "softmax 65536x1024": lambda t, x: t.softmax(x, 1),
    "layer norm 16384x4096": layer_norm,
    "layer norm 8192x8192": layer_norm,
    "over its norm 2^24": lambda t, x: x / (x * x).sum().sqrt(),
    "softmax 4x1048576": lambda t, x: t.softmax(x, 1),
    "softmax of columns 4096x4096": lambda t, x: t.softmax(x, 0),
    "columns centred 100000x10": lambda t, x: (x - x.mean(0)) / x.std(0, correction=0),
    "matrix times vector 8192": product,
    "product f16 4096": product,
    "product bf16 4096": product,
    "product f64 2048": product,
    "product f32 64x64x100000": product,
    "max pool 2x2 32x112x112x64": max_pool,
    "gather of 65536 rows of 64": lambda t, x, i: x[i],
    "scatter add of 4096 rows of 64": scatter_add,
    "scatter add of 65536 rows of 64": scatter_add,
    "cumsum of 2^18": lambda t, x: x.cumsum(0),
    "sort of 1024 rows of 1024": lambda t, x: x.sort(1),
    "cumsum of 2^24": lambda t, x: x.cumsum(0),
    "cholesky 1024": lambda t, x: t.linalg.cholesky(definite(t, x)),
    "solve 1024": lambda t, x, b: t.linalg.solve(definite(t, x), b),
    "qr 1024": lambda t, x: t.linalg.qr(definite(t, x)).R,
    "eigenvalues of 512x512": lambda t, x: t.linalg.eigvalsh(definite(t, x)),
    "singular values of 512x512": lambda t, x: t.linalg.svdvals(x),
    "eigh 1024 of 32x32": lambda t, x: t.linalg.eigvalsh(x + x.mT),
}


def milliseconds(name: str, arrays: list[Any], types: list[str], calls: int) -> float | None:
    """The least time of a call of PyTorch; None where it is not there, or sees no GPU."""
    try:
        import torch
    except ImportError:
        return None
    if name not in THEIRS or not torch.cuda.is_available():
        return None
    torch.backends.cuda.matmul.allow_tf32 = False
    there = [
        torch.from_numpy(x.view("i2") if d == "bf16" else x).cuda()
        for x, d in zip(arrays, types, strict=True)
    ]
    there = [
        x.view(torch.bfloat16) if d == "bf16" else x for x, d in zip(there, types, strict=True)
    ]
    times: list[float] = []
    for _ in range(6):
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        first.record()
        for _ in range(calls):
            THEIRS[name](torch, *there)
        last.record()
        last.synchronize()
        times.append(first.elapsed_time(last) / calls)
    return min(times[1:])
