"""What a run says of the token before its texts, which decides some scores.

A sentence without context needs a token before its first one. As in lm-evaluation-harness that is BOS, also where the
tokenizer itself puts nothing before a text, and where BOS is the mark of a role in the chat template.
"""

from scoring.inference.chat import Chat
from scoring.inference.tokens import Tokens
from scoring.types import ScoringError


def remarks(tokens: Tokens) -> list[str]:
    """Sentences about a BOS that the tokenizer has and does not add, and about one that marks the role of a turn."""
    bos = tokens.tokenizer.bos_token
    if tokens.kind == "masked" or not bos:
        return []
    sentences = []
    if not tokens.prefix:
        sentences.append(
            f"The tokenizer has {bos} as beginning of a sequence and does not put it before texts: sentences follow "
            "it, and texts with a context begin without it, as in lm-evaluation-harness. Compare --start bos and none."
        )
    if _marks_roles(tokens):
        sentences.append(
            f"{bos} begins each turn in the chat template, so a sentence after it is read as the beginning of a turn. "
            f"Compare --start {tokens.tokenizer.unk_token or 'none'}."
        )
    return sentences


def _marks_roles(tokens: Tokens) -> bool:
    """Whether BOS begins each turn of a chat, such as ``<|im_start|>``, and not the chat alone."""
    try:
        text = Chat(tokens.tokenizer, "").text("Hello.")
    except ScoringError:  # without a chat template, or with one that cannot be used
        return False
    # The turn of the user, and the beginning of the reply.
    return text.count(tokens.tokenizer.bos_token) > 1
