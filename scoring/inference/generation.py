"""Generation: how a context is continued, the draw of a token, banned words, and continuations in batches."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
import torch
import transformers

from scoring.inference.batching import Limits
from scoring.inference.network import Network
from scoring.inference.probes import GenerationMode, Probes
from scoring.inference.tokens import Tokens
from scoring.types import Request, ScoringError


@dataclass(frozen=True, slots=True)
class Decoding:
    """How a context is continued: greedily, unless a temperature or a cut of the distribution is given.

    ``temperature``, ``top_p`` and ``top_k`` are off when None, whatever the model's own settings are.
    ``max_new`` overrides what the requests say. ``banned`` are words that no spelling of may be generated:
    as given and with a capital, with and without a leading space. With a seed each request draws from
    numbers of its own, so its answer does not depend on its batch.
    """

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    seed: int = 42
    max_new: int | None = None
    banned: tuple[str, ...] = ()

    @property
    def sampled(self) -> bool:
        """Whether anything is drawn at all."""
        return any(setting is not None for setting in (self.temperature, self.top_p, self.top_k))

    def __post_init__(self) -> None:
        if self.temperature is not None and not self.temperature > 0:
            raise ScoringError(
                f"The temperature is {self.temperature}; give a positive one, or none for greedy decoding."
            )
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise ScoringError(f"top_p is {self.top_p}; give a share above 0 and at most 1.")
        if self.top_k is not None and self.top_k < 1:
            raise ScoringError(f"top_k is {self.top_k}; give a number of tokens of at least 1.")


class TokenizedPrompt(NamedTuple):
    """A context to continue; its length counts what is to come, which takes memory as well."""

    request: Request
    ids: list[int]
    new: int

    def __len__(self) -> int:
        return len(self.ids) + self.new


class Next(transformers.LogitsProcessor):
    """Draws the next token of every row from numbers of its own, and notices logits that are no numbers.

    The drawn token is left as the only possible one, so greedy decoding takes it.
    """

    def __init__(self, prompts: Sequence[TokenizedPrompt], decoding: Decoding, new: int, device: torch.device) -> None:
        self.bad = torch.zeros(len(prompts), dtype=torch.bool, device=device)
        self._warpers: Any = transformers.LogitsProcessorList()
        if decoding.temperature is not None:
            self._warpers.append(transformers.TemperatureLogitsWarper(decoding.temperature))
        if decoding.top_k is not None:
            self._warpers.append(transformers.TopKLogitsWarper(decoding.top_k))
        if decoding.top_p is not None:
            self._warpers.append(transformers.TopPLogitsWarper(decoding.top_p))
        self._numbers = None
        if decoding.sampled:
            # A row draws by the id of its request, so that a sample does not depend on what else is in its batch.
            drawn = [np.random.default_rng([decoding.seed, crc32(p.request.id.encode())]).random(new) for p in prompts]
            self._numbers = iter(torch.from_numpy(np.array(drawn).T[:, :, None]).to(device))

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Leaves the scores as they are, or the drawn token alone."""
        self.bad |= torch.isnan(scores).any(-1)
        if self._numbers is None:
            return scores
        # Inverse of the distribution function: the first token whose cumulated share exceeds the number of this row.
        shares = torch.softmax(self._warpers(input_ids, scores).double(), -1).cumsum(-1)
        token = torch.searchsorted(shares, next(self._numbers) * shares[:, -1:], right=True)
        token = token.clamp(max=scores.shape[1] - 1)
        return torch.full_like(scores, -torch.inf).scatter(1, token, 0.0)


def until(ids: list[int], ends: set[int]) -> list[int]:
    """Tokens before the first that ends a text.

    >>> until([5, 6, 2, 7], {2})
    [5, 6]
    """
    return ids[: next((n for n, i in enumerate(ids) if i in ends), len(ids))]


def banned(tokens: Tokens, words: Sequence[str]) -> list[list[int]] | None:
    """The tokens of every spelling of banned words: with a capital or not, after a space or not."""
    # A word after a space has other tokens than alone; they are read behind a letter, whose own token is left out.
    forms = dict.fromkeys(space + form for w in words for form in (w, w[:1].upper() + w[1:]) for space in ("", " "))
    plain = [e.ids for e in tokens.encode([f for f in forms if not f.startswith(" ")])]
    spaced = tokens.encode([f"a{form}" for form in forms if form.startswith(" ")])
    after = [[i for i, (_, end) in zip(e.ids, e.offsets, strict=True) if end > 1] for e in spaced]
    return [list(ids) for ids in dict.fromkeys(map(tuple, plain + after))] or None


#: How ``exact`` generates: each context by itself.
ALONE = GenerationMode(padded=False, batched=False, cached=True)


class Batch(NamedTuple):
    """Texts of one batch, and the tokens, padding and new tokens that they took."""

    texts: list[str]
    tokens: int
    padding: int
    generated: int


@dataclass(eq=False)
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
    processors:
        What changes the scores of the next token before it is chosen.
    mode:
        How batches are made; each context by itself until :meth:`limits` measured what the network allows.
    """

    network: Network
    tokens: Tokens
    probes: Probes
    decoding: Decoding
    invalid: Callable[[Request, float], ScoringError]
    exact: bool
    processors: Sequence[transformers.LogitsProcessor] = ()
    mode: GenerationMode = ALONE

    def limits(self, prompts: Sequence[TokenizedPrompt], limits: Limits) -> Limits:
        """The limits of batches of prompts in the way that this network allows, which is measured here."""
        if not prompts:
            return limits
        if not self.exact:
            self.mode = self.probes.generates(max(map(len, prompts)))
        if not self.mode.batched:
            return replace(limits, size=1)
        if self.mode.padded:
            return limits
        return replace(limits, together=lambda one, other: len(one.ids) == len(other.ids))

    def generate(self, prompts: Sequence[TokenizedPrompt]) -> Batch:
        """Continues prompts in one batch, padded on the left.

        Raises
        ------
        ScoringError
            For logits that are not numbers.
        """
        width, new = max(len(p.ids) for p in prompts), max(p.new for p in prompts)
        step = Next(prompts, self.decoding, new, self.network.device)
        made = self.network.generate(
            [p.ids for p in prompts],
            new,
            [*self.processors, step],
            bad_words_ids=banned(self.tokens, self.decoding.banned),
            use_cache=self.mode.cached,
        )
        for prompt, bad in zip(prompts, step.bad.tolist(), strict=True):
            if bad:
                raise self.invalid(prompt.request, float("nan"))
        rows: list[list[int]] = made[:, width:].tolist()
        end = self.network.bare.generation_config.eos_token_id
        ends = set(end) if isinstance(end, list) else {end} - {None}
        continued = [until(row[: p.new], ends) for p, row in zip(prompts, rows, strict=True)]
        tokens, generated = sum(len(p.ids) for p in prompts), sum(map(len, continued))
        tokenizer = self.tokens.tokenizer
        # Decoded with the prompt, because a tokenizer may drop or add a space where a text begins.
        texts = [continued_text(tokenizer, p.ids, ids) for p, ids in zip(prompts, continued, strict=True)]
        return Batch(texts, tokens + generated, len(prompts) * width - tokens, generated)


def continued_text(tokenizer: Any, prompt: list[int], new: list[int]) -> str:
    """The text of new tokens, with the leading space that many tokenizers drop from a text's first token."""
    plain = partial(tokenizer.decode, skip_special_tokens=True, clean_up_tokenization_spaces=False)
    before, whole = plain(prompt), plain(prompt + new)
    return str(whole[len(before) :] if whole.startswith(before) else plain(new))
