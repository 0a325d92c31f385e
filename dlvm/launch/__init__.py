"""What ``dlvm launch`` does: starts the ranks of a program, watches them, and starts them again.

The launcher of the library of MPI, ``mpiexec.hydra``, makes the processes, on this machine or, by
Ray, on a cluster. Nothing here opens MPI or knows what a program computes.
"""
