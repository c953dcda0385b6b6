"""Every printed number of the five papers with the measured one.

:mod:`scoring.reproduce.printed` has the printed tables as data, :mod:`scoring.reproduce.measured` finds what was
measured, :mod:`scoring.reproduce.published` computes it from published responses without a model, and
:mod:`scoring.reproduce.plan` has the ordinary commands that measure the rest. From Python::

    from scoring.reproduce import cells

    cells("unstereo/table-5")    # a list of Cell: printed, measured, low, high, verdict, reason
"""

from scoring.reproduce.measured import STATES, Cell, Measured, cells
from scoring.reproduce.printed import PrintedTable, printed_tables

__all__ = ["STATES", "Cell", "Measured", "PrintedTable", "cells", "printed_tables"]
