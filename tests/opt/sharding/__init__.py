"""Programs for the ranks of a mesh, on simulated ranks, against the same programs on one device."""
