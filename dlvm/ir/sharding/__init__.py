"""Arrays shared by the ranks of a mesh: the mesh, pieces of arrays, and ranks that meet."""
