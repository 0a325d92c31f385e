"""One adjoint beside differences: which elements are right, wrong, at a kink, or not to be seen."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dlvm.ir import Array

from .causes import Evidence, cause
from .differences import CLEAR, FIRST, Slope, agreed, slope
from .findings import Checked, Fault, Kink
from .levels import Mapping

VISIBLE = 1e-3
"""A derivative that may be wrong by more than this part of itself has not been checked."""
OTHER = 0.37 * FIRST
"""Another first step, for a second opinion."""
BENDS = 4
"""Random directions in which a function is tried before it counts as linear at a point."""


@dataclass(frozen=True)
class Leaf:
    """An array to differentiate with respect to: the positions of its elements, and
    those checked.
    """

    label: str
    shape: tuple[int, ...]
    every: Array
    some: Array

    def element(self, k: int) -> str:
        """What a user writes to reach the element at a place of the whole vector."""
        at = np.unravel_index(k - int(self.every[0]), self.shape) if self.shape else ()
        return f"{self.label}[{', '.join(str(int(n)) for n in at)}]" if self.shape else self.label


@dataclass(frozen=True)
class Element:
    """The derivative of ``<w, f>`` with respect to one element, by differences; ``column`` is that
    of ``f``.
    """

    at: int
    value: float
    error: float
    steep: float
    left: float
    right: float
    kink: bool
    jump: bool
    column: Array


@dataclass(frozen=True)
class Look:
    """A function, a cotangent ``w`` and the adjoint that was found for it."""

    function: Mapping
    order: int
    w: Array
    found: Array
    allowed: Array

    @property
    def scale(self) -> Array:
        """How far each argument is moved, compared with the others."""
        return np.sqrt(np.maximum(1.0, np.abs(self.function.x)))

    def slope(self, direction: Array, first: float = FIRST) -> Slope:
        """The derivative of the function along a direction."""
        f = self.function
        return slope(f, f.x, direction, f.noise, first, f.value)

    def element(self, k: int, first: float = FIRST) -> Element:
        """The derivative with respect to one element, by differences."""
        direction = np.zeros(self.function.x.size)
        direction[k] = size = float(self.scale[k])
        return self._element(k, self.slope(direction, first), size)

    def sure(self, k: int) -> Element:
        """The derivative with respect to one element; where the adjoint differs, by two opinions.

        An element with respect to which there is no derivative, as a tie of three has one partial
        derivative along each axis and another one beside it, is marked like one at a jump.
        """
        e = self.element(k)
        if not self.is_wrong(e) or not self.is_wrong(e := self.again(e)):
            return e
        return replace(e, jump=True) if self.is_bent(e) else e

    def is_bent(self, e: Element) -> bool:
        """Whether the slope along an element changes with how the other elements move.

        A derivative is linear: the slope along a sum of directions is the sum of the slopes.
        """
        dice = np.random.default_rng(e.at)
        for _ in range(BENDS):
            aside = dice.standard_normal(self.function.x.size) * self.scale
            both = aside.copy()
            both[e.at] += self.scale[e.at]
            one, other = (self._element(e.at, self.slope(d), 1.0) for d in (both, aside))
            size = float(self.scale[e.at])
            bound = CLEAR * (one.error + other.error + e.error * size)
            if abs(one.value - other.value - e.value * size) > bound:
                return True
        return False

    def again(self, e: Element) -> Element:
        """The same element by other steps too; the error is at least their difference."""
        direction = np.zeros(self.function.x.size)
        direction[e.at] = size = float(self.scale[e.at])
        one, other = self.slope(direction), self.slope(direction, OTHER)
        return self._element(e.at, agreed(one, other), size)

    def _element(self, k: int, s: Slope, size: float) -> Element:
        used = np.isfinite(self.function.value) & (self.w != 0)
        w = self.w[used]
        left, right = w * s.left[used] / size, w * s.right[used] / size
        with np.errstate(all="ignore"):
            return Element(
                k,
                float(np.sum(w * s.value[used])) / size,
                float(np.sum(np.abs(w) * s.error[used])) / size,
                float(np.sum(np.abs(w) * s.steep[used])) / size,
                float(np.sum(np.minimum(left, right))),
                float(np.sum(np.maximum(left, right))),
                bool(np.any(s.kink[used])),
                bool(np.any(s.jump[used])),
                s.value / size,
            )

    # -- one element -----------------------------------------------------------------------------

    def bound(self, e: Element) -> float:
        """How far the adjoint may be from the differences."""
        return CLEAR * e.error + float(self.allowed[e.at])

    def is_wrong(self, e: Element) -> bool:
        """Whether the adjoint is none of what the differences allow."""
        found, bound = float(self.found[e.at]), self.bound(e)
        if e.jump or not np.isfinite(bound) or not np.isfinite(e.value):
            return False
        if e.kink:
            return not e.left - bound <= found <= e.right + bound
        return not abs(found - e.value) <= bound

    def is_seen(self, e: Element) -> bool:
        """Whether a wrong derivative would have been noticed."""
        bound = self.bound(e)
        size = max(abs(float(self.found[e.at])), abs(e.value), e.steep)
        return not (e.kink or e.jump) and bool(np.isfinite(bound)) and bound <= VISIBLE * size

    # -- all of an array -------------------------------------------------------------------------

    def fault(self, leaf: Leaf, elements: list[Element]) -> Fault | None:
        """The worst of the elements, made by ``sure``, at which the adjoint is wrong."""
        wrong = [e for e in elements if self.is_wrong(e)]
        if not wrong:
            return None
        worst = max(wrong, key=lambda e: abs(float(self.found[e.at]) - e.value))
        why = self._cause(leaf, [e for e in elements if not e.jump])
        kinked = (worst.left, worst.right) if worst.kink else None
        if kinked and not any(not e.kink for e in wrong):
            why = "at a kink it must lie between the slopes of both sides"
        return Fault(
            leaf.label,
            leaf.element(worst.at),
            self.order,
            "reverse mode",
            float(self.found[worst.at]),
            worst.value,
            worst.error,
            why,
            len(wrong),
            len(elements),
            kinked,
        )

    def _cause(self, leaf: Leaf, elements: list[Element]) -> str:
        at = np.array([e.at for e in elements], int)
        evidence = Evidence(
            self.found[at],
            np.array([e.value for e in elements]),
            np.array([e.error for e in elements]),
            leaf.shape,
        )
        if evidence.whole:
            columns = np.array([e.column for e in elements]).T
            evidence = replace(evidence, jacobian=columns, w=self.w)
        return cause(evidence)

    def checked(self, leaf: Leaf, elements: list[Element]) -> Checked:
        """The report on an array whose derivative is right."""
        seen = [e for e in elements if self.is_seen(e)]
        odd = [e for e in elements if e.kink or e.jump]
        size = max((abs(e.value) for e in seen), default=0.0)
        error = max((abs(float(self.found[e.at]) - e.value) for e in seen), default=0.0)
        kinks = tuple(self._kink(leaf, e) for e in odd)
        unchecked = len(elements) - len(seen) - len(odd)
        return Checked(
            leaf.label,
            self.order,
            leaf.every.size,
            len(seen),
            unchecked,
            error / size if size else 0.0,
            kinks,
        )

    def _kink(self, leaf: Leaf, e: Element) -> Kink:
        nan = float("nan")
        sides = (nan, nan) if e.jump else (e.left, e.right)
        return Kink(leaf.element(e.at), self.order, *sides, float(self.found[e.at]))

    def along(self, places: Array, signs: Array) -> bool:
        """Whether the adjoint is wrong along a direction in some elements."""
        direction = np.zeros(self.function.x.size)
        direction[places] = signs * self.scale[places]
        s = agreed(self.slope(direction), self.slope(direction, OTHER))
        e = self._element(int(places[0]), s, 1.0)
        if e.kink or e.jump or not np.isfinite(e.value):
            return False
        found = float(np.sum(self.found * direction))
        bound = CLEAR * e.error + float(np.sum(np.abs(direction) * self.allowed))
        return np.isfinite(bound) and not abs(found - e.value) <= bound
