"""Sums of products, and products that are written as sums."""
