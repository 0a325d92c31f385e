"""The staged function: from a call to the program that runs, and back."""
