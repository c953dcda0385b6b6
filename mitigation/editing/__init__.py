"""Knowledge editing: the fairness stamp, tracing of blocks, edits."""

#: Where outputs are restored: at the last token of the subject, where the answer is predicted, or everywhere.
POSITIONS = ("subject", "answer", "all")
#: Groups of the pairs that a recipe edits: those of subjects that were kept out of it come first.
SIDES = ("held-out subjects", "edited subjects")
#: The name of scores of the pairs that a recipe edits, where others have that of a benchmark.
PAIRS = "fast"
