"""Normal forms: one element of a value at a symbolic index, written as a sum of products.

Two values with equal forms are equal, whatever the numbers are; this is how a law is proven.
"""
