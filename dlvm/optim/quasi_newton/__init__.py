"""L-BFGS: a direction by the last gradients, a line search, and a loop around both."""
