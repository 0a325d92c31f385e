"""Code for other processors as files: an object, its C header, its weights and a description."""
