"""The operations of ONNX by family. Importing this package fills the table.

An operation stands in the file of its family as one function, in which the versions of ONNX differ
by an ``if``.
"""

from __future__ import annotations

from . import elementwise as elementwise
from . import indexing as indexing
from . import making as making
from . import movement as movement
from . import norms as norms
from . import pooling as pooling
from . import products as products
from . import reductions as reductions
