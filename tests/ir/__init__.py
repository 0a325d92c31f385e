"""Tests of the language itself."""
