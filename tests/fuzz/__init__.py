"""Random programs against machine code, derivatives against differences, bytes against readers.

    python -m tests.fuzz --seconds 60 [--kinds whole,slopes] [--first 0] [--keep FOLDER]

``subjects`` draws a case of a kind, ``case`` writes it to a file and reads it back, ``judge``
says what must hold of it, ``dlvm.trust.answers`` how far rounding may carry a result, ``hostile``
what no bytes may do. ``__main__`` drives them in child processes with time limits.
"""
