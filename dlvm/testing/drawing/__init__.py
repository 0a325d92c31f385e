"""Random programs, drawn operation by operation."""
