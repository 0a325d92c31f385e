"""The program level: what runs between kernels, as steps, with its memory plan and report."""
