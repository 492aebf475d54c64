"""Stands in for LiteRT in tests. Nothing of it is real."""

__version__ = "1.9"
