# ruff: noqa: RUF059, SIM
"""NumPy programs as people write them who have not heard of staging.

They are what a new user decorates first; ``test_numpy_programs`` follows what they are told.
"""

import numpy as np


def moving_average(x, n=5):
    """A mean of neighbours, by a running sum."""
    c = np.cumsum(np.insert(x, 0, 0))
    return (c[n:] - c[:-n]) / n


def fir(x, h):
    """A filter by convolution."""
    return np.convolve(x, h, mode="same")


def exp_smooth(x, a):
    """Exponential smoothing, one element after the other."""
    y = np.empty_like(x)
    y[0] = x[0]
    for i in range(1, len(x)):
        y[i] = a * x[i] + (1 - a) * y[i - 1]
    return y


def median_filter(x, k=3):
    """A median over windows."""
    w = np.lib.stride_tricks.sliding_window_view(x, k)
    return np.median(w, axis=-1)


def bootstrap_ci(x, idx):
    """A confidence interval by resampling."""
    means = x[idx].mean(axis=1)
    return np.percentile(means, [2.5, 97.5])


def pi(u):
    """Pi by counting points in a circle."""
    inside = (u[:, 0] ** 2 + u[:, 1] ** 2) < 1
    return 4 * inside.sum() / len(u)


def black_scholes_mc(z, s0, k, r, sigma, t):
    """The price of an option by simulation."""
    st = s0 * np.exp((r - 0.5 * sigma**2) * t + sigma * np.sqrt(t) * z)
    return np.exp(-r * t) * np.maximum(st - k, 0).mean()


def nbody_step(pos, vel, mass, dt=0.01):
    """A step of bodies that attract one another."""
    d = pos[None, :, :] - pos[:, None, :]
    r2 = (d**2).sum(-1) + 1e-2
    inv = r2**-1.5
    np.fill_diagonal(inv, 0)
    acc = (d * (mass[None, :, None] * inv[:, :, None])).sum(axis=1)
    vel = vel + dt * acc
    return pos + dt * vel, vel


def life(g):
    """A generation of Conway's game of life."""
    n = sum(
        np.roll(np.roll(g, i, 0), j, 1) for i in (-1, 0, 1) for j in (-1, 0, 1) if (i, j) != (0, 0)
    )
    return ((n == 3) | ((g == 1) & (n == 2))).astype(int)


def viterbi(obs, logA, logB, logpi):
    """The likeliest path through a hidden Markov model."""
    T = len(obs)
    n = logA.shape[0]
    d = np.zeros((T, n))
    back = np.zeros((T, n), dtype=int)
    d[0] = logpi + logB[:, obs[0]]
    for t in range(1, T):
        s = d[t - 1][:, None] + logA
        back[t] = s.argmax(0)
        d[t] = s.max(0) + logB[:, obs[t]]
    path = np.zeros(T, dtype=int)
    path[-1] = d[-1].argmax()
    for t in range(T - 2, -1, -1):
        path[t] = back[t + 1, path[t + 1]]
    return path


def sobel(im):
    """The edges of an image."""
    gx = im[:-2, :-2] - im[:-2, 2:] + 2 * (im[1:-1, :-2] - im[1:-1, 2:]) + im[2:, :-2] - im[2:, 2:]
    gy = im[:-2, :-2] - im[2:, :-2] + 2 * (im[:-2, 1:-1] - im[2:, 1:-1]) + im[:-2, 2:] - im[2:, 2:]
    return np.hypot(gx, gy)


def pagerank(A, d=0.85):
    """PageRank until it no longer changes."""
    n = A.shape[0]
    out = A.sum(axis=1, keepdims=True)
    M = np.where(out > 0, A / np.where(out == 0, 1, out), 1.0 / n).T
    r = np.ones(n) / n
    while True:
        new = d * M @ r + (1 - d) / n
        if np.abs(new - r).sum() < 1e-10:
            break
        r = new
    return r


def pagerank_fixed(A, d=0.85, iters=50):
    """PageRank by a fixed number of steps."""
    n = A.shape[0]
    out = A.sum(axis=1, keepdims=True)
    M = np.where(out > 0, A / np.where(out == 0, 1, out), 1.0 / n).T
    r = np.ones(n) / n
    for _ in range(iters):
        r = d * M @ r + (1 - d) / n
    return r


def kmeans(x, c, iters=5):
    """k-means with masks."""
    for _ in range(iters):
        dist = np.linalg.norm(x[:, None] - c[None], axis=-1)
        lab = np.argmin(dist, axis=1)
        c = np.stack([x[lab == k].mean(axis=0) for k in range(len(c))])
    return c, lab


def kmeans_onehot(x, c, iters=5):
    """k-means with rows of an identity matrix."""
    for _ in range(iters):
        dist = ((x[:, None] - c[None]) ** 2).sum(-1)
        lab = np.argmin(dist, axis=1)
        one = np.eye(len(c))[lab]
        c = (one.T @ x) / one.sum(0)[:, None]
    return c, lab


def mandelbrot(cr, ci, n=30):
    """How often points are squared before they leave a circle."""
    zr, zi = np.zeros_like(cr), np.zeros_like(ci)
    count = np.zeros(cr.shape, dtype=int)
    for _ in range(n):
        mask = zr * zr + zi * zi <= 4
        zr, zi = np.where(mask, zr * zr - zi * zi + cr, zr), np.where(mask, 2 * zr * zi + ci, zi)
        count += mask
    return count


def mandelbrot_masked(cr, ci, n=30):
    """The same with masks as indices."""
    zr, zi = np.zeros_like(cr), np.zeros_like(ci)
    count = np.zeros(cr.shape, dtype=int)
    for _ in range(n):
        mask = zr * zr + zi * zi <= 4
        t = zr[mask] ** 2 - zi[mask] ** 2 + cr[mask]
        zi[mask] = 2 * zr[mask] * zi[mask] + ci[mask]
        zr[mask] = t
        count[mask] += 1
    return count


def train_net(x, y, w1, b1, w2, b2, lr=0.1, steps=5):
    """A network of two layers, its gradient by hand."""
    for _ in range(steps):
        h = np.maximum(0, x @ w1 + b1)
        logits = h @ w2 + b2
        logits = logits - logits.max(axis=1, keepdims=True)
        p = np.exp(logits)
        p /= p.sum(axis=1, keepdims=True)
        p[np.arange(len(y)), y] -= 1
        p /= len(y)
        dw2 = h.T @ p
        db2 = p.sum(0)
        dh = p @ w2.T
        dh[h <= 0] = 0
        dw1 = x.T @ dh
        db1 = dh.sum(0)
        w1 -= lr * dw1
        b1 -= lr * db1
        w2 -= lr * dw2
        b2 -= lr * db2
    return w1, b1, w2, b2


def heat(u, alpha=0.1, steps=20):
    """Heat in a plate, over the argument."""
    for _ in range(steps):
        u[1:-1, 1:-1] = u[1:-1, 1:-1] + alpha * (
            u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1]
        )
    return u


def heat_copy(u, alpha=0.1, steps=20):
    """Heat in a plate, in a copy."""
    u = u.copy()
    for _ in range(steps):
        u[1:-1, 1:-1] += alpha * (
            u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1]
        )
    return u


def lsq_gd(a, b, steps=100):
    """Least squares by gradient descent."""
    x = np.zeros(a.shape[1])
    L = (a * a).sum()
    for _ in range(steps):
        x -= a.T @ (a @ x - b) / L
    return x


def lsq_normal(a, b):
    """Least squares by the normal equations."""
    return np.linalg.solve(a.T @ a, a.T @ b)


def polyfit_pred(x, y):
    """A polynomial's moments."""
    v = np.vander(x, 4)
    return v.T @ y


def conv2d(x, w):
    """A convolution by its windows."""
    n, c, h, wd = x.shape
    o, _, kh, kw = w.shape
    out = np.zeros((n, o, h - kh + 1, wd - kw + 1))
    for i in range(kh):
        for j in range(kw):
            out += np.einsum(
                "nchw,oc->nohw", x[:, :, i : i + h - kh + 1, j : j + wd - kw + 1], w[:, :, i, j]
            )
    return out


def cnn(x, w1, w2):
    """A layer of convolution, of pooling and a dense one."""
    a = np.maximum(conv2d(x, w1), 0)
    n, c, h, w = a.shape
    a = a[:, :, : h // 2 * 2, : w // 2 * 2].reshape(n, c, h // 2, 2, w // 2, 2).max(axis=(3, 5))
    f = a.reshape(n, -1)
    return f @ w2


def windows_conv(x, w):
    """A convolution by strided windows."""
    v = np.lib.stride_tricks.sliding_window_view(x, w.shape)
    return np.tensordot(v, w, axes=((2, 3), (0, 1)))
