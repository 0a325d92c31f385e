"""Parts that remember moments of gradients: means of them, of their squares, and alike."""
