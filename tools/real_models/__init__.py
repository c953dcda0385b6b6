"""The page of real models: what published responses say of them, as findings, one table, plots and a page each.

``python -m tools.real_models --out FOLDER`` makes all runs from pinned files and writes the whole site part; the facts
are kept in ``docs/models/scores.json``, from which the page in the documentation is made without any file.
"""
