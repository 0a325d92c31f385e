"""The staged function: finds or compiles the program for a call, and runs it."""
