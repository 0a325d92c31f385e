"""Factorisations of matrices, and solves with what they give.

Every file here holds the operations of one factorisation: the meaning as loops in NumPy, in the
order in which machine code takes its steps, so that both give the same bits where a matrix is
small, and the derivative in other operations. ``triangles`` has what they share. No result is an
error: what can't be factorised gives NaN.
"""
