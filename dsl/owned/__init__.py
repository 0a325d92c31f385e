"""Finds out whether anybody but a call can reach the memory that is donated to it."""
