"""Connectionist temporal classification: labels whose places in a sequence are not known."""

from __future__ import annotations

from typing import Any

from dlvm.base.errors import ShapeError
from dlvm.dsl.elements.eager import exported
from dlvm.dsl.flow.loops import scan
from dlvm.dsl.trace.operands import plain, shape_of, shown_shape
from dlvm.dsl.trace.scopes import user_origin
from dlvm.dsl.words.namespace import xp

from .normalised import log_softmax
from .reductions import reduced


@exported("nn.ctc_loss")
def ctc_loss(
    logits: Any,
    logit_paddings: Any,
    labels: Any,
    label_paddings: Any,
    *,
    blank_id: int = 0,
    log_epsilon: float = -1e5,
    reduction: str = "none",
) -> Any:
    """Minus the log-probability of labels, over all ways to place them (Graves et al., 2006).

    Logits are (examples, steps, classes) and labels (examples, length); paddings of the first two
    axes are 1 after the end and 0 before it. Class ``blank_id`` stands for no label: repeated
    classes without one between them are one label. ``log_epsilon`` takes the place of log(0), so
    that labels which do not fit have a large loss instead of an infinite one.
    """
    _check(logits, logit_paddings, labels, label_paddings)
    given = xp.asarray(logits) * 1.0
    kind = "float32" if given.dtype.itemsize == 2 else given.dtype
    logs = log_softmax(xp.astype(given, kind))
    examples, steps, _ = logs.shape
    length = xp.asarray(labels).shape[1]
    seen = xp.logical_not(xp.astype(xp.asarray(label_paddings), "bool"))
    numbers = xp.astype(xp.where(seen, labels, blank_id), "int64")
    places = xp.broadcast_to(xp.expand_dims(numbers, 1), (examples, steps, length))
    of_labels = xp.permute_dims(xp.take_along_axis(logs, places, -1), (1, 0, 2))
    of_blanks = xp.permute_dims(logs[:, :, blank_id : blank_id + 1], (1, 0, 2))
    ended = xp.permute_dims(xp.astype(xp.asarray(logit_paddings), "bool"), (1, 0))
    same = xp.astype(xp.equal(numbers[:, :-1], numbers[:, 1:]), kind)
    repeats = xp.concat([same, xp.zeros((examples, min(length, 1)), kind)], axis=1) * log_epsilon
    blocked = log_epsilon - repeats

    def step(carry: Any, row: Any) -> Any:
        """Log-probabilities that the first n labels are done, the last step a blank or a label."""
        blank, label = carry
        for_label, for_blank, is_over = row
        ready = _arrived(blank, label + repeats)
        next_label = xp.logaddexp(ready[:, :-1], label) + for_label
        next_blank = _arrived(ready + for_blank, label + for_blank + blocked)
        over = xp.expand_dims(is_over, 1)
        return (xp.where(over, blank, next_blank), xp.where(over, label, next_label)), None

    first = xp.zeros((examples, 1), kind)
    never = xp.full((examples, length), log_epsilon, dtype=kind)
    start = (xp.concat([first, never], axis=1), never)
    (blank, label), _ = scan(step, start, (of_labels, of_blanks, ended))
    lengths = xp.expand_dims(xp.sum(xp.astype(seen, "int64"), axis=1), 1)
    found = xp.take_along_axis(_arrived(blank, label), lengths, 1)
    losses = xp.astype(xp.negative(xp.squeeze(found, 1)), given.dtype)
    return reduced("ctc_loss", losses, reduction)


def _arrived(blank: Any, label: Any) -> Any:
    """After n labels: from a blank, or right from the n-th label."""
    return xp.concat([blank[:, :1], xp.logaddexp(blank[:, 1:], label)], axis=1)


def _check(logits: Any, logit_paddings: Any, labels: Any, label_paddings: Any) -> None:
    shape, ends = shape_of(plain(logits)), shape_of(plain(logit_paddings))
    given, label_ends = shape_of(plain(labels)), shape_of(plain(label_paddings))
    if (
        len(shape) != 3
        or len(given) != 2
        or ends != shape[:2]
        or label_ends != given
        or given[0] != shape[0]
    ):
        found = ", ".join(map(shown_shape, (shape, ends, given, label_ends)))
        raise ShapeError(
            "ctc_loss: expected logits (examples, steps, classes), paddings (examples, steps), "
            f"labels (examples, length) and paddings of that shape, found {found}",
            origin=user_origin(),
            remedy="pad all examples to one length; a padding is 1 after the end, else 0",
        )
