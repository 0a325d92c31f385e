"""Code for other processors as files, which run without Python.

``bundle`` makes all files of a function: ``layout`` says what its C function takes, ``scratch`` how
much memory it needs beside them, ``entry`` writes it, ``joined`` makes one object, with LLVM in a
process of its own (``worker``), and ``header`` and ``archive`` are what C reads. ``wasm`` turns an
object for WebAssembly into a module, with no linker; ``wasm_object`` reads such an object,
``wasm_format`` the numbers of the format, and ``memory`` has the functions that LLVM expects of a C
library. ``loader.js`` runs a module in JavaScript, and ``page`` makes one web page of it.
"""
