"""Functions written in the languages of other tools: ``dlvm.export`` and the formats it knows.

``program`` brings a function to operations that stand alone, ``formulas`` and ``compositions``
write operations that a format lacks in others, ``foreign`` is the table of names in each format,
and ``formats`` that of formats.
"""

from __future__ import annotations

from .formats import FORMATS as FORMATS
from .formats import Exporter as Exporter
from .formats import export as export
from .formats import register as register
