"""Batches of examples: ``dlvm.batches``.

``rows`` and ``streams`` say which examples a batch holds, ``workers`` makes batches ahead in
threads, ``progress`` shows how far a run is, and ``batching`` is what users call.
"""

from __future__ import annotations

from .batching import batches as batches
