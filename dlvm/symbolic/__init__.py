"""Expressions of SymPy as functions of arrays: ``dlvm.from_sympy``.

``words`` lists what an expression may be made of, ``translating`` turns it into a sequence of
steps, and ``functions`` is what users call. SymPy is an extra, imported when it is first needed.
"""

from __future__ import annotations

from .functions import from_sympy as from_sympy
