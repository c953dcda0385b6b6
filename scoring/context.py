"""What a benchmark may know besides a row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from scoring.errors import ScoringError


def _unknown(what: object) -> Any:
    raise ScoringError(f"The model's tokenizer is not known here, and {what!r} needs it; score with a loaded model.")


@dataclass(frozen=True, slots=True)
class BenchmarkContext:
    """What a benchmark may know besides the row: facts of the model, and of the split that the row is in.

    Parameters
    ----------
    kind:
        ``causal`` or ``masked``.
    encode:
        Gives, for each text, its token ids and the character offsets of its tokens, without special tokens.
    longest:
        The number of tokens of the longest text in a column of the split.
    model, family:
        The name of the model, and the ``model_type`` of its configuration.
    padding_side:
        On which side its tokenizer pads.
    """

    kind: Literal["causal", "masked"]
    encode: Callable[[Sequence[str]], Sequence[Any]] = _unknown
    longest: Callable[[str], int] = _unknown
    model: str = ""
    family: str = ""
    padding_side: str = "right"
