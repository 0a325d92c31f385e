"""The embedded language: Python functions traced into modules, and the names they use.

Reading order: ``origins`` (lines of users), ``scopes`` (where operations are written), ``sizes``
(those that are open), ``tensor`` (the staged value), ``operands`` (promotion and broadcasting),
``eager`` and ``names`` (one function, staged or not), ``mistakes``, ``calling`` and
``suggestions`` (what is said of wrong
programs), the functions (``elementwise``, ``comparison``, ``arithmetic``, ``powers``,
``reductions``, ``creation``, ``datatypes``, ``shapes``, ``joining``, ``moving``, ``diagonals``,
``products``, ``contraction``, ``picking``, ``placing``, ``running``, ``statistics``, ``ordering``,
``quantiles``, ``curves``, ``random_bits``, ``effects``), ``tracing``, ``function`` and ``staging``,
``control`` and ``loops``, ``transforms`` and ``derivatives``. Importing this registers the names.
"""

from . import arithmetic as arithmetic
from . import comparison as comparison
from . import contraction as contraction
from . import creation as creation
from . import curves as curves
from . import datatypes as datatypes
from . import diagonals as diagonals
from . import effects as effects
from . import joining as joining
from . import moving as moving
from . import numpy_dispatch as numpy_dispatch
from . import ordering as ordering
from . import picking as picking
from . import placing as placing
from . import powers as powers
from . import products as products
from . import quantiles as quantiles
from . import random_bits as random_bits
from . import reductions as reductions
from . import running as running
from . import special as special
from . import statistics as statistics
