"""``python -m dlvm`` is the command ``dlvm``."""

from __future__ import annotations

import sys

from dlvm.cli import main

if __name__ == "__main__":
    sys.exit(main())
