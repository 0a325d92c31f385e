"""The embedded language: Python functions traced into modules, and the names they use.

The folders are listed in the order of the data flow; each imports only from those before it:

- ``words``: public names, lines of users, subscripts, signatures; it knows no staged value.
- ``trace``: scopes in which operations are written, the staged value, its operands, sizes and
  trees, and what is said of Python that can't be staged.
- ``elements``: public functions of single elements, reductions, statistics, element types.
- ``arrays``: public functions of whole arrays: shapes, indices, joins, orders, products.
- ``state``: captured state, and how its changes are noticed.
- ``call``: the staged function, from a call to the program that runs.
- ``flow``: branches, loops and effects.
- ``derive``: derivatives, batching, recomputation, and derivatives that users define.
- ``faults``: reports of a bug in dlvm that shows while Python runs.

Importing this package registers the public names.
"""

from typing import Any

from dlvm.base.errors import CompilerError

from .arrays import contraction as contraction
from .arrays import counting as counting
from .arrays import creation as creation
from .arrays import diagonals as diagonals
from .arrays import joining as joining
from .arrays import moving as moving
from .arrays import ordering as ordering
from .arrays import outside as outside
from .arrays import picking as picking
from .arrays import placing as placing
from .arrays import products as products
from .arrays import random_bits as random_bits
from .arrays import running as running
from .arrays import windows as windows
from .elements import arithmetic as arithmetic
from .elements import comparison as comparison
from .elements import curves as curves
from .elements import datatypes as datatypes
from .elements import eager as eager
from .elements import inspection as inspection
from .elements import numpy_dispatch as numpy_dispatch
from .elements import polynomials as polynomials
from .elements import powers as powers
from .elements import quantiles as quantiles
from .elements import reductions as reductions
from .elements import special as special
from .elements import statistics as statistics
from .flow import effects as effects
from .trace import facing


def _told(*known: Any) -> CompilerError:
    """The error for a bug in dlvm, with its file; the code that writes it is imported only here."""
    from .faults.faults import told

    return told(*known)


def _programs(*known: Any) -> Any:
    """The programs of a public function, which are made of it at its first call."""
    from .call.undecorated import Undecorated

    return Undecorated(*known)


facing.RECORDERS.append(_told)
eager.PROGRAMS.append(_programs)
