"""The binding to LLVM, and the compiled code that is kept on disk."""
