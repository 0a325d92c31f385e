"""What is computed again instead of kept, and the order that decides what is alive."""
