"""Pinned sources become published data sets.

Source files are fetched and verified (:mod:`builders.sources.fetch`), turned into checked rows
(:mod:`builders.datasets`), and written as Parquet with a manifest and a card
(:mod:`builders.write`). The command is ``python -m builders.rebuild``.
"""
