"""StableHLO as operations of the language.

``bindings`` is the only file that knows jaxlib: it reads a module into the ``tree`` of plain data.
``table`` lists who reads which operation; the other files are those readers.
"""

from __future__ import annotations
