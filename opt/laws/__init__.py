"""Laws of operations at work, and arithmetic at compile time."""
