"""Counting of co-occurrences: corpus readers, the compiled scanner, engines for one machine and clusters."""
