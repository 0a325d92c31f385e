"""How fast a processor is: what turns the cost of a kernel into time.

There is one record for each processor: built-in values by its name, or what ``dlvm doctor
--measure`` found on this machine and kept. No compile measures. Results do not depend on it, only
schedules do: how finely threads share, and how products are cut into panels.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True, slots=True)
class Level:
    """Memory that is equally near: the bytes a core has of it, and those it moves in a nanosecond.

    The last level, which holds everything, has 0 bytes.
    """

    size: int
    rate: float


@dataclass(frozen=True, slots=True)
class Machine:
    """What one core does in a nanosecond, and the memory that it works on.

    ``rate`` counts instructions that do not wait for one another, of vectors or of scalars;
    ``levels`` are the caches from the nearest on, then memory.
    """

    rate: float
    levels: tuple[Level, ...]

    @staticmethod
    @cache
    def of(processor: str, bits: int) -> Machine:
        """The built-in values of a processor, by its name in LLVM and the width of its vectors."""
        second, third = next(
            (sizes for names, sizes in CACHES.items() if processor.startswith(names)), USUAL
        )
        near = bits / 8  # one vector of the nearest cache each third of a nanosecond
        sizes = (32 << 10, second, third, 0)
        rates = (3 * near, min(60.0, 1.5 * near), 20.0, 10.0)
        return Machine(5.0, tuple(map(Level, sizes, rates)))

    def cache(self, level: int) -> int:
        """The bytes of a cache, of which the nearest is 1."""
        return self.levels[min(level, len(self.levels) - 1) - 1].size

    def level(self, size: int) -> Level:
        """The nearest level that holds so many bytes."""
        return next(level for level in self.levels if size <= level.size or not level.size)


KIB, MIB = 1 << 10, 1 << 20
CACHES: dict[tuple[str, ...], tuple[int, int]] = {
    ("znver1", "znver2", "znver3"): (512 * KIB, 4 * MIB),
    ("znver",): (MIB, 4 * MIB),
    ("skylake-avx512", "cascadelake", "cooperlake"): (MIB, 2 * MIB),
    ("icelake-server", "rocketlake", "tigerlake", "alderlake"): (5 * MIB // 4, 2 * MIB),
    ("sapphirerapids", "emeraldrapids", "graniterapids"): (2 * MIB, 2 * MIB),
    ("haswell", "broadwell", "skylake", "icelake"): (256 * KIB, 2 * MIB),
    ("neoverse-v2", "neoverse-n3"): (2 * MIB, 2 * MIB),
    ("neoverse",): (MIB, 2 * MIB),
    ("apple",): (3 * MIB, 3 * MIB),
}
"""The second cache of a core and its share of the third, from the manuals of the makers."""
USUAL = (512 * KIB, 2 * MIB)
