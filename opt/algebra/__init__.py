"""Linear algebra: products in their cheapest order, and what of a product is asked for alone."""

from importlib import import_module

LAWS = (
    "pieces.alike",
    "sums.centring",
    "factors.chains",
    "sums.contractions",
    "sums.convolutions",
    "pieces.joined_products",
    "known",
    "sums.outers",
    "pieces.parts",
    "pieces.pushing",
    "factors.repeats",
    "factors.scales",
    "factors.selections",
    "solves.solves",
    "sums.sums",
)
"""The files of laws, in the order in which laws under one operation are tried."""

for _file in LAWS:
    import_module(f"{__name__}.{_file}")
