"""Formats of the Hub: Croissant, published results, and the results that others upload."""
