"""Schedules: how the plain loops of a kernel become those that run, as a list of named transforms.

Lowering gives each kernel its plain loops, in which every loop whose turns are independent is
``parallel``. A schedule is data: steps, each of which names a transform, a loop and some numbers.
Each transform is a pure function from loops to loops in a file of its own; it refuses, with the
reason, what would change a result. ``planner`` writes the schedule of a kernel for which the user
gave none. No schedule changes a bit of a result: in which order a result is folded is the
kernel's ``tree``, and stands in the plain loops.
"""
