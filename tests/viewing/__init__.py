"""The page about one program: its data, and what it does in a browser."""
