"""Linear algebra: products in their cheapest order, and what of a product is asked for alone."""

from . import chains, parts, repeats, selections, sums

__all__ = ["chains", "parts", "repeats", "selections", "sums"]
