"""Languages in which kernels are printed for devices that LLVM has no code for: a table each."""
