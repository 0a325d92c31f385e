"""What thousands of threads can't do one after the other, in ordinary operations."""
