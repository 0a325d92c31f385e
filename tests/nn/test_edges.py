"""Layers at the edges: nothing, one of all, masks that hide everything; and what they refuse."""

from __future__ import annotations

import numpy as np
import pytest

import dlvm
from dlvm import nn
from dlvm.base.errors import (
    ArgumentError,
    CallError,
    DTypeError,
    IndexOutOfRange,
    ShapeError,
    UserError,
)

RNG = np.random.default_rng(3)
KEY = dlvm.random.key(0)


class Taller(nn.TransformerDecoderLayer):
    """A layer of the user's, which has the constructor of ours."""


def normal(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape)


def test_a_position_that_sees_nothing_has_a_finite_result_and_finite_slopes():
    q, k, v = normal(2, 3, 2, 4), normal(2, 5, 2, 4), normal(2, 5, 2, 4)
    mask = np.ones((2, 1, 3, 5), bool)
    mask[0, :, 1] = False
    run = dlvm.function(lambda q, k, v: nn.dot_product_attention(q, k, v, mask=mask))
    np.testing.assert_allclose(run(q, k, v)[0, 1], v[0].mean(0), rtol=1e-12)
    for dtype in ("float16", "float32", "float64"):
        given = [x.astype(dtype) for x in (q, k, v)]
        grads = dlvm.grad(lambda q, k, v: (run(q, k, v) ** 2).sum(), wrt=(0, 1, 2))(*given)
        assert all(np.isfinite(g).all() for g in grads)


@pytest.mark.parametrize("b, t, s, h", [(0, 2, 2, 2), (2, 0, 2, 2), (2, 2, 0, 2), (1, 2, 2, 0)])
def test_attention_to_nothing_is_nothing(b: int, t: int, s: int, h: int):
    given = normal(b, t, 2, h), normal(b, s, 2, h), normal(b, s, 2, 3)
    with pytest.raises(ShapeError, match="found"):
        nn.dot_product_attention(given[0], normal(b, s + 1, 2, h), given[2])
    run = dlvm.function(lambda q, k, v: nn.dot_product_attention(q, k, v, is_causal=True))
    found = run(*given)
    assert found.shape == (b, t, 2, 3) and np.isfinite(found).all()
    grads = dlvm.grad(lambda *a: run(*a).sum(), wrt=(0, 1, 2))(*given)
    assert all(np.isfinite(g).all() for g in grads)


def test_the_size_of_heads_may_be_open():
    run = dlvm.function(nn.dot_product_attention)
    program = run.compile(*[dlvm.spec("f32[B,T,N,H]")] * 3)
    x = normal(2, 3, 2, 4).astype("f4")
    np.testing.assert_allclose(program(x, x, x), nn.dot_product_attention(x, x, x), rtol=1e-5)


def test_a_rate_may_be_an_argument_and_keys_may_be_a_batch():
    keys, x = dlvm.random.split(KEY, 3), np.ones((3, 8))
    found = dlvm.vmap(lambda key, x, r: nn.dropout(key, x, r), in_axes=(0, 0, None))(keys, x, 0.5)
    for i in range(3):
        assert np.array_equal(found[i], nn.dropout(keys[i], x[i], 0.5))


def test_hidden_values_have_no_influence_however_large_they_are():
    q, k, v = normal(1, 2, 1, 4), normal(1, 3, 1, 4), normal(1, 3, 1, 4)
    mask = np.array([True, True, False])
    found = nn.dot_product_attention(q, k, v, mask=mask)
    k[:, 2], v[:, 2] = 1e8, 1e8
    assert np.array_equal(nn.dot_product_attention(q, k, v, mask=mask), found)
    np.testing.assert_allclose(
        found, nn.dot_product_attention(q, k[:, :2], v[:, :2]), rtol=1e-12, atol=1e-15
    )


T, S = 5, 6
AHEAD = np.arange(S) - np.arange(T)[:, None]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    ("window", "seen"),
    [
        (1, abs(AHEAD) <= 1),
        ((2, 0), (AHEAD <= 0) & (AHEAD >= -2)),
        ((0, 3), (AHEAD >= 0) & (AHEAD <= 3)),
    ],
)
def test_a_local_window_is_a_mask_of_distances(window, seen, causal):
    q, k, v = normal(2, T, 1, 4), normal(2, S, 1, 4), normal(2, S, 1, 4)
    run = dlvm.function(nn.dot_product_attention, static=("local_window_size", "is_causal"))
    found = run(q, k, v, local_window_size=window, is_causal=causal)
    mask = seen & (AHEAD <= 0) if causal else seen
    np.testing.assert_allclose(
        found, nn.dot_product_attention(q, k, v, mask=mask), rtol=1e-11, atol=1e-14
    )


def test_lengths_hide_values_and_make_results_0_behind_the_queries():
    q, k, v = normal(2, T, 2, 4), normal(2, S, 2, 4), normal(2, S, 2, 4)
    run = dlvm.function(
        lambda q, k, v, n, m: nn.dot_product_attention(
            q, k, v, query_seq_lengths=n, key_value_seq_lengths=m
        )
    )
    found = run(q, k, v, np.array([5, 2]), np.array([3, 6]))
    for i, (n, m) in enumerate([(5, 3), (2, 6)]):
        expected = nn.dot_product_attention(q[i, :n], k[i, :m], v[i, :m])
        np.testing.assert_allclose(found[i, :n], expected, rtol=1e-11, atol=1e-14)
        assert not found[i, n:].any()


@pytest.mark.parametrize("batch, steps", [(0, 3), (1, 1), (2, 1), (3, 0)])
def test_sequences_of_no_step_and_of_one(batch: int, steps: int):
    for layer in (nn.RNN(KEY, 2, 3), nn.GRU(KEY, 2, 3), nn.LSTM(KEY, 2, 3)):
        xs = normal(batch, steps, 2).astype("f4")
        ys, last = dlvm.function(lambda layer, xs: layer(xs))(layer, xs)
        h = last[0] if isinstance(last, tuple) else last
        assert ys.shape == (batch, steps, 3) and h.shape == (batch, 3)
        assert np.array_equal(h, ys[:, -1] if steps else np.zeros((batch, 3)))


def test_backwards_is_forwards_on_the_reversed_sequence():
    layer, xs = nn.LSTM(KEY, 2, 3, dtype="f64"), normal(4, 5, 2)
    ahead, last = layer(xs[:, ::-1])
    back, end = layer(xs, reverse=True)
    np.testing.assert_allclose(back, ahead[:, ::-1], rtol=1e-12)
    np.testing.assert_allclose(end, last, rtol=1e-12)


@pytest.mark.parametrize("shape", [(0, 4), (1, 4), (3, 0), (2, 0, 4)])
def test_norms_of_no_element_and_of_one_example(shape: tuple[int, ...]):
    x, scale = normal(*shape), np.ones(shape[-1])
    for f in (nn.layer_norm, nn.rms_norm):
        assert dlvm.function(f)(x, scale).shape == shape
    if shape[-1]:
        assert dlvm.function(nn.group_norm, static=("groups",))(x, 2, scale).shape == shape
    y, _ = nn.batch_norm(x, 0 * scale, scale, training=False)
    assert y.shape == shape


def test_one_example_has_a_variance_of_0_and_moves_the_running_one_to_a_number():
    y, (mean, var) = nn.batch_norm(np.ones((1, 2)), np.zeros(2), np.ones(2), training=True)
    assert np.array_equal(y, np.zeros((1, 2)))
    np.testing.assert_allclose(mean, [0.1, 0.1])
    np.testing.assert_allclose(var, [0.9, 0.9])


def test_a_constant_row_becomes_its_bias_with_finite_slopes():
    bias = np.array([1.0, 2.0, 3.0])
    x = np.full((2, 3), 7.0)
    assert np.array_equal(nn.layer_norm(x, None, bias), np.tile(bias, (2, 1)))
    assert np.isfinite(dlvm.grad(lambda x: nn.layer_norm(x, None, bias).sum())(x)).all()


def test_large_halves_are_normalised_in_f32():
    x = np.array([[200.0, -300.0, 400.0, 60000.0]], np.float16)
    found = nn.rms_norm(x)
    assert found.dtype == np.float16 and np.isfinite(found).all()
    np.testing.assert_allclose(found, nn.rms_norm(x.astype(float)), rtol=1e-3)


@pytest.mark.parametrize("rate", [0.0, 0.25, 1.0])
def test_dropout_keeps_its_share_and_its_mean(rate: float):
    x = np.ones((200, 200), np.float32)
    found = dlvm.function(nn.dropout)(KEY, x, rate)
    assert found.dtype == np.float32 and set(np.unique(found)) <= {
        0,
        np.float32(1 / (1 - rate or 1)),
    }
    assert abs((found == 0).mean() - rate) < 0.01
    slope = dlvm.grad(lambda x: nn.dropout(KEY, x, rate).sum())(x)
    assert np.array_equal(slope, found)
    assert np.array_equal(nn.dropout(KEY, x, rate, training=False), x)


def test_ignored_labels_count_for_nothing_and_may_be_all():
    x = normal(3, 4)
    for labels in ([-1, 2, -1], [-1, -1, -1]):
        labels = np.array(labels)

        def mean(x, labels=labels):
            return nn.cross_entropy(x, labels, ignore_index=-1, reduction="mean")

        kept = labels >= 0
        expected = nn.cross_entropy(x[kept], labels[kept]).mean() if kept.any() else 0.0
        np.testing.assert_allclose(dlvm.function(mean)(x), expected, rtol=1e-12)
        assert np.array_equal(dlvm.grad(mean)(x)[~kept], np.zeros((int((~kept).sum()), 4)))


def test_a_class_of_probability_0_may_be_impossible():
    x, p = np.array([0.0, -np.inf, 1.0]), np.array([0.5, 0.0, 0.5])
    np.testing.assert_allclose(nn.cross_entropy(x, p), np.log1p(np.e) - 0.5, rtol=1e-12)
    assert np.isfinite(dlvm.grad(lambda x: nn.cross_entropy(x, p))(x)).all()
    logs = np.array([np.log(0.25), -np.inf, np.log(0.75)])
    for given, log in ((p, False), (np.log(np.maximum(p, 1e-320)), True)):
        found = nn.kl_div(logs[[0, 2]], given[[0, 2]], log_target=log, reduction="sum")
        np.testing.assert_allclose(found, 0.5 * np.log(4 / 3), rtol=1e-12)
    assert nn.kl_div(logs, p)[1] == 0
    assert nn.kl_div(logs, np.array([0, -np.inf, 0]), log_target=True)[1] == 0


def test_one_hot_probabilities_are_labels():
    x, labels = normal(5, 3), np.array([0, 2, 1, 1, 0])
    np.testing.assert_allclose(
        nn.cross_entropy(x, nn.one_hot(labels, 3)), nn.cross_entropy(x, labels), rtol=1e-12
    )


def test_a_logit_far_out_has_a_finite_binary_loss():
    x, t = np.array([1e4, -1e4, 1e4]), np.array([1.0, 0.0, 0.0])
    found = nn.binary_cross_entropy_with_logits(x, t)
    assert np.array_equal(found, [0, 0, 1e4])


def test_rotary_keeps_lengths_and_depends_on_distances_alone():
    q, k = normal(7, 1, 6), normal(7, 1, 6)

    def scores(by):
        at = np.arange(7) + by
        return np.einsum("tnh,snh->ts", nn.rotary(q, at), nn.rotary(k, at))

    np.testing.assert_allclose(scores(0), scores(1000), rtol=1e-9, atol=1e-11)
    norms = np.linalg.norm(nn.rotary(q, np.arange(7)), axis=-1)
    np.testing.assert_allclose(norms, np.linalg.norm(q, axis=-1), rtol=1e-12)
    turned = (q[..., :3] + 1j * q[..., 3:]) * np.exp(
        1j * np.arange(7)[:, None, None] * 10000.0 ** (-np.arange(3) / 3)
    )
    found = nn.rotary(q, np.arange(7))
    np.testing.assert_allclose(found, np.concatenate([turned.real, turned.imag], -1), rtol=1e-12)


def test_initialisers_have_the_variance_that_they_promise():
    key, shape = dlvm.random.key(3), (2, 300, 400)
    made = nn.initializers
    cases = {
        made.he_normal(): 2 / 600,
        made.lecun_uniform(): 1 / 600,
        made.glorot_normal(): 1 / 700,
    }
    cases |= {made.variance_scaling(3.0, "fan_out", "normal"): 3 / 800}
    for init, variance in cases.items():
        found = init(key, shape, "f64")
        np.testing.assert_allclose(
            [found.mean(), found.var()], [0, variance], rtol=0.01, atol=1e-3 * variance**0.5 + 3e-4
        )
    assert np.array_equal(made.constant(3)(key, (2,)), np.full(2, 3, np.float32))
    assert made.zeros(key, (2,)).dtype == made.ones(key, (2,)).dtype == np.float32
    assert np.array_equal(made.ones(key, (2,), "f16"), np.ones(2, np.float16))


WRONG = [
    (lambda: nn.dense(normal(2, 3), normal(4, 3)), ShapeError, "PyTorch's are .* pass w.T"),
    (lambda: nn.dense(normal(2, 3), normal(4, 5)), ShapeError, "one row of weights for each"),
    (lambda: nn.dense(normal(2, 3), normal(3)), ShapeError, "weights of shape"),
    (lambda: nn.embedding(normal(3, 2), normal(3)), DTypeError, "ids are integer row numbers"),
    (lambda: nn.embedding(1.0, np.array([0])), ShapeError, "expected a table"),
    (lambda: nn.layer_norm(normal(2, 3), normal(2)), ShapeError, r"scale of shape \(3,\), found"),
    (lambda: nn.layer_norm(normal(2, 3), axis=2), ShapeError, "no axis 2"),
    (lambda: nn.group_norm(normal(2, 6), 4), UserError, "6 channels don't make 4 groups"),
    (lambda: nn.batch_norm(normal(2, 6), *normal(2, 5)), ShapeError, r"mean of shape \(6,\)"),
    (lambda: nn.dropout(KEY, normal(3), 1.5), UserError, "rate from 0 to 1, found 1.5"),
    (
        lambda: nn.dot_product_attention(*normal(3, 2, 4, 1, 5), mask=np.ones((4, 4))),
        DTypeError,
        "expected a mask of bools",
    ),
    (
        lambda: nn.dot_product_attention(normal(2, 3, 5), normal(2, 2, 5), normal(2, 2, 5)),
        ShapeError,
        "3 heads of queries can't share 2",
    ),
    *(
        (
            lambda window=window: nn.dot_product_attention(
                *normal(3, 2, 4, 1, 5), local_window_size=window
            ),
            ArgumentError,
            "local_window_size of one or two whole numbers",
        )
        for window in (-1, (1, 2, 3), (0.5, 1))
    ),
    (lambda: nn.rotary(normal(3, 1, 5), np.arange(3)), ShapeError, "H even"),
    (
        lambda: nn.gru_cell(normal(2), normal(3), normal(9, 2), normal(9, 3)),
        ShapeError,
        "found",
    ),
    (
        lambda: nn.lstm_cell(normal(2), (normal(3),) * 2, normal(12, 2), normal(12, 3)),
        ShapeError,
        "pass weight_ih.T",
    ),
    (
        lambda: nn.gru_cell(normal(2), normal(3), normal(3, 9), normal(3, 9)),
        ShapeError,
        "one row for each number of x",
    ),
    (lambda: nn.embedding(normal(3, 2), [5]), UserError, "index 5 is out of range"),
    (
        lambda: nn.lstm_cell(normal(2), normal(3), normal(2, 12), normal(3, 12)),
        UserError,
        r"expected the state \(h, c\)",
    ),
    (lambda: nn.gru(normal(2), normal(2, 9), normal(3, 9)), ShapeError, "gru_cell takes a single"),
    (lambda: nn.mse_loss(normal(3), normal(3, 1)), ShapeError, "reshape one of them"),
    (lambda: nn.Flatten(2, 1)(normal(2, 3, 4)), ArgumentError, "no axes from 2 to 1"),
    (lambda: nn.Flatten(5)(normal(2, 3)), ArgumentError, "no axes from 5 to -1"),
    (
        lambda: nn.initializers.orthogonal(column_axis=2)(KEY, (2, 3)),
        ShapeError,
        "the column axis 2, found",
    ),
    (lambda: nn.LSTM(KEY), CallError, r"^nn\.LSTM: missing(?s:.*)help: nn\.LSTM\(key"),
    (lambda: Taller(KEY, 4), CallError, r"^nn\.TransformerDecoderLayer: missing"),
    (lambda: nn.huber_loss(normal(3), normal(3), 0.0), UserError, "positive delta"),
    (
        lambda: nn.cross_entropy(normal(3, 4), np.arange(3), weight=normal(3)),
        ShapeError,
        "weight for",
    ),
    (lambda: nn.initializers.variance_scaling(1, "fan", "normal"), UserError, "expected a mode"),
    (lambda: nn.MLP(KEY, (3,)), UserError, "sizes of all layers"),
    (lambda: nn.MultiHeadAttention(KEY, 3, 8), UserError, "8 features don't make 3 heads"),
    (lambda: nn.initializers.orthogonal()(KEY, (3,)), ShapeError, "two axes or more"),
    (lambda: nn.initializers.delta_orthogonal()(KEY, (3, 4, 2)), ShapeError, "no larger"),
    (lambda: nn.Sequential([3]), UserError, "layers and functions, found 3"),
    (
        lambda: nn.MultiHeadAttention(KEY, 2, 8)(normal(3, 7)),
        ShapeError,
        r"the query needs the shape",
    ),
]


@pytest.mark.parametrize("call, kind, said", WRONG, ids=[w[2][:30] for w in WRONG])
def test_mistakes_are_told_with_their_remedy(call, kind, said):
    with pytest.raises(kind, match=f"(?s){said}") as caught:
        call()
    assert "help: " in str(caught.value)


@pytest.mark.parametrize("dtype", ["int8", "int64"])
def test_a_label_that_is_negative_is_refused_unless_it_is_ignored(dtype: str):
    x, labels = normal(2, 200), np.array([3, -1], dtype)
    for given in (labels, np.array([-100, 3], dtype)):
        with pytest.raises(IndexOutOfRange, match="out of range for an axis of size 200"):
            nn.cross_entropy(x, given)
        with pytest.raises(IndexOutOfRange, match="out of range"):
            dlvm.function(lambda x, y: nn.cross_entropy(x, y))(x, given)
    with pytest.raises(IndexOutOfRange, match="index 200 is out of range"):
        nn.cross_entropy(x, np.array([3, 200]))
    found = nn.cross_entropy(x, labels, ignore_index=-1)
    assert np.array_equal(found, [nn.cross_entropy(x[:1], labels[:1])[0], 0])


@pytest.mark.parametrize("shape, axis", [((4, 3), -1), ((3, 4), -1), ((3, 3), 0), ((2, 2, 3), 0)])
def test_orthogonal_weights_keep_lengths(shape, axis):
    init = nn.initializers.orthogonal(2.0, axis, "f64")
    w = dlvm.function(lambda key: init(key, shape))(KEY)
    matrix = np.moveaxis(w, axis, -1).reshape(-1, shape[axis]) / 2
    small = matrix.T @ matrix if matrix.shape[0] >= matrix.shape[1] else matrix @ matrix.T
    assert w.shape == shape and w.dtype == np.float64
    np.testing.assert_allclose(small, np.eye(len(small)), atol=1e-12)
    np.testing.assert_allclose(init(KEY, shape), w, rtol=1e-12, atol=1e-14)
    assert nn.initializers.orthogonal()(KEY, shape, "f16").dtype == np.float16


@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 4)])
def test_orthogonal_weights_are_the_matrices_that_are_drawn_without_a_layer(shape):
    drawn = dlvm.random.orthogonal(KEY, shape[0], (), "f64", shape[1])
    np.testing.assert_array_equal(nn.initializers.orthogonal(2.0)(KEY, shape, "f64"), 2 * drawn)


@pytest.mark.parametrize("dtype", ["f16", "f32", "f64"])
def test_truncated_normal_weights_are_the_numbers_that_are_drawn_without_a_layer(dtype):
    drawn = dlvm.random.truncated_normal(KEY, -1.0, 1.5, (50,), dtype)
    init = nn.initializers.truncated_normal(2.0, lower=-1.0, upper=1.5)
    np.testing.assert_array_equal(init(KEY, (50,), dtype), 2 * drawn)
    assert init(KEY, (50,), dtype).dtype == drawn.dtype


def test_orthogonal_matrices_have_no_side():
    keys = dlvm.random.split(KEY, 400)
    found = dlvm.vmap(lambda key: nn.initializers.orthogonal()(key, (2, 2)))(keys)
    assert np.abs(found.mean(0)).max() < 0.12
    assert abs((np.linalg.det(found) > 0).mean() - 0.5) < 0.1


def test_a_delta_of_an_orthogonal_matrix_keeps_the_lengths_of_channels():
    w = nn.initializers.delta_orthogonal()(KEY, (3, 2, 2, 4), "f64")
    np.testing.assert_allclose(w[1, 0] @ w[1, 0].T, np.eye(2), atol=1e-12)
    assert np.count_nonzero(w) == 8
