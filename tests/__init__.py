"""The tests mirror the folders; what several of them share stands at this level."""
