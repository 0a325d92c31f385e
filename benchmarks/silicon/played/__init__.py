"""What is packed to run on a bare machine: Python, NumPy and NVIDIA's driver, nothing of dlvm."""
