"""From a call in Python to machine code and back."""
