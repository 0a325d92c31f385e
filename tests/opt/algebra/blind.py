"""Ten blind pairs (naive, expert).  w has NumPy semantics; k = n//8.
w.grad(f, wrt)(*args) is assumed to return the gradient FUNCTION (as in JAX)."""


# 1. White's heteroscedasticity-robust (HC0) variances: diag(B X' diag(e^2) X B')
def _hc0_naive(w):
    return lambda x, b, e: w.diagonal(b @ x.T @ w.diag(e**2) @ x @ b.T)


def _hc0_expert(w):
    def f(x, b, e):
        z = x @ b.T
        return (e * e) @ (z * z)

    return f


# 2. PageRank: eight steps of the dense Google matrix
def _pagerank_naive(w):
    def f(a, v):
        n = a.shape[0]
        links = a * a
        p = links / links.sum(0)
        g = 0.85 * p + 0.15 / n * w.ones((n, n))
        return w.matrix_power(g, 8) @ v

    return f


def _pagerank_expert(w):
    def f(a, v):
        links = a * a
        s = 0.85 / links.sum(0)
        c = 0.15 * v.mean()  # columns of G sum to 1: sum(v) is preserved
        for _ in range(8):
            v = links @ (s * v) + c
        return v

    return f


# 3. HSIC with linear kernels (the numerator of linear CKA)
def _hsic_naive(w):
    def f(x, y):
        n = x.shape[0]
        h = w.eye(n) - w.ones((n, n)) / n
        kx = x @ x.T
        ky = y @ y.T
        return w.trace(kx @ h @ ky @ h) / (n - 1) ** 2

    return f


def _hsic_expert(w):
    def f(x, y):
        n = x.shape[0]
        c = (x - x.mean(0)).T @ y  # centring one side is enough
        return w.sum(c * c) / (n - 1) ** 2

    return f


# 4. Linear (kernel feature) attention with its normaliser
def _attn_naive(w):
    def f(q, k, v):
        s = w.exp(q) @ w.exp(k).T
        return (s @ v) / s.sum(1)[:, None]

    return f


def _attn_expert(w):
    def f(q, k, v):
        fq, fk = w.exp(q), w.exp(k)
        return (fq @ (fk.T @ v)) / (fq @ fk.sum(0))[:, None]

    return f


# 5. Energy of a bipartite quantum state under H = A (x) I + I (x) B
def _kron_naive(w):
    def f(a, b, psi):
        m = a.shape[0]
        h = w.kron(a, w.eye(m)) + w.kron(w.eye(m), b)
        p = psi.reshape(-1)
        return p @ h @ p

    return f


def _kron_expert(w):
    return lambda a, b, psi: w.sum(psi * (a @ psi + psi @ b.T))


# 6. PCA: gradient of the Rayleigh quotient of the sample covariance
def _rayleigh_naive(w):
    def quotient(v, x):
        xc = x - x.mean(0)
        c = xc.T @ xc / (x.shape[0] - 1)
        return (v @ c @ v) / (v @ v)

    return lambda v, x: w.grad(quotient, 0)(v, x)


def _rayleigh_expert(w):
    def f(v, x):
        u = x @ v
        u = u - u.mean()  # centres X implicitly, on both sides
        cv = (u @ x) / (x.shape[0] - 1)
        vv = v @ v
        return (2.0 / vv) * (cv - ((v @ cv) / vv) * v)

    return f


# 7. Quadratic assignment / graph matching objective tr(F P D P')
def _qap_naive(w):
    def f(flow, dist, p):
        m = w.one_hot(p, flow.shape[0])
        return w.trace(flow @ m @ dist @ m.T)

    return f


def _qap_expert(w):
    def f(flow, dist, p):
        d = w.take(w.take(dist, p).T, p).T  # dist[p][:, p]
        return w.sum(flow.T * d)

    return f


# 8. BFGS update of a symmetric inverse Hessian
def _bfgs_naive(w):
    def f(a, s, y, rho):
        h = 0.5 * (a + a.T)
        i = w.eye(a.shape[0])
        return (i - rho * w.outer(s, y)) @ h @ (i - rho * w.outer(y, s)) + rho * w.outer(s, s)

    return f


def _bfgs_expert(w):
    def f(a, s, y, rho):
        h = 0.5 * (a + a.T)
        u = h @ y
        c = rho * u - (0.5 * rho * (rho * (y @ u) + 1.0)) * s
        t = w.outer(s, c)
        return h - (t + t.T)

    return f


# 9. Whittaker / P-spline smoother: residual (I + lam D2'D2) z - y
def _whittaker_naive(w):
    def f(z, y, lam):
        i = w.eye(z.shape[0])
        d2 = i[2:] - 2.0 * i[1:-1] + i[:-2]
        return (i + lam * d2.T @ d2) @ z - y

    return f


def _whittaker_expert(w):
    def f(z, y, lam):
        d = lam * (z[2:] - 2.0 * z[1:-1] + z[:-2])
        o, oo = w.zeros(1), w.zeros(2)
        return z - y + w.concat([d, oo]) - w.concat([o, 2.0 * d, o]) + w.concat([oo, d])

    return f


# 10. DP-SGD: per-example gradient clipping of a linear layer (point: MEMORY, n*k*k
#     numbers against n*k; flops 5nkk against 2nkk)
def _dpsgd_naive(w):
    def f(x, d):
        g = w.einsum("bi,bj->bij", x, d)
        norm = (g**2).sum(2).sum(1) ** 0.5
        scale = 1.0 / w.maximum(norm / 20.0, 1.0)
        return (g * scale.reshape(-1, 1, 1)).sum(0)

    return f


def _dpsgd_expert(w):
    def f(x, d):
        norm = ((x * x).sum(1) * (d * d).sum(1)) ** 0.5
        scale = 1.0 / w.maximum(norm / 20.0, 1.0)
        return x.T @ (scale.reshape(-1, 1) * d)

    return f


def _k(n):
    return n // 8


def BLIND(w):
    return [
        (
            "HC0 robust variances",
            _hc0_naive(w),
            _hc0_expert(w),
            ("f64[n,k]", "f64[k,k]", "f64[n]"),
            lambda n: 2 * n * _k(n) ** 2 + n * _k(n) + n + 2 * n * _k(n),
        ),
        (
            "PageRank eight steps",
            _pagerank_naive(w),
            _pagerank_expert(w),
            ("f64[n,n]", "f64[n]"),
            lambda n: n * n + n * n + n + (n + 2) + 8 * (n + 2 * n * n + n),
        ),
        (
            "HSIC linear kernels",
            _hsic_naive(w),
            _hsic_expert(w),
            ("f64[n,k]", "f64[n,k]"),
            lambda n: n * _k(n) + _k(n) + n * _k(n) + 2 * n * _k(n) ** 2 + 2 * _k(n) ** 2 + 1,
        ),
        (
            "linear attention",
            _attn_naive(w),
            _attn_expert(w),
            ("f64[n,k]", "f64[n,k]", "f64[n,k]"),
            lambda n: 2 * n * _k(n) + 4 * n * _k(n) ** 2 + n * _k(n) + 2 * n * _k(n) + n * _k(n),
        ),
        (
            "Kronecker-sum energy",
            _kron_naive(w),
            _kron_expert(w),
            ("f64[k,k]", "f64[k,k]", "f64[k,k]"),
            lambda n: 4 * _k(n) ** 3 + 3 * _k(n) ** 2,
        ),
        (
            "PCA Rayleigh gradient",
            _rayleigh_naive(w),
            _rayleigh_expert(w),
            ("f64[k]", "f64[n,k]"),
            lambda n: 4 * n * _k(n) + 2 * n + 1 + 8 * _k(n) + 2,
        ),
        (
            "quadratic assignment objective",
            _qap_naive(w),
            _qap_expert(w),
            ("f64[n,n]", "f64[n,n]", "i64[n]"),
            lambda n: 2 * n * n,
        ),
        (
            "BFGS inverse update",
            _bfgs_naive(w),
            _bfgs_expert(w),
            ("f64[n,n]", "f64[n]", "f64[n]", "f64[]"),
            lambda n: 2 * n * n + 2 * n * n + 2 * n + 4 + 3 * n + 3 * n * n,
        ),
        (
            "Whittaker smoother residual",
            _whittaker_naive(w),
            _whittaker_expert(w),
            ("f64[n]", "f64[n]", "f64[]"),
            lambda n: 4 * (n - 2) + (n - 2) + 4 * n,
        ),
        (
            "DP-SGD clipped gradient",
            _dpsgd_naive(w),
            _dpsgd_expert(w),
            ("f64[n,k]", "f64[n,k]"),
            lambda n: 4 * n * _k(n) + 5 * n + n * _k(n) + 2 * n * _k(n) ** 2,
        ),
    ]
