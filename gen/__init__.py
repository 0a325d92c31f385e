"""Code generation: from kernels of tensor operations to machine code.

The folders stand in the order in which they may import one another, the first none of the others:

- ``loops``: the loop level: what a kernel does to memory, its text, its verifier and its
  interpreter;
- ``text``: LLVM as text: modules and functions, values in lanes, sizes as instructions;
- ``math``: functions of floats as instructions, in any number of lanes, and the scalar
  instructions;
- ``lower``: from a kernel of tensor operations to loops, one file for each family of kernels;
- ``schedule``: schedules as data: transforms from loops to loops, and the planner that chooses;
- ``program``: the program level: what runs between kernels, as steps, with its memory plan and
  report;
- ``llvm``: the binding to LLVM, and the compiled code that is kept on disk;
- ``checked``: machine code that checks every access to memory;
- ``runtime``: what runs beside kernels: threads, arenas, tapes, interrupts, the floating-point
  mode;
- ``products``: matrix products: a micro-kernel, the blocked loops around it, and the objects they
  become;
- ``cpu``: kernels and programs as LLVM functions for a CPU;
- ``gpu``: kernels as PTX for NVIDIA GPUs;
- ``call``: from a call in Python to machine code and back;
- ``aot``: from object files to what runs without Python: WebAssembly modules and web pages.

``build`` is the whole way on one page, ``warm`` the way of a program that the disk has already.
"""
