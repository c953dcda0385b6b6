"""The commands of ``probes pmi``, one file each: the file name is the command, and ``main`` runs it."""
