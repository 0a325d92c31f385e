"""Packs programs for a GPU into one file, and plays it here.

python -m benchmarks.silicon [--file out/silicon.pyz] [--json out/silicon.json] [--dry]

The file runs with Python, NumPy and NVIDIA's driver alone: ``python silicon.pyz``. ``--dry`` packs
large programs with small arrays, and plays them on a stand-in for the driver.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
from pathlib import Path

from .packing import LIMIT, Packing
from .programs import large, small


def pack(path: Path, target: str, dry: bool, names: list[str] | None) -> None:
    """Writes the file; an error if it is too large to be carried."""
    path.parent.mkdir(parents=True, exist_ok=True)
    table = small() | large(dry)
    with Packing(path, target, dry) as packing:
        for name in names or table:
            packing.pack(name, table[name])
    size = path.stat().st_size
    print(f"{path}: {len(packing.cases)} programs, {size / 1e6:.1f} MB")
    if size > LIMIT:
        sys.exit(f"the file has {size:,} bytes, more than {LIMIT:,}: pack fewer cases")


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--file", type=Path, default=Path("out/silicon.pyz"))
    parser.add_argument("--json", default="out/silicon.json")
    parser.add_argument("--target", default="cuda:sm_90")
    parser.add_argument("--seconds", type=float, default=540)
    parser.add_argument("--cases", nargs="*", help="names of programs, all without")
    parser.add_argument("--dry", action="store_true")
    parser.add_argument("--pack", action="store_true", help="only write the file")
    args = parser.parse_args(argv)
    pack(args.file, args.target, args.dry, args.cases)
    if args.pack:
        return
    command = [sys.executable, str(args.file), "--json", args.json]
    if args.dry:
        child = [sys.executable, "-m", "benchmarks.silicon.stand_in", str(args.file)]
        command += ["--child", shlex.join(child)]
    sys.exit(subprocess.run([*command, "--seconds", str(args.seconds)]).returncode)


if __name__ == "__main__":
    main()
