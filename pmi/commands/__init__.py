"""The commands of ``python -m pmi``: one file a command, whose name is the command's and whose ``main`` runs it."""
