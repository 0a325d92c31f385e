"""Products with inverses, and the factors that solve them."""
