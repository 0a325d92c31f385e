"""Functions of functions: derivatives, batching, recomputation, and rules of users."""
