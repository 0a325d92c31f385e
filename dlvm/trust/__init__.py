"""What finds our own faults: comparison, examination, blame, reproducers, reduction.

A ``Failure`` says how dlvm went wrong on a program. ``examine`` walks the road and finds the first
one; ``blame`` names the law; ``reduce`` makes the program small. ``answers`` is the one place that
says whether two answers are the same. This room stands above the compiler's and below all that
users import, and compiles nothing for them.
"""
