"""Activity analysis: which values vary with an input, and which are useful to a result.

Both questions are answered for a whole body, its regions included; a loop is analysed again until
the flags of its carried values reach a fixed point. Answers are remembered by body and flags, so
nested loops cost time proportional to the size of their text. A recursive function is analysed
until its result agrees with the result that was assumed for its own calls. A tape is always active:
pushes and pops must stay paired, whether or not a value on the tape matters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dlvm.ir import Function, Op, TensorType, Value
from dlvm.ops import Pop, Structured

Flags = tuple[bool, ...]
Key = tuple[Function, Flags]
Known = dict[Key, set[Value]]


def is_tape(t: TensorType) -> bool:
    """Whether values of the type are tapes."""
    return t.dtype.kind == "t"


def flows(t: TensorType) -> bool:
    """Whether derivatives flow through values of the type: through floats, and tapes of them."""
    return t.dtype.is_float or is_tape(t)


def both(a: Sequence[bool], b: Sequence[bool]) -> Flags:
    """The flags that are set in both sequences."""
    return tuple(x and y for x, y in zip(a, b, strict=True))


def region_arguments(op: Op) -> slice:
    """The slice of an operation's operands that are the arguments of its regions."""
    return op.seen if isinstance(op, Structured) else slice(None)


def carried_count(op: Op) -> int:
    """How many leading results of a loop body become its first parameters on the next trip."""
    return op.carries if isinstance(op, Structured) else 0


class Activity:
    """The varying and the useful values of every body that was analysed."""

    def __init__(self, function: Callable[[str], Function]) -> None:
        self._function = function
        self._varied: Known = {}
        self._useful: Known = {}
        self._guesses: dict[tuple[bool, Key], Flags] = {}
        self._asked: set[tuple[bool, Key]] = set()

    # -- what is followed ------------------------------------------------------------------------

    def always(self, t: TensorType) -> bool:
        """Whether values of the type are active regardless of their uses."""
        return is_tape(t)

    def follows(self, t: TensorType) -> bool:
        """Whether values of the type can be active."""
        return flows(t)

    def stops(self, op: Op) -> bool:
        """Whether no dependence passes through the operation."""
        return bool(op.nondifferentiable)

    def bodies(self, op: Op) -> tuple[Function, ...]:
        """The functions whose results the operation returns: its regions or its callee."""
        if op.called is not None:
            return (self._function(op.called.name),)
        if isinstance(op, Structured):
            return op.giving
        return tuple(op.regions.values()) if op.holds_regions else ()

    # -- from inputs to results ----------------------------------------------------------------

    def varied(self, fn: Function, params: Flags) -> set[Value]:
        """The values of the function that depend on the flagged parameters."""
        key = (fn, params)
        if key not in self._varied:
            flagged = zip(fn.params, params, strict=True)
            found: set[Value] = {
                p for p, f in flagged if self.always(p.type) or (f and self.follows(p.type))
            }
            for op in fn.ops:
                flags = self.results_varied(op, tuple(v in found for v in op.operands))
                found.update(r for r, f in zip(op.results, flags, strict=True) if f)
            self._varied[key] = found
        return self._varied[key]

    def results_varied(self, op: Op, operands: Flags) -> Flags:
        """Which results of an operation depend on its flagged operands."""
        if any(operands) and not self.stops(op):
            entering = self.entering(op, operands)
            bodies = self.bodies(op)
            if not bodies or (op.ruled and any(operands[: len(op.ruled)])):
                return tuple(self.follows(t) for t in op.result_types)
            found = [self.through(op, body, entering) for body in bodies]
            loop = entering[: carried_count(op)]
            flags = tuple(any(f) for f in zip(*found, strict=True))
            return (*loop, *flags[len(loop) :])
        return tuple(self.always(t) for t in op.result_types)

    def entering(self, op: Op, operands: Flags) -> Flags:
        """Which parameters of the operation's regions vary after any number of trips."""
        flags = operands[region_arguments(op)]
        while n := carried_count(op):
            (body,) = self.bodies(op)
            out = self.through(op, body, flags)
            grown = (*(a or b for a, b in zip(flags[:n], out[:n], strict=True)), *flags[n:])
            if grown == flags:
                break
            flags = grown
        return flags

    def through(self, op: Op, body: Function, params: Flags) -> Flags:
        """Which results of a body depend on its flagged parameters."""

        def look() -> Flags:
            found = self.varied(body, params)
            return tuple(r in found for r in body.results)

        return self._settled(op, (body, params), body.results, self._varied, look)

    # -- from results to inputs ----------------------------------------------------------------

    def useful(self, fn: Function, results: Flags) -> set[Value]:
        """The values of the function on which the flagged results depend."""
        key = (fn, results)
        if key not in self._useful:
            flagged = zip(fn.results, results, strict=True)
            found: set[Value] = {r for r, f in flagged if f and flows(r.type)}
            for op in reversed(fn.ops):
                flags = tuple(r in found or is_tape(r.type) for r in op.results)
                if any(flags):
                    needed = zip(op.operands, self.operands_useful(op, flags), strict=True)
                    found.update(v for v, f in needed if f)
            found.update(p for p in fn.params if is_tape(p.type))
            found.update(r for op in fn.ops for r in op.results if is_tape(r.type))
            self._useful[key] = found
        return self._useful[key]

    def operands_useful(self, op: Op, results: Flags) -> Flags:
        """On which operands of an operation its flagged results depend."""
        bodies = self.bodies(op)
        flows_in = [flows(v.type) and not op.nondifferentiable for v in op.operands]
        if not bodies:
            return tuple(flows_in)
        leaving = self.leaving(op, results)
        found = [self._back(op, body, leaving) for body in bodies]
        flags = [any(f) for f in zip(*found, strict=True)]
        flags[: carried_count(op)] = leaving[: carried_count(op)]
        if op.ruled:  # the user's rule may depend on operands that the function ignores
            flags[: len(op.ruled)] = (any(results),) * len(op.ruled)
        where = range(len(op.operands))[region_arguments(op)]
        inside = dict(zip(where, flags, strict=True))
        return tuple(f and inside.get(i, False) for i, f in enumerate(flows_in))

    def leaving(self, op: Op, results: Flags) -> Flags:
        """Which results of the operation's regions are useful after any number of trips."""
        while n := carried_count(op):
            (body,) = self.bodies(op)
            needed = self._back(op, body, results)
            grown = (*(a or b for a, b in zip(results[:n], needed[:n], strict=True)), *results[n:])
            if grown == results:
                break
            results = grown
        return results

    def _back(self, op: Op, body: Function, results: Flags) -> Flags:
        def look() -> Flags:
            found = self.useful(body, results)
            return tuple(p in found for p in body.params)

        return self._settled(op, (body, results), body.params, self._useful, look)

    def _settled(
        self, op: Op, key: Key, ends: Sequence[Value], known: Known, look: Callable[[], Flags]
    ) -> Flags:
        """The flags that ``look`` computes for a body; for a call, a fixed point of recursion.

        The iteration starts from the flags that are always set. Results that were remembered under
        an assumption which proved too small are forgotten.
        """
        if op.called is None or key in known:
            return look()
        guess = (known is self._varied, key)
        if guess in self._guesses:
            self._asked.add(guess)
            return self._guesses[guess]
        flags = tuple(self.always(v.type) for v in ends)
        while True:
            self._guesses[guess], count = flags, len(known)
            flags = look()
            if guess not in self._asked or flags == self._guesses[guess]:
                break
            for late in list(known)[count:]:
                del known[late]
        del self._guesses[guess]
        self._asked.discard(guess)
        return flags


class Dependence(Activity):
    """Which values are computed from some parameters at all, whatever their type.

    Values on a tape are not tracked one by one. A float that is popped counts as independent, since
    the floats that do depend are pushed for second derivatives; an integer or boolean that is
    popped counts as dependent if the tape does.
    """

    def always(self, t: TensorType) -> bool:
        """No value depends on the parameters regardless of its uses."""
        return False

    def follows(self, t: TensorType) -> bool:
        """Values of every type can depend on the parameters."""
        return True

    def stops(self, op: Op) -> bool:
        """Every operation passes dependence on."""
        return False

    def results_varied(self, op: Op, operands: Flags) -> Flags:
        """As in ``Activity``; in addition every result of a choice depends on its condition."""
        if isinstance(op, Structured) and any(operands[: op.offset]):
            return (True,) * len(op.results)
        if isinstance(op, Pop):
            return tuple(operands[0] and (is_tape(t) or not flows(t)) for t in op.result_types)
        return super().results_varied(op, operands)
