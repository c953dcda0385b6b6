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
from scoring.inference.measurements import GenerationMode, Measurements
from scoring.inference.network import Network
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
        return self.temperature is not None or self.top_p is not None or self.top_k is not None

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
            rows = []
            for prompt in prompts:
                # A row draws by the id of its request, so that a sample does not depend on what else is in its batch.
                seed = [decoding.seed, crc32(prompt.request.id.encode())]
                rows.append(np.random.default_rng(seed).random(new))
            # Of shape [new, rows, 1]: one number for each row at each step.
            self._numbers = iter(torch.from_numpy(np.array(rows).T[:, :, None]).to(device))

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
    for place, token in enumerate(ids):
        if token in ends:
            return ids[:place]
    return ids


def banned(tokens: Tokens, words: Sequence[str]) -> list[list[int]] | None:
    """The tokens of every spelling of banned words: with a capital or not, after a space or not."""
    forms: dict[str, None] = {}
    for word in words:
        for spelling in (word, word[:1].upper() + word[1:]):
            forms[spelling] = None
            forms[f" {spelling}"] = None
    alone = [form for form in forms if not form.startswith(" ")]
    after_space = [f"a{form}" for form in forms if form.startswith(" ")]
    sequences: dict[tuple[int, ...], None] = {}
    for encoding in tokens.encode(alone):
        sequences[tuple(encoding.ids)] = None
    # A word after a space has other tokens than alone; they are read after a letter, whose own token is left out.
    for encoding in tokens.encode(after_space):
        ids = [token for token, (_, end) in zip(encoding.ids, encoding.offsets, strict=True) if end > 1]
        sequences[tuple(ids)] = None
    if not sequences:
        return None
    return [list(ids) for ids in sequences]


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
    network, tokens, measurements:
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
    measurements: Measurements
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
            self.mode = self.measurements.generates(max(len(prompt) for prompt in prompts))
        if not self.mode.batched:
            return replace(limits, size=1)
        if self.mode.padded:
            return limits
        return replace(limits, together=lambda first, second: len(first.ids) == len(second.ids))

    def generate(self, prompts: Sequence[TokenizedPrompt]) -> Batch:
        """Continues prompts in one batch, padded on the left.

        Raises
        ------
        ScoringError
            For logits that are not numbers.
        """
        width = max(len(prompt.ids) for prompt in prompts)
        new = max(prompt.new for prompt in prompts)
        step = Next(prompts, self.decoding, new, self.network.device)
        processors = list(self.processors)
        # The draw comes last: it is of the scores that the others leave.
        processors.append(step)
        generated = self.network.generate(
            [prompt.ids for prompt in prompts],
            new,
            processors,
            bad_words_ids=banned(self.tokens, self.decoding.banned),
            use_cache=self.mode.cached,
        )
        for prompt, bad in zip(prompts, step.bad.tolist(), strict=True):
            if bad:
                raise self.invalid(prompt.request, float("nan"))
        end = self.network.bare.generation_config.eos_token_id
        if isinstance(end, list):
            ends = set(end)
        else:
            ends = {end} - {None}
        texts = []
        new_tokens = 0
        prompt_tokens = 0
        rows: list[list[int]] = generated[:, width:].tolist()
        for prompt, row in zip(prompts, rows, strict=True):
            ids = until(row[: prompt.new], ends)
            new_tokens += len(ids)
            prompt_tokens += len(prompt.ids)
            # Decoded with the prompt, because a tokenizer may drop or add a space where a text begins.
            texts.append(continued_text(self.tokens.tokenizer, prompt.ids, ids))
        padding = len(prompts) * width - prompt_tokens
        return Batch(texts, prompt_tokens + new_tokens, padding, new_tokens)


def continued_text(tokenizer: Any, prompt: list[int], new: list[int]) -> str:
    """The text of new tokens, with the leading space that many tokenizers drop from a text's first token."""
    decode = partial(tokenizer.decode, skip_special_tokens=True, clean_up_tokenization_spaces=False)
    before = str(decode(prompt))
    whole = str(decode(prompt + new))
    if whole.startswith(before):
        return whole[len(before) :]
    # The last token of the prompt and the first new one may be bytes of one letter.
    return str(decode(new))
