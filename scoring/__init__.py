"""Scores language models for gender bias: data to requests, responses to metrics, metrics to intervals and reports.

From Python::

    import scoring

    result = scoring.evaluate("gpt2", benchmarks=["stereoset", "occugender"])
    result.table()                   # a DataFrame: benchmark, group, metric, value, low, high, ideal, n, clusters
    result.examples("occugender")    # a DataFrame of every example
    result.save("runs/gpt2")
    scoring.compare(result, "runs/earlier").table()   # paired differences, with a verdict

From the terminal: ``probes score MODEL``.
"""

from lazy_loader import attach_stub as _attach_stub

# What the stub beside this file imports; a name is imported at its first use, so that importing the package is cheap.
__getattr__, __dir__, __all__ = _attach_stub(__name__, __file__)
