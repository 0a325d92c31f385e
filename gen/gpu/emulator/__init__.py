"""A processor of threads in blocks, on a CPU: the PTX that a driver gets, run thread by thread.

Threads are coroutines, which wait at barriers and where a warp exchanges values. Every access to
memory that threads share is checked: that it lies inside, that somebody has written what is read,
and that no other thread touches the same element without a barrier between.
"""
