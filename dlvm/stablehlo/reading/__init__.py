"""StableHLO as operations of the language.

``bindings`` is the only file that knows jaxlib: it reads text into the ``tree`` of plain data, into
which ``dlvm.stablehlo.bytecode`` reads bytes. ``calls`` checks the calls in it.
``table`` lists who reads which operation; the other files are those readers.
"""

from __future__ import annotations
