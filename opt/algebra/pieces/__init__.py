"""Parts of products, and products of parts: what is asked for alone, and what is one batch."""
