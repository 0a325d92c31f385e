"""Trees of arrays as files of the format safetensors: ``dlvm.save`` and ``dlvm.load``.

``names`` gives each leaf its name in a file, ``writing`` and ``reading`` do the rest.
"""

from __future__ import annotations

from .reading import load as load
from .writing import save as save
