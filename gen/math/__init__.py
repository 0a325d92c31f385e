"""Functions of floats as instructions, in any number of lanes, and the scalar instructions."""
