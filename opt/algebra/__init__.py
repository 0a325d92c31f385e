"""Linear algebra: products in their cheapest order, and what of a product is asked for alone."""

from . import (
    alike,
    centring,
    chains,
    contractions,
    convolutions,
    joined_products,
    known,
    outers,
    parts,
    pushing,
    repeats,
    scales,
    selections,
    solves,
    sums,
)

__all__ = [
    "alike",
    "centring",
    "chains",
    "contractions",
    "convolutions",
    "joined_products",
    "known",
    "outers",
    "parts",
    "pushing",
    "repeats",
    "scales",
    "selections",
    "solves",
    "sums",
]
