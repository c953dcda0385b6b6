"""Inference: tokenization, batching, models, generation and the response cache."""
