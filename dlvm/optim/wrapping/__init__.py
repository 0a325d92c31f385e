"""Optimisers around an optimiser: for some parameters, for some steps, of hyperparameters."""
