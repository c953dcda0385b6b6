"""Generation: continuations of contexts in batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
import transformers

from scoring.inference.batching import Limits, padded
from scoring.inference.decoding import Decoding, Next, TokenizedPrompt, banned, until
from scoring.inference.network import Network
from scoring.inference.probes import GenerationMode, Probes
from scoring.inference.tokens import Tokens
from scoring.types import Request, ScoringError

#: How ``exact`` generates: each context by itself.
ALONE = GenerationMode(padded=False, batched=False, cached=True)


class Batch(NamedTuple):
    """Texts of one batch, and the tokens, padding and new tokens that they took."""

    texts: list[str]
    tokens: int
    padding: int
    generated: int


class Generator:
    """Continues contexts, in the way that gives what each gives by itself.

    Parameters
    ----------
    network, tokens, probes:
        The network, its tokenization and what is measured of it.
    decoding:
        How the next token is chosen.
    invalid:
        Makes the error for a request whose logits are not numbers.
    exact:
        Continue each context by itself.
    """

    def __init__(
        self,
        network: Network,
        tokens: Tokens,
        probes: Probes,
        decoding: Decoding,
        invalid: Callable[[Request, float], ScoringError],
        *,
        exact: bool,
    ) -> None:
        self.network = network
        self.tokens = tokens
        self.probes = probes
        self.decoding = decoding
        self.invalid = invalid
        self.exact = exact
        self.mode = ALONE
        #: What changes the scores of the next token before it is chosen.
        self.processors: Sequence[transformers.LogitsProcessor] = ()

    def limits(self, prompts: Sequence[TokenizedPrompt], limits: Limits) -> Limits:
        """The limits of batches of prompts in the way that this network allows, which is measured here."""
        if not prompts:
            return limits
        if not self.exact:
            self.mode = self.probes.generates(max(map(len, prompts)))
        if not self.mode.batched:
            return replace(limits, size=1)
        return limits if self.mode.padded else replace(limits, together=_same_length)

    @torch.inference_mode()
    def generate(self, prompts: Sequence[TokenizedPrompt]) -> Batch:
        """Continues prompts in one batch, padded on the left.

        Raises
        ------
        ScoringError
            For logits that are not numbers.
        """
        width, new = max(len(p.ids) for p in prompts), max(p.new for p in prompts)
        lengths = np.array([[len(p.ids)] for p in prompts])
        step = Next(prompts, self.decoding, new, self.network.device)
        made = self.network.module.generate(
            input_ids=self.network.tensor(padded([p.ids for p in prompts], self.network.pad, width, left=True)),
            attention_mask=self.network.tensor((np.arange(width) >= width - lengths).astype(np.int64)),
            logits_processor=transformers.LogitsProcessorList([*self.processors, step]),
            bad_words_ids=banned(self.tokens, self.decoding.banned),
            max_new_tokens=new,
            do_sample=False,
            num_beams=1,
            use_cache=self.mode.cached,
        )
        for prompt, bad in zip(prompts, step.bad.tolist(), strict=True):
            if bad:
                raise self.invalid(prompt.request, float("nan"))
        rows: list[list[int]] = made[:, width:].tolist()
        ends = self._ends()
        continued = [until(row[: p.new], ends) for p, row in zip(prompts, rows, strict=True)]
        tokens, generated = int(lengths.sum()), sum(map(len, continued))
        tokenizer = self.tokens.tokenizer
        texts = [continued_text(tokenizer, p.ids, ids) for p, ids in zip(prompts, continued, strict=True)]
        return Batch(texts, tokens + generated, len(prompts) * width - tokens, generated)

    def _ends(self) -> set[int]:
        ends = self.network.bare.generation_config.eos_token_id
        return set() if ends is None else set(ends) if isinstance(ends, list) else {ends}


def continued_text(tokenizer: Any, prompt: list[int], new: list[int]) -> str:
    """The text of new tokens, with the leading space that many tokenizers drop from a text's first token."""
    plain = partial(tokenizer.decode, skip_special_tokens=True, clean_up_tokenization_spaces=False)
    before, whole = plain(prompt), plain(prompt + new)
    return str(whole[len(before) :] if whole.startswith(before) else plain(new))


def _same_length(first: TokenizedPrompt, prompt: TokenizedPrompt) -> bool:
    return len(first.ids) == len(prompt.ids)
