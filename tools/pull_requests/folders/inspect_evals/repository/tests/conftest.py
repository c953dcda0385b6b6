"""No test needs the network: the mock would count tokens with a vocabulary that is downloaded."""

import pytest
import tiktoken


class Words:
    """Counts words in place of tokens."""

    def encode(self, text, **_):
        return text.split()


@pytest.fixture(autouse=True)
def words(monkeypatch):
    monkeypatch.setattr(tiktoken, "get_encoding", lambda _: Words())
