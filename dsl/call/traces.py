"""Traces of one function: until what they change is settled, and again for audits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from dlvm.dsl.state.captures import Captures
from dlvm.dsl.trace.accidents import tell_accident
from dlvm.dsl.trace.scopes import Trace
from dlvm.dsl.trace.specs import Arguments, check_lists, no_field, unlike_an_array
from dlvm.dsl.trace.tracing import Input, Program, trace_program
from dlvm.dsl.trace.trees import Spec as Tree
from dlvm.dsl.trace.trees import captured_functions, node_kinds
from dlvm.dsl.trace.warned import swallowed, unrolled
from dlvm.ir import Array

from .recursion import identity
from .signature import Signature
from .source import Source
from .type_questions import tell_types

Find: TypeAlias = "Callable[[Array], str | None]"
"""A function that names a captured array; None for one that becomes a constant."""


class Traces:
    """Traces one function; ``told`` is what its user has been warned of."""

    def __init__(self, source: Source, told: set[str]) -> None:
        self.source = source
        self._told = told

    def settled(
        self, signature: Signature, arguments: Arguments
    ) -> tuple[Program, Captures, list[Input]]:
        """Traces; a second time if the first trace changed captured state, such as a table filled
        once.
        """
        for name, value in zip(arguments.names, arguments.values, strict=True):
            check_lists(name, value)
        for again in (False, True):
            program, captures, inputs = self._with_captures(signature, arguments)
            if captures.check(self.source.label, again):
                break
        if held := captures.still_held(program.trace.is_known):
            program, captures, inputs = self._with_captures(signature, arguments, held)
            captures.check(self.source.label, again=True)
        captures.tell(self.source.label, self._told)
        unrolled(self.source.label, program.module, self._told)
        tell_accident(self.source.label, program, inputs, self._told)
        tell_types(self.source.fn, arguments, self._told)
        swallowed(program.trace.refused, self._told)
        self._mark_donated(program, arguments, signature.tree)
        return program, captures, inputs

    def again(self, signature: Signature, arguments: Arguments, find: Find) -> Program:
        """Traces without looking for captured state."""
        program, _ = self._once(signature, arguments, find)
        self._mark_donated(program, arguments, signature.tree)
        program.trace.forget()
        return program

    def _with_captures(
        self, signature: Signature, arguments: Arguments, adopted: Sequence[Array] = ()
    ) -> tuple[Program, Captures, list[Input]]:
        kinds = node_kinds(arguments.values)
        roots = [*self.source.roots, *captured_functions(arguments.values)]
        captures = Captures(roots, dict(arguments.static), not kinds, kinds, adopted)
        program, inputs = self._once(signature, arguments, captures.find)
        return program, captures, inputs

    def _once(
        self, signature: Signature, arguments: Arguments, find: Find
    ) -> tuple[Program, list[Input]]:
        """Traces once, with a function that names the captured arrays."""
        source, tree = self.source, signature.tree
        types, weak = [t for t, _ in signature.leaves], [w for _, w in signature.leaves]
        inputs = source.inputs(arguments, tree, types, weak, [None] * len(types))
        inputs = signature.placed(inputs)
        trace = Trace(source.label, find, frozenset(map(id, source.known)), source.options.mesh)
        trace.main, trace.python = identity(source.fn, arguments, tree), source.fn
        try:
            program = trace_program(trace, inputs, source.body(arguments, tree))
        except (TypeError, AttributeError) as error:
            lost = isinstance(error, AttributeError)
            explained = no_field(error) if lost else unlike_an_array(error, arguments)
            if explained is None:
                raise
            raise explained from error
        return program, inputs

    def _mark_donated(self, program: Program, arguments: Arguments, tree: Tree) -> None:
        params = program.module.main.params
        names = arguments.leaf_names(tree)
        for param, (argument, _) in zip(params, names, strict=False):
            param.donated = argument in self.source.donate
        kept = set(program.module.main.donations().values())
        for i, param in enumerate(params):
            param.donated = i in kept
