"""Side by side with peers and physical limits; never an assertion of a test."""
