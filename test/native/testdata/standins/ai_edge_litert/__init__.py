"""Stands in for LiteRT in tests. Nothing of it is real."""
