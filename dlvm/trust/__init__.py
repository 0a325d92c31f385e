"""Finding bugs in dlvm itself: comparison, examination, blame, reproducers, reduction.

A ``Failure`` describes how dlvm went wrong on a program. ``examine`` follows the stages of the
compiler and finds the first failure; ``blame`` finds the responsible rewrite rule; ``reduce`` makes
the program small. ``answers`` is the one place that decides whether two answers are equal. This
package is above the compiler's packages and below everything that users import; it compiles nothing
for users.
"""
