"""Code that every package may import and that imports none of them: errors, locks, settings."""
