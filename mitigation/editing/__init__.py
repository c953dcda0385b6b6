"""Knowledge editing: the fairness stamp, tracing of blocks, edits."""
