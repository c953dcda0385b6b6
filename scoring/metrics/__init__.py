"""Metrics, one small file for each question; each metric is a pure function of sums over examples."""
