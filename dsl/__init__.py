"""The embedded language: Python functions traced into modules, and the names they use.

Reading order: ``scopes`` (where operations are written), ``tensor`` (the staged value),
``operands`` (promotion and broadcasting), ``eager`` and ``names`` (one function, staged or
not), ``elementwise``, ``arrays`` and ``picking`` (the functions), ``tracing``, ``function`` and
``staging``, ``control`` and ``loops``, ``transforms`` and ``derivatives``. Importing this registers
the names.
"""

from . import arrays as arrays
from . import numpy_dispatch as numpy_dispatch
from . import picking as picking
