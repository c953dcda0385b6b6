"""Builds data sets from pinned sources.

Source files are fetched and verified (:mod:`builders.sources`), parsed to checked rows
(:mod:`builders.datasets`, :mod:`builders.parsers`), and written as Parquet with a manifest and a card
(:mod:`builders.builder`). The command is ``probes build``; :func:`build` and :func:`load` do the
same in Python, and :func:`with_text` restores text that is not published.
"""

from lazy_loader import attach_stub as _attach_stub

# What the stub beside this file imports; a name is imported at its first use, so that importing the package is cheap.
__getattr__, __dir__, __all__ = _attach_stub(__name__, __file__)
