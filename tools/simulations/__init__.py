"""Simulations with known truth: whether intervals, verdicts and tests hold what the documentation says of them."""
