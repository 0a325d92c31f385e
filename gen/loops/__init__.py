"""The loop level: what a kernel does to memory, its text, its verifier and its interpreter."""
