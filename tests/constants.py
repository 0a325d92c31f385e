"""Which decision of the compiler each constant of the cost model makes.

``DECISIONS`` are questions near a price, with their answers. ``DECIDES`` names for each constant
two of them: one with another answer when the constant is ten times as large, and one with another
answer when it is a tenth. A constant that is read in several places has two for each of these.
``FIGURES`` says the same of a processor. A constant that stands beside prices and is none is in
``OTHERS``, with what it is. ``tests.test_constants`` checks all of this, and that no constant is
missing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dlvm
from dlvm.target import Target
from tests.decisions import (
    assumptions,
    beside,
    blocks,
    branch,
    chain,
    columns,
    copies,
    exponentials,
    filters,
    formula,
    gram,
    kernels,
    many_registers,
    micro_kernels,
    negated,
    occurring,
    orientation,
    pieces,
    plain_columns,
    plus_one,
    product,
    products,
    shared_trips,
    shares,
    sorted_rows,
    steps,
    stores,
    strided,
    time,
    trips,
    turned,
    two_sorts,
    window,
    worked_columns,
)

Ask = Callable[[Target], Any]


def _of(ask: Callable[..., Any], *given: Any) -> Ask:
    """A question whose answer is the same for every processor."""
    return lambda target: ask(*given)


def _on(ask: Callable[..., Any], *given: Any) -> Ask:
    """A question about a processor."""
    return lambda target: ask(target, *given)


DECISIONS: dict[str, tuple[Ask, Any]] = {
    # whether both sides of a branch are computed
    "a branch of 128 elements": (_of(occurring, "select cond", branch, "", "128"), "select"),
    "a branch of 1000 elements": (_of(occurring, "select cond", branch, "", "1000"), "cond"),
    # whether products with windows of one array are one product
    "windows beside 64 rows": (_of(products, columns, "64,64", "64,32"), "f32[64,32]"),
    "windows beside 16 rows": (
        _of(products, columns, "16,64", "64,32"),
        "f32[16,8] f32[16,8] f32[16,8] f32[16,8]",
    ),
    "windows beside 32 rows": (
        _of(products, columns, "32,64", "64,32"),
        "f32[32,8] f32[32,8] f32[32,8] f32[32,8]",
    ),
    # whether pieces that are computed alike are one batch
    "4 pieces of 112 rows": (_of(products, pieces, "4,112,112", "4,112,112"), "f32[4,112,112]"),
    "4 pieces of 116 rows": (
        _of(products, pieces, "4,116,116", "4,116,116"),
        "f32[116,116] f32[116,116] f32[116,116] f32[116,116]",
    ),
    # in which order factors are multiplied
    "an order that saves 2 %": (
        _of(products, chain, "128,100", "100,150", "150,200"),
        "f32[128,150] f32[128,200]",
    ),
    "an order that saves 12 %": (
        _of(products, chain, "160,100", "100,150", "150,200"),
        "f32[100,200] f32[160,200]",
    ),
    "an open size beside 40": (
        _of(products, chain, "40,40", "40,N", "N,40"),
        "f32[40,40] f32[40,40]",
    ),
    "an open size beside 200": (
        _of(products, chain, "200,200", "200,N", "N,200"),
        "f32[200,N] f32[200,200]",
    ),
    # which factors solve a system of equations
    "100 equations": (_of(occurring, "cholesky lu", gram, "100,100", "100"), "cholesky lu"),
    "10 equations": (_of(occurring, "cholesky lu", gram, "10,10", "10"), "lu"),
    # which properties of the matrix of a system would save enough work to be told
    "a solve beside 60 rows": (
        _of(assumptions, beside, "100,100", "100", "60,100", "100,60"),
        "diagonal lower upper",
    ),
    "a solve beside 400 rows": (
        _of(assumptions, beside, "100,100", "100", "400,100", "100,400"),
        "",
    ),
    # what one kernel computes
    "windows of exponentials": (
        _of(kernels, filters(dlvm.exp), "1,64,64,16", "3,3,16,32"),
        "exp; patches permute reshape matmul",
    ),
    "windows of magnitudes": (
        _of(kernels, filters(dlvm.abs), "1,64,64,16", "3,3,16,32"),
        "abs patches permute reshape matmul",
    ),
    "exponentials in 100 rows": (_of(kernels, formula, "100,300", "300,100"), "exp matmul"),
    "exponentials in 10 rows": (_of(kernels, formula, "10,300", "300,100"), "exp; matmul"),
    "a window of 130 columns": (
        _of(kernels, window, "130,50", "50,130", "130,260"),
        "matmul; update",
    ),
    "a window of 300 columns": (
        _of(kernels, window, "300,50", "50,300", "300,600"),
        "matmul update",
    ),
    "sorts of 4000 elements": (
        _of(kernels, two_sorts, "4000", "4000"),
        "sort; sort; constant broadcast add exp",
    ),
    "sorts of 20000 elements": (
        _of(kernels, two_sorts, "20000", "20000"),
        "sort; constant broadcast add; sort; exp",
    ),
    # how a kernel is lowered: how many statements store a result, which operand is turned
    "shares of exponentials": (_of(stores, shares(dlvm.exp), "8,1000"), 3),
    "shares of sums": (_of(stores, shares(plus_one), "8,1000"), 1),
    "17 columns": (_of(orientation, turned, "300,16", "300,17", "17"), "17 x 16"),
    # whether threads share the trips of a loop
    "8717 trips of 13 elements": (_of(shared_trips, trips, "8717,13"), "one thread"),
    "100 trips of 133 elements": (_of(shared_trips, trips, "100,133"), "one thread"),
    "852 trips of 133 elements": (_of(shared_trips, trips, "852,133"), "threads"),
    # how threads share the loops of a kernel, and where its vectors lie
    "exponentials": (_on(steps, exponentials, "1048576"), "vectorize %i1, share %i1 grain=4480"),
    "elements apart": (_on(steps, strided, "1000000"), "vectorize %i1, share %i1 grain=4480"),
    "sorted rows": (_on(steps, sorted_rows, "1000,64"), "vectorize %i3, share %i2 grain=2"),
    "columns that are read": (
        _on(steps, plain_columns, "1000,1024"),
        "vectorize %i1 width=64, share %i1 grain=64",
    ),
    "columns that are computed": (
        _on(steps, worked_columns, "1000,1024"),
        "vectorize %i1, share %i1 grain=64",
    ),
    "columns on many registers": (many_registers, "vectorize %i1 width=256, share %i1 grain=256"),
    "100 products": (
        _on(steps, product, "100,20,20", "100,20,20"),
        "vectorize %c12, share %i6 grain=14",
    ),
    "80 large products": (
        _on(steps, product, "80,200,200", "80,200,200"),
        "vectorize %c12, share %i6 grain=1",
    ),
    "8 large products": (_on(steps, product, "8,200,200", "8,200,200"), "vectorize %c12"),
    # how a large product is cut
    "blocks of a product": (blocks, "114288 multiplications, 256 columns, 1072 rows"),
    "copies in a product": (copies, "from 32768 bytes"),
    "tiles of a product": (micro_kernels, "6x2 12x1"),
    # the estimate by which a call takes one thread or several, for what a kernel moves
    "16 KiB": (_on(time, negated, "2048"), "164 ns"),
    "256 KiB": (_on(time, negated, "32768"), "5505 ns"),
    "1 MiB": (_on(time, negated, "131072"), "52429 ns"),
    "16 MiB": (_on(time, negated, "2097152"), "1677722 ns"),
}
GRAINS = {
    **dict.fromkeys(("exp", "exp2", "expm1"), 1216),
    **dict.fromkeys(("log", "tanh", "cbrt", "asin", "acos", "atan"), 1024),
    **dict.fromkeys(("log2", "log10", "log1p", "sin", "cos", "tan", "sinh", "cosh"), 832),
    **{"erf": 704, "erfc": 448, "erfinv": 512, "pow": 384, "lgamma": 128, "digamma": 128},
    **{"div": 4480, "sqrt": 3136, "floordiv": 704},
}
"""The elements that are worth a thread, for four functions in a row of each word of ``WEIGHTS``."""

DECIDES: tuple[tuple[str, str, str], ...] = (
    ("cost.TYPICAL", "an open size beside 200", "an open size beside 40"),
    ("cost.STEP", "a branch of 128 elements", "a branch of 1000 elements"),
    ("cost.STEP", "8717 trips of 13 elements", "852 trips of 133 elements"),
    ("cost.STEP", "windows beside 16 rows", "windows beside 64 rows"),
    ("cost.STEP", "4 pieces of 112 rows", "4 pieces of 116 rows"),
    ("cost.LAUNCH", "windows beside 64 rows", "windows beside 16 rows"),
    ("cost.LAUNCH", "4 pieces of 116 rows", "4 pieces of 112 rows"),
    ("cost.ACCESS", "windows of exponentials", "windows of magnitudes"),
    ("cost.VECTORS", "17 columns", "17 columns"),
    ("cost.THREAD", "exponentials", "exponentials"),
    ("cost.THREAD", "blocks of a product", "blocks of a product"),
    ("cost.WORTH", "an order that saves 2 %", "an order that saves 12 %"),
    ("cost.WORTH", "windows beside 32 rows", "windows beside 64 rows"),
    ("cost.WORTH", "4 pieces of 116 rows", "4 pieces of 112 rows"),
    ("cost.WORTH", "a solve beside 400 rows", "a solve beside 60 rows"),
    ("gen.schedule.cost.ORDERING", "sorted rows", "sorted rows"),
    ("gen.schedule.cost.SCATTERED", "elements apart", "elements apart"),
    ("gen.schedule.cost.FMA", "100 products", "blocks of a product"),
    ("gen.schedule.cost.FMA", "blocks of a product", "100 products"),
    ("gen.schedule.grains.WIDEST", "columns that are computed", "columns that are computed"),
    ("gen.schedule.grains.MANY_REGISTERS", "columns on many registers", "columns that are read"),
    ("gen.schedule.grains.PLAIN", "columns that are computed", "columns that are read"),
    ("gen.schedule.grains.SHARED_PRODUCTS_FROM", "80 large products", "8 large products"),
    ("gen.program.parallel.LEAST", "852 trips of 133 elements", "8717 trips of 13 elements"),
    ("gen.program.parallel.WORTH", "852 trips of 133 elements", "100 trips of 133 elements"),
    ("gen.lower.local_arrays.DEAR", "shares of exponentials", "shares of sums"),
    ("opt.algebra.solves.semidefinite.SMALLEST", "100 equations", "10 equations"),
    ("opt.kernels.filling.LEAST", "exponentials in 100 rows", "exponentials in 10 rows"),
    ("opt.kernels.fusion.LARGE", "a window of 300 columns", "a window of 130 columns"),
    (
        "opt.kernels.horizontal_fusion.SMALL_BYTES",
        "sorts of 20000 elements",
        "sorts of 4000 elements",
    ),
    ("opt.regions.branches.CHEAP", "a branch of 1000 elements", "a branch of 128 elements"),
)
"""Constants, each with the decision that ten times as much changes, and the one for a tenth."""

FIGURES: dict[str, tuple[str, str]] = {
    "vector_bits": ("exponentials", "exponentials"),
    "registers": ("tiles of a product", "columns that are read"),
    "rate": ("exponentials", "sorted rows"),
    "levels[0].size": ("copies in a product", "copies in a product"),
    "levels[0].rate": ("16 KiB", "16 KiB"),
    "levels[1].size": ("blocks of a product", "blocks of a product"),
    "levels[1].rate": ("256 KiB", "256 KiB"),
    "levels[2].size": ("16 MiB", "1 MiB"),
    "levels[2].rate": ("1 MiB", "1 MiB"),
    "levels[3].rate": ("16 MiB", "16 MiB"),
}
"""The same of the figures of a processor, which are those of ``Target`` and its ``machine``."""

OTHER_FIGURES = {
    "threads": "the pool is given it in each call; no code depends on it",
    "word": "the bits of an address",
    "levels[3].size": "0, as memory holds everything",
}

OTHERS: dict[str, str] = {
    "cost.PICOSECONDS": "a unit",
    "gen.lower.products.FEW": "both sides of it in tests/gen/lower/test_small_products.py",
    "gen.lower.products.SMALL": "both sides of it in tests/gen/lower/test_small_products.py",
    "gen.lower.products.SMALLEST": "both sides of it in tests/gen/lower/test_small_products.py",
    "gen.lower.products.SMALL_ALONG": "both sides of it in tests/gen/lower/test_small_products.py",
    "gen.lower.products.TILE": "the size of an array in the generated code",
    "gen.products.macro_kernel.BATCH": "the size of a tile",
    "gen.products.macro_kernel.PANEL_STEPS": "the order of a sum, and so a part of its meaning",
    "gen.products.macro_kernel.LINE": "the bytes of a line in the caches of all processors",
    "gen.program.times.UNBOUNDED": "the time of what has no estimate",
    "gen.schedule.boxes.BOXES": "limits the code of a kernel",
    "gen.schedule.boxes.OPERATIONS": "limits the code of a kernel",
    "gen.schedule.boxes.GUARDS": "limits the code of a kernel",
    "gen.schedule.folding.FLIGHT": "loads of a lane of a GPU, which no price is known of",
    "gen.schedule.folding.FEW": "lanes of a GPU, which no price is known of",
    "gen.schedule.folding.FEWER": "lanes of a GPU, which no price is known of",
    "gen.schedule.folding.VECTORS": "loads of a lane of a GPU, which no price is known of",
    "gen.schedule.folding.PLAIN": "limits the code of a kernel",
    "gen.schedule.folding.MOST": "limits the code of a kernel",
    "gen.schedule.folding.SOME": "limits the code of a kernel",
    "gen.schedule.planner.LONG_BODY": "limits the code of a kernel",
    "opt.beforehand.DEEP": "limits the time of a compile",
    "opt.algebra.sums.cancelling.HALF": "the condition of a law",
    "opt.algebra.solves.semidefinite.DEPTH": "limits the time of a compile",
    "opt.kernels.filling.DEEPEST": "limits the code of a kernel",
    "opt.kernels.fusion.ROWWISE": "the order of a sum, and so a part of its meaning",
    "opt.kernels.fusion.SEQUENTIAL": "the order of a sum, and so a part of its meaning",
    "opt.kernels.fusion.FEW": "limits the code of a kernel",
    "opt.kernels.horizontal_fusion.MOST_BUFFERS": "limits the code of a kernel",
    "opt.recompute.ordering.FEW": "limits the time of a compile",
    "opt.recompute.recomputing.MOST_RECOMPUTED": "limits the time of a compile",
    "opt.recompute.recomputing.TRIED": "limits the time of a compile",
    "opt.recompute.recomputing.LARGEST": "limits the time of a compile",
    "opt.regions.branches.SMALL_CONSTANT": "limits the memory of constants that are copied",
    "opt.law_report.MOST": "limits the time of a compile",
}
"""What stands beside prices and is none: limits, units, sizes of tiles and orders of sums."""
