"""Layers as dataclasses: they hold parameters and call the functions of ``dlvm.nn``."""
