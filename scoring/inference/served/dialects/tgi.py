"""TGI, which is asked as vLLM is, and gives no log-probabilities of prompts."""

from scoring.inference.served.dialects.vllm import VLLM


class TGI(VLLM):
    """A server that the handshake refuses by its name."""

    software = "TGI"
    owner = ""
    signs = (("info", "router"), ("info", "model_id"))
    version = ("info", "version")
    tokenize = ""


DIALECT = TGI
