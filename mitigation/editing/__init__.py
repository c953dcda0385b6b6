"""Knowledge editing: the fairness stamp, tracing of blocks, edits."""

#: Where outputs are restored: at the last token of the subject, where the answer is predicted, or everywhere.
POSITIONS = ("subject", "answer", "all")
