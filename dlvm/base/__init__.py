"""What everybody may use and that knows nobody: errors, locks, settings, lazy imports."""
