"""Machine code that checks every access to memory."""
