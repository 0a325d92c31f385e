"""The ways to a GPU: NVIDIA's driver, and packages for others; each is a ``device.Device``."""
