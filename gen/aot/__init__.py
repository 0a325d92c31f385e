"""Ahead-of-time compilation: from object files to things that run without Python.

``wasm`` turns an object file for WebAssembly into a module, with no linker; ``wasm_object`` reads
such an object, ``wasm_format`` reads and writes the numbers and vectors of the format, ``memory``
has the functions that LLVM expects of a C library. ``loader.js`` runs a module in JavaScript, and
``page`` makes one web page of a module, its weights and the loader.
"""
