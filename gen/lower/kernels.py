"""From a kernel of tensor operations to loops: which results are stored in which nest.

The optimiser makes kernels of one *frame*: a shape S, reductions over the same axes A of it,
results of shape S or of S without A. Then a row is read by one loop for each level of
reductions and written by one more. A body that has no frame is still lowered, one nest for each
shape of results. In place: the targets of scatter and update kernels.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace

from dlvm.gen.loops.builder import At
from dlvm.gen.loops.frames import (
    Frame,
    folds,
    frame_of,
    levels_of,
)
from dlvm.gen.loops.simplify import used
from dlvm.gen.loops.statements import (
    Body,
    Buffer,
    LoopKernel,
    Scalar,
    dims,
    statements,
)
from dlvm.ir import Dim, Value
from dlvm.ir.sizes.dims import maximum, minimum, product, symbols
from dlvm.ir.sizes.positions import Index, flatten, reshaped
from dlvm.ops import (
    Kernel,
    Reduction,
    Running,
    SearchSorted,
    Sort,
    Update,
    overwriter,
    windows,
)
from dlvm.ops.flow.kernels import OVERWRITING

from .elements import Pull
from .forms import Forms
from .local_arrays import keeping
from .matrices.factorisations import factorise
from .overwriting import write_at_indices, write_windows
from .products import product_kernel
from .running import Carried, against, scans
from .short_folds import is_short, positions, reads_near
from .short_rows import group, group_size, groups_of
from .sorts import Row, search_row
from .staging import STAGED_ELEMENTS


def lower(kernel: Kernel, name: str, forms: Sequence[str] = ()) -> LoopKernel:
    """The loops of a kernel: its operands, then a buffer for each result that is not in place.

    Its folds have the ``forms`` that are asked for and possible, which are its first steps.
    """
    short = kernel.family == "loops" and is_short(kernel.body)
    found = _lowered(kernel, name, (), written_out=True) if short else None
    if found is None or not reads_near(found.body):
        found = _lowered(kernel, name, forms, written_out=False)

    def again(wanted: tuple[str, ...]) -> LoopKernel:
        return lower(kernel, name, wanted)

    return replace(found, forms=(*forms,), again=again)


def _lowered(kernel: Kernel, name: str, forms: Sequence[str], *, written_out: bool) -> LoopKernel:
    """The loops of a kernel, whose folds are ``written_out`` or loops."""
    buffers = _buffers(kernel)
    work = _Lowering(kernel, buffers, Forms(forms))
    work.pull.fold.written_out = written_out
    work.results()
    body = used(tuple(work.nest.scopes[0].body))
    buffers = (*buffers, *work.nest.scratch)
    symbols, steps = _symbols(buffers, body), work.forms.steps
    return LoopKernel(name, buffers, symbols, body, kernel.body.may_raise, steps)


def _write_elements(pull: Pull, frame: Frame, targets: Sequence[Target], index: Index) -> None:
    """Results as large as the frame, at one index of it."""
    places = [At(reshaped(index, frame.shape, v.shape)) for v, _ in targets]
    found = [pull.element(v, at) for (v, _), at in zip(targets, places, strict=True)]
    for (_, buffer), at, x in zip(targets, places, found, strict=True):
        offset = flatten(at.index, buffer.type.shape)
        pull.nest.store(buffer, offset, x)  # what was kept in a room is read by now


def _buffers(kernel: Kernel) -> tuple[Buffer, ...]:
    body = kernel.body
    targets = [kernel.target_of(i) for i in range(len(body.results))]
    taken = [Buffer(f"b{i}", p.type, "in") for i, p in enumerate(body.params)]
    for i, p in enumerate(body.params):
        if p in targets:
            taken[i] = Buffer(f"b{i}", p.type, "inout")
    made = (r.type for r, t in zip(body.results, targets, strict=True) if t is None)
    return (*taken, *(Buffer(f"b{len(taken) + i}", t, "out") for i, t in enumerate(made)))


def _symbols(buffers: Sequence[Buffer], body: Body) -> tuple[str, ...]:
    sizes = [d for b in buffers for d in b.type.shape]
    sizes += [d for s in statements(body) for d in dims(s)]
    return tuple(sorted({n for d in sizes for n in symbols(d) if not n.startswith("%")}))


Target = tuple[Value, Buffer]


class _Lowering:
    """One kernel on its way to loops."""

    def __init__(self, kernel: Kernel, buffers: tuple[Buffer, ...], forms: Forms) -> None:
        self.kernel, self.body, self.forms = kernel, kernel.body, forms
        self.pull = Pull(kernel.body, buffers, kernel.tree, forms)
        self.nest = self.pull.nest
        made = iter(b for b in buffers if b.role == "out")
        operands = dict(zip(kernel.body.params, buffers, strict=False))
        self.targets: list[Target] = []
        for i, result in enumerate(kernel.body.results):
            target = kernel.target_of(i)
            self.targets.append((result, operands[target] if target else next(made)))

    def results(self) -> None:
        """Everything that is not in place first, as it may read what will be overwritten."""
        writing = self.kernel.family in OVERWRITING
        over = {v: b for v, b in self.targets if writing and overwriter(v) is not None}
        if over and self.targets[0][1].role == "inout" and self._product(self.targets):
            return
        beside = {r for v in over if (op := overwriter(v)) is not None for r in op.results[1:]}
        fresh = [(v, b) for v, b in self.targets if v not in over and v not in beside]
        if fresh and not self._product(fresh):
            if running := scans(self.body):
                self._running(running, fresh)
            elif self.kernel.family == "ordering":
                self._ordering(dict(fresh))
            elif self.kernel.family == "factorisation":
                factorise(self.pull, self.body, dict(fresh))
            else:
                self._nests(fresh)
        for value, buffer in over.items():
            self._overwrite(value, buffer)

    def _product(self, targets: Sequence[Target]) -> bool:
        """Write the loops of a product with all of these results, if it is one."""
        product = self.kernel.family == "product"
        return product and product_kernel(self.pull, self.body, targets)

    # -- element-wise kernels and reductions -----------------------------------------------

    def _nests(self, targets: Sequence[Target]) -> None:
        if (frame := frame_of(self.body)) is not None:
            self._rows(frame, targets)
            return
        for shape in dict.fromkeys(v.shape for v, _ in targets):
            self._rows(Frame(shape, ()), [t for t in targets if t[0].shape == shape])

    def _rows(self, frame: Frame, targets: Sequence[Target]) -> None:
        """One turn for each row: what is folded, then what is written of it."""
        small = [t for t in targets if frame.axes and t[0].type.rank < len(frame.shape)]
        whole = [t for t in targets if t not in small]
        keep = self._keeping(frame, whole)
        for lengths in self._lengths(frame):
            with lengths:
                self._each_row(frame, small, whole, keep)

    def _each_row(
        self,
        frame: Frame,
        small: Sequence[Target],
        whole: Sequence[Target],
        keep: dict[Value, Buffer],
    ) -> None:
        """In groups as long as there are whole ones, then row by row."""
        done: Dim = 0
        if not self.pull.fold.written_out and (keep or not whole):
            short = bool(self.pull.fold.short)
            count = groups_of(self.body, frame, self.kernel.tree, bool(keep), short)
            if self.forms.take("group", count != 0):
                self._groups(frame, small, whole, keep, count)
                done = group_size(frame) * count
            if done != 0 and frame.shape[-2] == done:
                return
        with self._row(frame, done) as row:
            for level in levels_of(self.body) if frame.axes else ():
                with self._keep(keep, level):
                    self.pull.fold.together(level, At(row))
            self.pull.fold.beside = False
            for value, buffer in small:
                self._write(value, buffer, At(row))
            if whole:
                self._whole(frame, whole, row)

    def _lengths(self, frame: Frame) -> Generator[AbstractContextManager[None]]:
        """One way for rows of any length; where that is open, one for short ones, and one for long.

        A row that is one chunk, and one piece, is folded without loops over these, which take
        registers.
        """
        extent, most = product(frame.sizes(frame.axes)), self.kernel.tree[0]
        if len(frame.axes) > 1:
            most = min(most, STAGED_ELEMENTS)
        alone = frame.axes and frame.contiguous and not isinstance(extent, int)
        if not self.forms.take("unswitch", alone):
            yield nullcontext()
            return
        yield self._rows_of(minimum(1, maximum(0, most + 1 - extent)), most)
        yield self._rows_of(minimum(1, maximum(0, extent - most)), 0)

    @contextmanager
    def _rows_of(self, some: Dim, most: int) -> Generator[None]:
        """What is written inside runs for rows of one sort, and is counted for short ones only."""
        kept, self.pull.fold.short = dict(self.pull.kept), most
        with self.nest.loop("serial", some, "sort", counts=min(1, most)):
            yield
        self.pull.kept, self.pull.fold.short = kept, 0

    def _whole(self, frame: Frame, targets: Sequence[Target], row: Index) -> None:
        """What is as large as the frame, along one row."""
        if self.pull.fold.written_out:
            for inner in positions(frame):
                _write_elements(self.pull, frame, targets, frame.index(row, inner))
            return
        with self.nest.loops(frame.shape, frame.axes, "parallel") as inner:
            _write_elements(self.pull, frame, targets, frame.index(row, inner))

    def _groups(
        self,
        frame: Frame,
        small: Sequence[Target],
        whole: Sequence[Target],
        keep: dict[Value, Buffer],
        count: Dim,
    ) -> None:
        """Groups of short rows, ``count`` of them: the folds, then what is computed from these."""
        with group(self.pull, frame, count) as rows:
            for level in levels_of(self.body):
                with self._keep(keep, level):
                    rows.fold(level)
                rows.share(self.body)
            with rows.lanes() as r:
                for value, buffer in small:
                    self._write(value, buffer, At(rows.row(r)))
            if whole:
                with self.nest.loop("serial", rows.size, "row") as r:
                    self._whole(frame, whole, rows.row(r))

    @contextmanager
    def _keep(self, keep: dict[Value, Buffer], level: Sequence[Reduction]) -> Generator[None]:
        """What a level of reductions folds is kept as it goes, where that is worth it."""
        self.pull.fold.keep = {v: b for v, b in keep.items() if folds(level, v)}
        yield
        self.pull.kept |= self.pull.fold.keep

    def _keeping(self, frame: Frame, whole: Sequence[Target]) -> dict[Value, Buffer]:
        """What is kept from one sweep to the next, where rows lie beside one another."""
        alone = frame.axes and frame.contiguous and not self.pull.fold.written_out
        found = keeping(self.body, frame.shape, whole) if alone else {}
        return found if self.forms.take("keep", found) else {}

    def _write(self, value: Value, buffer: Buffer, at: At) -> None:
        self._store(buffer, at, self.pull.element(value, at))

    def _store(self, buffer: Buffer, at: At, x: Scalar) -> None:
        self.nest.store(buffer, flatten(at.index, buffer.type.shape), x)

    @contextmanager
    def _row(self, frame: Frame, done: Dim) -> Generator[Index]:
        """The index of a row; ``done`` rows along the last axis but one are computed already."""
        self.pull.fold.beside = bool(frame.axes) and frame.contiguous
        left = frame.shape
        if done != 0:
            left = (*left[:-2], left[-2] - done, left[-1])
        with self.nest.loops(left, frame.rows, "parallel") as row:
            yield row if done == 0 else (*row[:-1], row[-1] + done)

    # -- running scans ---------------------------------------------------------------------

    def _running(self, scans: Sequence[Running], targets: Sequence[Target]) -> None:
        """Lines beside one another, each from one end to the other."""
        first = scans[0]
        axis, size = first.axis, first.shape[first.axis]
        with self._lines(first.shape, axis) as line:
            carried = [Carried(self.pull, op) for op in scans]
            with self.nest.loop("serial", size) as turn:
                at = At((*line[:axis], against(first, size, turn), *line[axis:]))
                for scan in carried:
                    self.nest.remember(scan.op, at, (scan.turn(at),))
                for value, buffer in targets:
                    self._write(value, buffer, at)

    def _lines(self, shape: Index, axis: int) -> AbstractContextManager[Index]:
        """A line along an axis: its index among the other axes."""
        beside = (*shape[:axis], *shape[axis + 1 :])
        return self.nest.loops(beside, range(len(beside)), "parallel")

    # -- order -----------------------------------------------------------------------------

    def _ordering(self, targets: dict[Value, Buffer]) -> None:
        """Row by row: a sort of what was written there, or a search for each element."""
        (op,) = (op for op in self.body.ops if isinstance(op, Sort | SearchSorted))
        shape = op.results[0].shape
        if isinstance(op, Sort):
            row = Row(self.pull, op, targets)
            with self._lines(shape, len(shape) - 1) as line:
                row.sort(line)
            return
        with self._lines((*shape, 1), len(shape)) as index:
            found = search_row(self.pull, op, At(index))
            self.nest.store(targets[op], flatten(index, shape), found)

    # -- in place --------------------------------------------------------------------------

    def _overwrite(self, value: Value, buffer: Buffer) -> None:
        """Write the windows or the indexed elements into the buffer of the first operand."""
        op = overwriter(value)
        assert op is not None
        if isinstance(op, Update):
            updates = windows(self.body, self.kernel.family, op)
            self._start_from(updates[0].x, buffer)
            write_windows(self.pull, updates, buffer)
        else:
            self._start_from(op.x, buffer)
            beside = dict(self.targets).get(op.results[-1]) if op.results[1:] else None
            write_at_indices(self.pull, op, buffer, beside)

    def _start_from(self, x: Value, buffer: Buffer) -> None:
        """Fill memory that is the result's own with what is written over."""
        if buffer.role == "out":
            self._rows(Frame(x.shape, ()), [(x, buffer)])
