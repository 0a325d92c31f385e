"""The command line of the packed file.

python silicon.pyz [--json silicon.json] [--seconds 540] [--child COMMAND]
python silicon.pyz MODE CASE ... plays cases in this process.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path

from .batches import Run
from .cases import play
from .driver import CudaError, library

MODES = ("probe", "ptx", "cubin", "time")


def main(bundle: Path) -> None:
    """Plays all cases, or as a process of the run some of them."""
    if sys.argv[1:2] and sys.argv[1] in MODES:
        try:
            play(library(), bundle, sys.argv[1], sys.argv[2:])
        except CudaError as error:
            sys.exit(str(error))
        return
    parser = argparse.ArgumentParser(description="programs of dlvm on a GPU, from a recording")
    parser.add_argument("--json", default="silicon.json", help="the file to write")
    parser.add_argument("--seconds", type=float, default=540, help="when the run ends")
    parser.add_argument("--child", help="what starts a process of cases, for a dry run")
    args = parser.parse_args()
    command = shlex.split(args.child) if args.child else [sys.executable, str(bundle)]
    sys.exit(0 if Run(bundle, command, Path(args.json), args.seconds).all() else 1)
