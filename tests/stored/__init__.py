"""What other libraries gave for the cases of the tests, kept in files, and the programs for it."""
