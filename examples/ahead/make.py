"""A classifier of ten classes as files that C, C++, Python and JavaScript run without dlvm.

python examples/ahead/make.py build
cc -Ibuild examples/ahead/main.c build/classify.o -lm -o build/main && (cd build && ./main)
python examples/ahead/call.py build        node examples/ahead/call.mjs build
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import dlvm

dice = np.random.default_rng(3)
w = dice.normal(size=(64, 10), scale=0.2).astype(np.float32)
b = dice.normal(size=10).astype(np.float32)


def classify(x):
    """The share of each class, for one image of 64 numbers."""
    return dlvm.nn.softmax(x @ w + b, axis=1)


def main(folder: Path, shared: bool) -> None:
    """Writes it for this machine and for WebAssembly."""
    x = dlvm.spec("f32[1,64]")
    dlvm.aot(classify, x, out=folder, shared=shared)
    dlvm.aot(classify, x, target="wasm32", out=folder / "web", page=True)
    image = (np.arange(64, dtype=np.float32) / 64)[None]
    print(" ".join(f"{share:.6f}" for share in np.asarray(dlvm.function(classify)(image))[0]))


if __name__ == "__main__":
    main(Path(sys.argv[1]), shared="--shared" in sys.argv)
