"""Statistics: cluster bootstrap, confidence intervals, paired comparisons."""
