"""Matrix products: a micro-kernel, the blocked loops around it, and the objects they become."""
