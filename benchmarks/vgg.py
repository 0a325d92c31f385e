"""The sixteen convolutions of VGG-19, each compiled from nothing: seconds, and scratch they take.

    python -m benchmarks.vgg [--batch N]

Nothing is kept from earlier runs; layers of one shape are one program, as in a user's process.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

LAYERS = (
    (224, 3, 64),
    (224, 64, 64),
    (112, 64, 128),
    (112, 128, 128),
    (56, 128, 256),
    *((56, 256, 256),) * 3,
    (28, 256, 512),
    *((28, 512, 512),) * 3,
    *((14, 512, 512),) * 4,
)
"""Height and width, channels in and out."""


def main() -> None:
    """Prints one line of JSON."""
    parser = argparse.ArgumentParser(description="compile the convolutions of VGG-19")
    parser.add_argument("--batch", type=int, default=1)
    batch = parser.parse_args().batch
    with TemporaryDirectory() as folder:
        os.environ["DLVM_CACHE_DIR"] = folder
        print(json.dumps(measured(batch)))


def measured(batch: int) -> dict[str, Any]:
    """Seconds for all layers, and the most scratch that one takes."""
    import dlvm

    @dlvm.function
    def layer(x: Any, w: Any, b: Any) -> Any:
        return dlvm.maximum(dlvm.nn.conv(x, w) + b, 0)

    started, most = time.perf_counter(), 0
    for size, channels, out in LAYERS:
        x = np.zeros((batch, size, size, channels), np.float32)
        w, b = np.zeros((3, 3, channels, out), np.float32), np.zeros(out, np.float32)
        most = max(most, int(layer.compile(x, w, b).report.peak_bytes))
    return {
        "layers": len(LAYERS),
        "seconds": round(time.perf_counter() - started, 2),
        "peak_bytes": most,
    }


if __name__ == "__main__":
    main()
