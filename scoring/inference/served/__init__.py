"""The served engine: a model behind one or several inference servers that return log-probabilities of prompts."""
