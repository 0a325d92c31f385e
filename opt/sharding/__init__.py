"""Programs for the ranks of a mesh: which axes they share, local code, and what they exchange."""
