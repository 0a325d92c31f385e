"""Programs for a GPU packed into one file, which a bare machine with a driver replays."""
