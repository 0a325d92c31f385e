"""Movement, creation, reductions and small products: compiled is what the reference says."""

import numpy as np
import pytest

from tests.gen.compiled import Compiled, cpu, gpu, interpret, kernel
from tests.gen.values import numbers, same_bits

MOVED = {
    "broadcast": "%0 = broadcast %x shape=(N,2,M) axes=(0,2) : f32[N,2,M]",
    "permute": "%0 = permute %x perm=(1,0) : f32[M,N]",
    "reshape": "%0 = reshape %x shape=(M,N) : f32[M,N]",
    "flatten": "%0 = reshape %x shape=(N*M) : f32[N*M]",
    "reverse": "%0 = slice %x starts=(N-1,M-1) sizes=(N,M) steps=(-1,-1) : f32[N,M]",
    "concat": "%0 = concat [%x, %x, %y] axis=1 : f32[N,3*M]",
    "concat rows": "%0 = concat [%x, %y] axis=0 : f32[2*N,M]",
    "update": "%0 = update %z, %x starts=(1,2) steps=(1,2) : f32[N+2,2*M+3]",
    "iota": "%0 = iota size=N dtype=f32 : f32[N]",
    "dim": "%0 = dim size=2*N+M : i64",
}
SHAPES = [(0, 3), (1, 1), (5, 0), (7, 17), (3, 67)]


def moved(line):
    params = "%x: f32[N,M], %y: f32[N,M], %z: f32[N+2,2*M+3]"
    return kernel(f"func @f({params}) -> {line.rsplit(' : ')[1]} {{\n  {line}\n  return %0\n}}")


def inputs(n, m):
    rng = np.random.default_rng(n * 100 + m)
    shapes = ((n, m), (n, m), (n + 2, 2 * m + 3))
    return [rng.standard_normal(s).astype(np.float32) for s in shapes]


@pytest.mark.parametrize("name", sorted(MOVED))
def test_movement_moves_exactly(name):
    op, module = moved(MOVED[name])
    compiled = Compiled(op)
    for n, m in SHAPES:
        arrays = inputs(n, m)
        expected = np.array(module.run("f", *arrays)[0])
        assert same_bits(compiled(*arrays)[0][0], expected), (n, m)
        for how in (cpu(4), gpu(8)):
            assert same_bits(interpret(op, arrays, how)[0][0], expected)


GATHERS = {
    "rows": ("f32[N,5]", "i32[K]", 0, 0, "f32[K,5]"),
    "columns": ("f32[5,N]", "i64[K]", 1, 0, "f32[5,K]"),
    "batched": ("f32[K,N]", "u8[K,2]", 1, 1, "f32[K,2]"),
    "one": ("f32[N,3]", "i8", 0, 0, "f32[3]"),
}


def gathered(name, mode):
    x, i, axis, batch, out = GATHERS[name]
    return kernel(f"""func @f(%x: {x}, %i: {i}, %n: f32[N], %k: f32[K]) -> {out} {{
      %0 = gather %x, %i axis={axis} batch={batch} mode="{mode}" : {out}
      return %0
    }}""")


@pytest.mark.parametrize("mode", ["error", "clip", "drop"])
@pytest.mark.parametrize("name", sorted(GATHERS))
def test_gather(name, mode):
    op, module = gathered(name, mode)
    compiled, types = Compiled(op), [p.type for p in op.body.params]
    rng = np.random.default_rng(3)
    for n, k in ((4, 0), (1, 1), (6, 37), (0, 3)):
        low, high = (-n, n - 1) if mode == "error" else (-2 * n - 1, 2 * n + 1)
        sizes = [[{"N": n, "K": k}.get(str(d), d) for d in t.shape] for t in types]
        x, a, b = (numbers(types[j].dtype, sizes[j], rng) for j in (0, 2, 3))
        if mode == "error" and n == 0:
            continue
        unsigned = types[1].dtype.kind == "u"
        i = rng.integers(0 if unsigned else low, high + 1, sizes[1]).astype(types[1].dtype.numpy)
        (found,), status = compiled(x, i, a, b)
        assert same_bits(found, module.run("f", x, i, a, b)[0]) and status[0] == 0
        (found,), status, _ = interpret(op, (x, i, a, b), gpu(8))
        assert same_bits(found, module.run("f", x, i, a, b)[0]) and status[0] == 0


def test_a_bad_index_is_recorded_once_with_its_axis():
    op, _ = gathered("rows", "error")
    arrays = [np.ones((6, 5), np.float32), np.zeros(40, np.int32), np.ones(6), np.ones(40)]
    arrays[1][19], arrays[1][33] = 6, -7
    arrays = [arrays[0], arrays[1], arrays[2].astype("f4"), arrays[3].astype("f4")]
    _, status = Compiled(op)(*arrays)
    assert status[:3].tolist() == [1, 6, 6]
    assert interpret(op, arrays)[1][:3].tolist() == [1, 6, 6]


FOLDS = ["sum", "max", "argmax", "logsumexp"]


@pytest.mark.drawn(3)
@pytest.mark.parametrize("axes", ["1", "0", "0,2", "1,2", "0,1,2"])
@pytest.mark.parametrize("fold", FOLDS)
def test_reductions(fold, axes):
    left = [d for a, d in enumerate(("N", "3", "M")) if str(a) not in axes.split(",")]
    kind = "i64" if fold == "argmax" else "f32"
    out = f"{kind}[{','.join(left)}]" if left else kind
    op, module = kernel(f"""func @f(%x: f32[N,3,M]) -> {out} {{
      %0 = {fold} %x axes=({axes}) : {out}
      return %0
    }}""")
    compiled = Compiled(op)
    for n, m in ((0, 2), (1, 1), (3, 0), (3, 67), (67, 2)):
        x = np.random.default_rng(n).standard_normal((n, 3, m)).astype(np.float32)
        found, expected = compiled(x)[0][0], module.run("f", x)[0]
        np.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-5)
        if fold != "logsumexp":
            for how in (None, cpu(4), gpu(32), gpu(64)):
                assert same_bits(interpret(op, [x], how)[0][0], found), how


def test_a_fold_of_pairs_keeps_its_order():
    """(a, b) then (c, d) is (a*c, b*c + d): composition, which is not commutative."""
    op, module = kernel("""func @f(%x: f64[N], %y: f64[N]) -> (f64, f64) {
      %0, %1 = fold [%x, %y] identities=(1.0, 0.0) axes=(0) : f64, f64
        combine(%a: f64, %b: f64, %c: f64, %d: f64) -> (f64, f64) {
          %0 = mul %a, %c : f64
          %1 = mul %b, %c : f64
          %2 = add %1, %d : f64
          return %0, %2
        }
      return %0, %1
    }""")
    compiled = Compiled(op)
    for n in (0, 1, 31, 100):
        x, y = (np.random.default_rng(i).uniform(0.9, 1.1, n) for i in (1, 2))
        np.testing.assert_allclose(compiled(x, y)[0], module.run("f", x, y), rtol=1e-12)


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_half_precision_sums_in_f32(dtype):
    op, module = kernel(f"""func @f(%x: {dtype}[N]) -> {dtype} {{
      %0 = sum %x axes=(0) : {dtype}
      return %0
    }}""")
    x = np.full(3000, 1.0).astype(op.body.params[0].dtype.numpy)
    assert Compiled(op)(x)[0][0] == module.run("f", x)[0] == 3000 // 16 * 16 + 8


@pytest.mark.parametrize("dtype", ["i32", "u8", "f16", "f64"])
def test_small_products(dtype):
    op, module = kernel(f"""func @f(%x: {dtype}[2,M,K], %y: {dtype}[2,K,N]) -> {dtype}[2,M,N] {{
      %0 = matmul %x, %y : {dtype}[2,M,N]
      return %0
    }}""")
    compiled, rng = Compiled(op), np.random.default_rng(0)
    for m, k, n in ((1, 1, 1), (3, 0, 5), (4, 9, 33), (0, 2, 2)):
        shapes = ((2, m, k), (2, k, n))
        x, y = (rng.integers(0, 8, s).astype(op.body.params[0].dtype.numpy) for s in shapes)
        assert same_bits(compiled(x, y)[0][0], module.run("f", x, y)[0])


def test_a_chunk_ends_where_the_tree_says():
    """The answer depends on the tree and not on the vectors."""
    op, _ = kernel("func @f(%x: f32[N]) -> f32 {\n %0 = sum %x axes=(0) : f32\n return %0\n}")
    short, _ = kernel(
        "func @f(%x: f32[N]) -> f32 {\n %0 = sum %x axes=(0) : f32\n return %0\n}", tree=(64, 8)
    )
    x = np.random.default_rng(0).standard_normal(5000).astype(np.float32)
    long_sum, short_sum = Compiled(op)(x)[0][0], Compiled(short)(x)[0][0]
    assert long_sum != short_sum
    assert short_sum == tree_sum(x, 64, 8) and long_sum == tree_sum(x, 4096, 32)
    assert Compiled(op, cpu(4))(x)[0][0] == long_sum


def tree_sum(x, chunk, lanes):
    """The documented order, written out."""
    total = np.float32(0)
    for start in range(0, len(x), chunk):
        acc = np.zeros(lanes, np.float32)
        for k, v in enumerate(x[start : start + chunk]):
            acc[k % lanes] += v
        while len(acc) > 1:
            acc = acc[: len(acc) // 2] + acc[len(acc) // 2 :]
        total += acc[0]
    return total
