"""Trees of arrays as files of the format safetensors: ``dlvm.save`` and ``dlvm.load``.

``names`` gives each leaf its name in a file, ``contents`` maps a file, ``writing`` and ``reading``
do the rest. The states of a run, ``dlvm.states``, are several files each: ``grids`` says which rank
wrote which part of an array, and ``preempted`` listens to SIGTERM.
"""

from __future__ import annotations

from .keeping import states as states
from .reading import load as load
from .writing import save as save
