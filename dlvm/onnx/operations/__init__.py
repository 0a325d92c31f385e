"""The operations of ONNX by family. Importing this package fills the table.

An operation stands in the file of its family as one function, in which the versions of ONNX differ
by an ``if``.
"""

from __future__ import annotations

from . import attention as attention
from . import control as control
from . import elementwise as elementwise
from . import indexing as indexing
from . import losses as losses
from . import making as making
from . import ml as ml
from . import movement as movement
from . import norms as norms
from . import pooling as pooling
from . import products as products
from . import quantised as quantised
from . import random_numbers as random_numbers
from . import recurrent as recurrent
from . import reductions as reductions
from . import resizing as resizing
from . import sampling as sampling
from . import sequences as sequences
from . import spectra as spectra
from . import training as training
