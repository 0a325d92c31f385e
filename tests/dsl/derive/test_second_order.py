"""Second derivatives through rules that the user wrote, which iterate themselves."""

import numpy as np
import pytest

import dlvm


@pytest.mark.parametrize("loop", ["fori_loop", "while_loop"])
@pytest.mark.parametrize("second", ["hessian", "reverse over reverse"])
@pytest.mark.parametrize("staged", [False, True])
def test_the_hessian_of_a_rule_that_iterates(loop, second, staged):
    """d²(x sin x)/dx² = 2 cos x - x sin x, where the rule sums the derivative in three steps."""

    def third(x):
        return (dlvm.sin(x) + x * dlvm.cos(x)) / 3

    def slope(x):
        if loop == "fori_loop":
            return dlvm.fori_loop(0, 3, lambda i, c: c + third(x), x * 0.0)
        more = lambda c: c[1] < 3  # noqa: E731
        return dlvm.while_loop(more, lambda c: (c[0] + third(x), c[1] + 1), (x * 0.0, 0))[0]

    @dlvm.custom_vjp
    def f(x):
        return dlvm.sin(x) * x

    f.defvjp(lambda x: (f(x), x), lambda x, g: (g * slope(x),))
    x = np.array([0.3, 0.7, 1.1])
    gradient = dlvm.grad(lambda v: f(v).sum())
    if second == "hessian":
        got, shape = dlvm.hessian(lambda v: f(v).sum()), np.diag
    else:
        got, shape = dlvm.grad(lambda v: gradient(v).sum()), np.array
    result = (dlvm.function(got) if staged else got)(x)
    assert np.allclose(result, shape(2 * np.cos(x) - x * np.sin(x)), rtol=1e-12, atol=1e-14)
