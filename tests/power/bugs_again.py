"""Bugs of ``docs/bugs-found.md``, each as the change of today's sources that brings it back."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Bug:
    """A bug as a replacement of text in one file, and the tests that must find it."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def applied(self, text: str) -> str:
        """The text of the file with the bug; the old text must occur in it exactly once."""
        if (count := text.count(self.old)) != 1:
            raise ValueError(
                f"{self.name}: expected {self.old!r} once in {self.file}, found {count}"
            )
        return text.replace(self.old, self.new)


AGAIN = (
    Bug(
        "trips go on after a failure",
        "gen/cpu/parallel_loops.py",
        '        inner.call(enter, "%leased")\n        inner.leave_if_failed()\n',
        '        inner.call(enter, "%leased")\n',
        ("tests/gen/cpu/test_parallel_loops.py::test_the_first_trip_whose_check_fails_is_told",),
    ),
    Bug(
        "one place for a value returned twice",
        "dlvm/trust/reducing/case.py",
        "left[value].pop(0) for i",
        "left[value][-1] for i",
        ("tests/trust/reducing/test_reduce.py::test_a_result_that_stands_twice_keeps_both_places",),
    ),
    Bug(
        "debug=None is taken for a list",
        "dsl/call/staging.py",
        "if not isinstance(debug, Collection):",
        "if isinstance(debug, int):",
        ("tests/dsl/call/test_function.py::test_options_that_are_no_names_are_refused",),
    ),
    Bug(
        "memory that was not got is made known",
        "gen/checked/bounds_code.py",
        "%none = icmp eq ptr %p, null",
        "%none = icmp ne ptr %p, %p",
        ("tests/gen/checked/test_bounds.py::test_a_call_without_memory_for_its_products_ends",),
    ),
    Bug(
        "memory that was given back stays known",
        "gen/checked/bounds_code.py",
        "%meets = and i1 %starts, %ends",
        "%meets = and i1 %starts, false",
        ("tests/gen/checked/test_bounds.py::test_memory_that_was_given_back_is_forgotten",),
    ),
    Bug(
        "a nested minimum is not split",
        "dlvm/ir/sizes/order.py",
        "return not (inner is None or _splits(*first)) and self._replaced(d, inner, effort - 1)",
        "return False",
        ("tests/ir/test_dims.py::test_a_minimum_is_split_though_another_is_made_of_it",),
    ),
    Bug(
        "a name for an index hides what stands beside it",
        "gen/loops/digits.py",
        "if covered.isdisjoint(elsewhere) and distinct(s.dim,",
        "if distinct(s.dim,",
        (
            "tests/gen/loops/test_verifier.py::test_a_name_for_an_index_hides_none_that_stands_beside_it",
        ),
    ),
    Bug(
        "the smallest stack is written into what all calls share",
        "gen/call/executable.py",
        "return stack_budget(self.interface.stack) if self.interface.enters else 0",
        "own = stack_budget(self.interface.stack) if self.interface.enters else 0\n"
        "        return min([own, *self._contexts])",
        (
            "tests/gen/runtime/test_activations.py"
            "::test_a_thread_with_too_little_stack_takes_none_from_others",
        ),
    ),
    Bug(
        "a quotient and its rest are no digits",
        "gen/loops/digits.py",
        "if (parted := _parted(offset, name, facts)) is not None:",
        "if (parted := _parted(offset, name, facts)) is not None and not parted[1]:",
        (
            "tests/gen/loops/test_verifier.py::test_a_fold_over_a_middle_axis_writes_each_element_once_on_a_gpu",
        ),
    ),
    Bug(
        "conversions of halves are left to the processor",
        "gen/llvm/binding.py",
        "if any(name.encode() in file for name in halves.OWN for file in files):",
        "if any(name.encode() in file for name in () for file in files):",
        ("tests/gen/llvm/test_half_conversions.py",),
    ),
    Bug(
        "arrays of kernels take no stack",
        "gen/text/module.py",
        "return max(parts, default=0) + called + (PRODUCT if self.objects else 0)",
        "return PRODUCT if self.objects else 0",
        ("tests/gen/runtime/test_activations.py::test_what_kernels_take_is_read_off_their_code",),
    ),
    Bug(
        "one slope is taken for both sides of a kink",
        "dlvm/trust/derivatives.py",
        "kink = abs(bent - 2 * less) + abs(less - 2 * least)",
        "kink = 0.0",
        (
            "tests/trust/test_examine.py"
            "::test_the_error_of_a_slope_reaches_over_a_kink_within_the_step",
        ),
    ),
    Bug(
        "derivatives of derivatives are not compared",
        "dlvm/trust/derivatives.py",
        "        if d.of in given:\n            own =",
        "        if d.of == whole.main.name:\n            own =",
        (
            "tests/trust/test_examine.py"
            "::test_a_rule_that_is_wrong_in_second_derivatives_only_is_named",
        ),
    ),
    Bug(
        "a number that is too large is an infinity",
        "dlvm/ir/text/parser.py",
        "endless = np.isinf(out) if types[0].dtype.is_float else np.zeros(0, bool)",
        "endless = np.zeros(0, bool)",
        ("tests/ir/text/test_parser_errors.py", "-k", "large"),
    ),
    Bug(
        "the last vector of an array is written over the next one",
        "gen/cpu/access.py",
        "size = local.size + (self.longest if v is None and local.size > 1 else 0)",
        "size = local.size",
        ("tests/gen/lower/test_folds.py::test_the_end_of_a_piece_is_the_end_of_its_array",),
    ),
    Bug(
        "masks are not hidden from LLVM in narrow vectors",
        "gen/cpu/kernels.py",
        'masks = target.vector_bits > 128 or "+avx" in target.features.split(",")',
        "masks = target.vector_bits > 128",
        ("tests/gen/lower/test_kernels.py::test_one_lane_stores_no_more_than_its_element",),
    ),
    Bug(
        "a rest is not shown to be no greater than what it is of",
        "dlvm/ir/sizes/order.py",
        'if call.function == "mod" and k < 0 and self.never_negative(call.lhs, effort):',
        'if call.function == "mod" and k < 0 and bounds(call.lhs, ranges)[0] >= 0:',
        ("tests/ir/test_dims.py::test_a_rest_is_no_greater_than_what_it_is_the_rest_of",),
    ),
    Bug(
        "how much stack there is is asked once",
        "gen/runtime/activations.py",
        "class _Known(threading.local):",
        "class _Known:",
        (
            "tests/gen/runtime/test_activations.py::test_a_recursion_that_ran_in_a_large_stack_knows_a_small_one",
        ),
    ),
    Bug(
        "checks of bounds know 1,021 buffers",
        "gen/checked/bounds.py",
        "ROOM = (1 << 16) - 3",
        "ROOM = 1021",
        ("tests/gen/checked/test_bounds.py::test_calls_may_have_thousands_of_buffers",),
    ),
    Bug(
        "an empty tape has nothing to give",
        "gen/cpu/driver.py",
        'cell = self.w.value(f"call ptr @tape_top({arguments})")',
        'cell = self.w.value(f"select i1 true, ptr {top}, ptr null")',
        ("tests/dsl/flow/test_tapes.py",),
    ),
    Bug(
        "open sizes are equal as they are written",
        "dsl/trace/sizes.py",
        "return False if at_least(a, b + 1) or at_least(b, a + 1) else None",
        "return False",
        ("tests/dsl/trace/test_sizes.py::test_what_a_size_is_compared_with_decides_in_the_call",),
    ),
    Bug(
        "a callee that is handed a tape does not know its lanes",
        "ad/batch_control.py",
        "guard = b.guard(op) or _size_carrier(b, xs, flags)",
        "guard = b.guard(op)",
        (
            "tests/ad/test_batch.py::"
            "test_a_callee_that_is_handed_nothing_but_a_tape_knows_how_many_lanes_there_are",
        ),
    ),
)
"""The youngest bugs of the table whose mechanism is still there, the latest one first."""

GONE = {
    "large products end the process in threads with half a MiB of stack": (
        "panels and tiles lie in one block of the heap; a product has no code that puts them on "
        "the stack"
    ),
}
"""Bugs among these that no small change brings back, and why."""
