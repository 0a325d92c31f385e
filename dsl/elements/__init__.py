"""Public functions of single elements, and of what reductions make of them."""
