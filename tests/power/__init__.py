"""Faults that the suite must find: old bugs made again, planted faults, and laws with a mistake.

``bugs_again`` holds bugs of ``docs/bugs-found.md`` as changes of a copy of the sources. ``plugin``
plants the faults of ``tests.faults`` and mutants of laws in the process that runs the tests.
``running`` runs the tests that must find a fault; ``python -m tests.power`` does this for all.
"""
