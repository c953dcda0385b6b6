"""Co-occurrence (PMI) of words with gendered words in a corpus, and MaxPMIDiff of sentences."""

from lazy_loader import attach_stub as _attach_stub

# What the stub beside this file imports; a name is imported at its first use, so that importing the package is cheap.
__getattr__, __dir__, __all__ = _attach_stub(__name__, __file__)
