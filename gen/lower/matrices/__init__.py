"""The loops of factorisations: matrices in scratch memory, panels, reflections and rotations."""
