"""The tuner: searches for a schedule of a kernel that is faster than the planner's.

``space`` says which schedules there are and which are neighbours, ``search`` chooses the next one
to try, ``measure`` runs them on the machine, ``tuner`` does this for the kernels of a program.
"""
