"""Write `digits.onnx`, an untrained convolutional network, as PyTorch exports it.

The size of a batch is open. The file lies beside this script, so that PyTorch is needed only to
write another one.

    pip install torch onnxscript
    python examples/onnx/make.py
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

FILE = Path(__file__).with_name("digits.onnx")


def network() -> nn.Module:
    """Two convolutions and a layer over images of 8 x 8."""
    return nn.Sequential(
        nn.Unflatten(1, (1, 8, 8)),
        nn.Conv2d(1, 12, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(12, 24, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(24 * 16, 10),
    )


def main() -> None:
    """Write the file, with its weights inside of it."""
    torch.manual_seed(0)
    program = torch.onnx.export(
        network().eval(),
        (torch.zeros(2, 64),),
        input_names=["images"],
        output_names=["logits"],
        dynamic_shapes=({0: torch.export.Dim("batch")},),
        dynamo=True,
        verbose=False,
    )
    model = program.model_proto
    for node in model.graph.node:
        del node.metadata_props[:]  # the lines of Python that made it
    del model.metadata_props[:], model.graph.metadata_props[:]
    FILE.write_bytes(model.SerializeToString())
    print(f"{FILE.name}: {FILE.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
