"""What a function reads that is no argument of it: captured arrays, scalars and objects."""
