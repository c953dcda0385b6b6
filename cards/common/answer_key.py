"""The key of a stored answer: everything that could change the answer.

Scores, continuations, replies of a chat API and checkpoints of a training are kept in files and used again. One
function makes the key of all of them. An answer is used only where each part of its key is equal, so each part stands
in the result that the answer became a part of.

>>> one = answer_key("org/model", files="ab12", prompt="plain", seed=0)
>>> one
{'model': 'org/model', 'files': 'ab12', 'prompt': 'plain', 'seed': 0}
>>> key_digest(one) == key_digest(answer_key("org/model", files="cd34", prompt="plain", seed=0))
False
"""

import hashlib
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from cards.common.stored import digest

#: A longer text of a key is shown by its SHA-256.
_LONGEST = 80


def answer_key(
    model: str, *, server: str = "", weights: str = "", files: str = "", adapter: str = "", **settings: Any
) -> dict[str, Any]:
    """What an answer depends on besides the question, by name; parts that are empty are left out.

    Parameters
    ----------
    model:
        The name of the model.
    server:
        The addresses of the servers that answer, see :func:`server_name`.
    weights, files:
        The commit or digest of the weights, and a digest of all files that the model and its tokenizer read.
    adapter:
        The adapter with its revision or digest.
    settings:
        All else: prompt, decoding, dtype, seed, versions.
    """
    parts = {"model": model, "server": server, "weights": weights, "files": files, "adapter": adapter, **settings}
    # Left out, so that a new part with an empty default does not change the keys of stored answers.
    return {name: value for name, value in parts.items() if value not in ("", None)}


def key_digest(key: Mapping[str, Any]) -> str:
    """SHA-256 of a key as canonical JSON."""
    return digest(key, ascii_only=False, strict=True)


def shown_key(key: Mapping[str, Any]) -> dict[str, str]:
    """A key as a result shows it: texts, and the SHA-256 of a long one.

    >>> shown_key({"seed": 0, "prompt": "x" * 100})["prompt"][:7]
    'sha256:'
    """
    texts = {}
    for name, value in key.items():
        text = str(value)
        if len(text) > _LONGEST:
            text = f"sha256:{hashlib.sha256(text.encode(errors='replace')).hexdigest()}"
        texts[name] = text
    return texts


def server_name(url: str) -> str:
    """The address of a server as a key has it: without user, password and a slash at the end.

    Of a query there is a hash, because it may choose the model or its version, and may have a secret.

    >>> server_name("HTTPS://me:secret@Example.org:8000/v1/"), server_name("http://example.org")
    ('https://example.org:8000/v1', 'http://example.org')
    >>> server_name("http://example.org/v1?api-version=1") == server_name("http://example.org/v1?api-version=2")
    False

    Of what is no address it is empty; the client refuses it.
    """
    try:
        parts = urlsplit(url.strip())
    except ValueError:
        return ""
    query = f"?{hashlib.sha256(parts.query.encode()).hexdigest()[:16]}" if parts.query else ""
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2].lower()}{parts.path.rstrip('/')}{query}"
