"""Tracing: scopes, staged values, their sizes, trees of arguments and specifications."""
