"""From a kernel of tensor operations to loops, one file for each family of kernels."""
