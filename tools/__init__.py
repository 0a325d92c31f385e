"""What keeps the house: set-up and checks that are no part of the package."""
