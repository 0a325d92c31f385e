"""What a call of a single array function takes besides the references of its operations.

python -m benchmarks.singles [--limit 5]

Calls every function of ``tests/names/table.py`` outside of a trace as often as it takes to make a
record, and lists those that take more than the limit, in microseconds.
"""

from __future__ import annotations

import argparse
import timeit
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from dlvm.dsl.elements import records
from tests.names.forms import Form, forms_of, public_names
from tests.names.table import SILENT


def microseconds(call: Callable[[], Any]) -> float:
    """The best time of a call."""
    return min(timeit.repeat(call, number=20, repeat=50)) / 20 * 1e6


def record_of(form: Form) -> tuple[records.Record | None, list[Any]]:
    """The record of a call that was made three times, and the arrays that it is given."""
    arrays: list[Any] = []
    key = records._key_of_call(form.args, form.options, arrays)
    kept = [c.cell_contents for c in form.call.__closure__ or ()]
    of = next(k[0] for k in kept if isinstance(k, list) and k)
    return (of._kept.get(key) if isinstance(of, records.Records) else None), arrays


def of_references(record: records.Record, arrays: list[Any]) -> float:
    """The time of the references alone."""
    known, total = [*arrays, *record.constants], 0.0
    for run, operands, several in record.steps:
        given = [known[i] for i in operands]
        total += microseconds(lambda run=run, given=given: run(*given))
        out = run(*given)
        known += map(np.asarray, out if several else (out,))
    return total


def own() -> Iterator[tuple[str, float | None, int]]:
    """The name, the time besides references and the number of operations of each call."""
    for name in public_names():
        for form in [] if name in SILENT or "." in name else forms_of(name):
            for _ in range(3):
                form.call(*form.args, **form.options)
            record, arrays = record_of(form)
            if record is None:
                yield name, None, 0
                continue
            whole = microseconds(lambda form=form: form.call(*form.args, **form.options))
            yield name, whole - of_references(record, arrays), len(record.steps)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--limit", type=float, default=5)
    limit = parser.parse_args().limit
    found = [*own()]
    print("not recorded:", ", ".join(sorted({n for n, t, _ in found if t is None})))
    slow: dict[str, tuple[float, int]] = {}
    for name, seconds, steps in found:
        if seconds is not None and seconds > limit:
            slow[name] = max(slow.get(name, (0.0, 0)), (seconds, steps))
    quick = [t for _, t, _ in found if t is not None and t <= limit]
    print(f"{len(quick)} of {len(found)} calls take at most {limit:g} us; the others:")
    for name, (seconds, steps) in sorted(slow.items(), key=lambda x: x[1]):
        print(f"{name:24} {seconds:6.1f} us, {steps} operations")


if __name__ == "__main__":
    main()
