"""Llama.cpp's own server, which is asked as vLLM is, and gives no log-probabilities of prompts."""

from scoring.inference.served.dialects.vllm import VLLM


class LlamaCpp(VLLM):
    """A server that the handshake refuses by its name."""

    software = "llama.cpp's own server"
    owner = "llamacpp"
    signs = (("props", "default_generation_settings"),)
    version = None
    tokenize = ""


DIALECT = LlamaCpp
