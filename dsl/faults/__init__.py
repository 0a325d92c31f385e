"""What is kept of a fault of ours while Python runs."""
