"""The optimisers by name, each a chain of parts."""
