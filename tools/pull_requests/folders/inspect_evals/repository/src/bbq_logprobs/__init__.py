"""BBQ by the probabilities of the letters of its answers."""

from .bbq_logprobs import bbq_logprobs

__all__ = ["bbq_logprobs"]
