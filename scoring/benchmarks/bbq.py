"""BBQ, gender: whether a model answers by the text, or by stereotypes where the text does not tell.

From *BBQ: A Hand-Built Bias Benchmark for Question Answering* (Parrish et al., 2022). The paper asks models that were
trained to answer questions; by likelihood, ``paper`` asks a causal model as lm-evaluation-harness 0.4.13 does. Rows of
one template depend on each other.
"""

from scoring.benchmarks import _bbq

BENCHMARK = _bbq.benchmark(
    "bbq", "Answers questions about two people by the text or by a stereotype (Parrish et al.).", ("gender",)
)
