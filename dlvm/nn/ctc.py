"""Connectionist temporal classification: a loss for labels that are not aligned with the steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dlvm.base.errors import ArgumentError, ShapeError
from dlvm.dsl.elements.eager import exported
from dlvm.dsl.flow.loops import scan
from dlvm.dsl.trace.operands import plain, shape_of, shown_shape
from dlvm.dsl.trace.scopes import user_origin
from dlvm.dsl.words.namespace import xp

from .normalised import log_softmax
from .precision import float_of, wide
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
    """Minus the log-probability of the labels, summed over all alignments (Graves et al., 2006).

    Logits are (examples, steps, classes) and labels (examples, length). The paddings of both have
    two axes, and are 0 up to the end of an example and 1 after it. Class ``blank_id`` stands for no
    label: repeated classes without one between them are one label. ``log_epsilon`` takes the place
    of log(0), so that labels which do not fit have a large loss instead of an infinite one.
    """
    _check(logits, logit_paddings, labels, label_paddings)
    _check_blank(blank_id, shape_of(plain(logits))[-1])
    kind = float_of(logits)
    logs = xp.permute_dims(log_softmax(wide(logits, kind)), (1, 0, 2))
    ended = xp.permute_dims(xp.astype(xp.asarray(logit_paddings), "bool"), (1, 0))
    seen = xp.logical_not(xp.astype(xp.asarray(label_paddings), "bool"))
    numbers = xp.astype(xp.where(seen, labels, blank_id), "int64")
    done = _done(logs, ended, numbers, blank_id, log_epsilon)
    lengths = xp.expand_dims(xp.sum(xp.astype(seen, "int64"), axis=1), 1)
    losses = xp.negative(xp.squeeze(xp.take_along_axis(done, lengths, 1), 1))
    return reduced("ctc_loss", losses, reduction, kind=kind)


def _done(logs: Any, ended: Any, numbers: Any, blank_id: int, log_epsilon: float) -> Any:
    """The log-probability that all steps together emit the first n labels: (examples, length + 1).

    ``logs``, the log-probabilities of the classes, are (steps, examples, classes).
    """
    steps, examples, _ = logs.shape
    length, kind = numbers.shape[1], logs.dtype
    of_labels = xp.take_along_axis(logs, xp.broadcast_to(numbers, (steps, examples, length)), -1)
    of_blanks = logs[:, :, blank_id : blank_id + 1]
    never = xp.full((examples, length), log_epsilon, dtype=kind)
    start = (xp.concat([xp.zeros((examples, 1), kind), never], axis=1), never)
    step = _step(*_ways(numbers, log_epsilon, kind))
    (blank, label), _ = scan(step, start, (of_labels, of_blanks, ended))
    return _arrived(blank, label)


def _ways(numbers: Any, log_epsilon: float, kind: Any) -> tuple[Any, Any]:
    """The log-weight of a transition from each label: directly to the next one, and to a blank.

    It is 0 for a transition that is allowed. A label that is repeated must follow a blank; the
    blank before a different label is counted with the direct transition.
    """
    count, length = numbers.shape
    same = xp.equal(numbers[:, :-1], numbers[:, 1:])
    same = xp.concat([same, xp.zeros((count, min(length, 1)), "bool")], axis=1)
    zero, never = xp.zeros((), kind), xp.full((), log_epsilon, dtype=kind)
    return xp.where(same, never, zero), xp.where(same, zero, never)


def _step(right_after: Any, after_blank: Any) -> Callable[..., Any]:
    """One step of the forward algorithm: n labels are emitted, the last step a blank or a label."""

    def step(carry: Any, row: Any) -> Any:
        blank, label = carry
        for_label, for_blank, is_over = row
        ready = _arrived(blank, label + right_after)
        next_label = xp.logaddexp(ready[:, :-1], label) + for_label
        next_blank = _arrived(ready, label + after_blank) + for_blank
        over = xp.expand_dims(is_over, 1)
        return (xp.where(over, blank, next_blank), xp.where(over, label, next_label)), None

    return step


def _arrived(blank: Any, label: Any) -> Any:
    """The log-probability of n labels, whether the last step is a blank or the n-th label."""
    return xp.concat([blank[:, :1], xp.logaddexp(blank[:, 1:], label)], axis=1)


def _check_blank(blank_id: Any, classes: Any) -> None:
    if isinstance(classes, int) and not 0 <= blank_id < classes:
        raise ArgumentError(
            f"ctc_loss: expected a blank_id from 0 to {classes - 1}, found {blank_id}",
            origin=user_origin(),
            remedy="write blank_id=0 for the first class",
        )


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
