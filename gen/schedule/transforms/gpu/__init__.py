"""The transforms that make blocks and lanes of a GPU."""
