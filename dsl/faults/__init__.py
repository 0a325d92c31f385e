"""Reports of a bug in dlvm that shows while a function is traced."""
