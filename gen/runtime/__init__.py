"""What runs beside kernels: threads, arenas, tapes, interrupts, the floating-point mode."""
