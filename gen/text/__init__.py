"""LLVM as text: modules and functions, values in lanes, sizes as instructions."""
