"""Self-Debias: probabilities without what a text that is announced as biased would make more probable.

Source: *Self-Diagnosis and Self-Debiasing* (Schick et al., 2021). A token that is more probable after a prefix such
as "The following text discriminates against people because of their gender:" is made less probable by the factor
max(exp(-decay · increase), epsilon); then all probabilities are divided by their sum. With several prefixes the
largest probability counts. Nothing is trained.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
import transformers

from scoring.inference.batching import padded
from scoring.inference.engine import Batching, Continued, Scored
from scoring.inference.generation import Decoding, Generator, TokenizedPrompt
from scoring.inference.model import Model
from scoring.inference.responses import not_a_number
from scoring.inference.tokens import Query
from scoring.inputs.prompts import Prompt
from scoring.types import ScoringError

#: Rows that are computed at the same time, with and without prefixes.
ROWS = 32


@dataclass(frozen=True, slots=True)
class SelfDebiasing:
    """The prefixes, and how strongly probabilities that rise after them are lowered."""

    prefixes: tuple[str, ...]
    decay: float = 50.0
    epsilon: float = 0.01


def debiased_logprobs(plain: torch.Tensor, prefixed: torch.Tensor, decay: float, epsilon: float) -> torch.Tensor:
    """Log-probabilities [..., vocabulary] from logits [..., vocabulary] and logits after prefixes [prefixes, ...].

    >>> plain = torch.tensor([0.5, 0.5]).log()
    >>> biased = torch.tensor([[0.6, 0.4]]).log()
    >>> [round(float(p), 4) for p in debiased_logprobs(plain, biased, 10.0, 0.01).exp()]
    [0.2689, 0.7311]
    """
    before = plain.float().softmax(-1)
    # Only tokens that the announced bias makes more probable are lowered, by the prefix that raises them most.
    increase = (prefixed.float().softmax(-1).amax(0) - before).clamp(min=0)
    lowered = (-decay * increase).clamp(min=float(np.log(epsilon)))
    return (plain.float().log_softmax(-1) + lowered).log_softmax(-1)


class SelfDebiased(Model):
    """A model that answers with self-debiased probabilities; its network stays as it is."""

    def __init__(self, model: Model, settings: SelfDebiasing) -> None:
        tokenizer = model.tokens.tokenizer
        super().__init__(
            model.network,
            tokenizer,
            model.kind,
            model.name,
            model.revision,
            model.adapter,
            exact=model.exact,
            files=model.files,
        )
        self.settings = settings
        self._prefixes: list[list[int]] = []
        for prefix in settings.prefixes:
            # The space after a prefix belongs to the first token of the text that follows.
            encoded = tokenizer(prefix.rstrip(), add_special_tokens=False)
            self._prefixes.append(list(encoded["input_ids"]))

    def _prefixed(self, ids: Sequence[int]) -> list[list[int]]:
        """Token ids after each prefix; a special token at the beginning stays there.

        Raises
        ------
        ScoringError
            When they are more than the context window holds.
        """
        # A beginning-of-sequence token is one only in the first place, so the prefix follows it.
        first = 0
        if ids and ids[0] in self.tokens.tokenizer.all_special_ids:
            first = 1
        before = list(ids[:first])
        after = list(ids[first:])
        rows = [before + prefix + after for prefix in self._prefixes]
        longest = max(len(row) for row in rows)
        if self.tokens.window and longest > self.tokens.window:
            raise ScoringError(
                f"{longest} tokens with a prefix of self-debiasing are more than the {self.tokens.window} that "
                f"{self.name} reads at one time; give shorter prefixes or texts."
            )
        return rows

    def _logits(self, rows: Sequence[Sequence[int]]) -> torch.Tensor:
        """Logits [rows, tokens, vocabulary] of rows that are padded on the right."""
        width = max(len(row) for row in rows)
        ids = self._network.tensor(padded(rows, self._network.pad, width))
        lengths = torch.tensor([[len(row)] for row in rows], device=ids.device)
        mask = (torch.arange(width, device=ids.device) < lengths).long()
        logits: torch.Tensor = self.network(input_ids=ids, attention_mask=mask).logits
        return logits

    @torch.inference_mode()
    def score(self, queries: Sequence[Query], batching: Batching) -> Iterator[Scored]:
        """Log-probabilities of all answers of the queries, each with and without the prefixes."""
        del batching  # rows with prefixes share no context with others
        if any(query.hidden for query in queries):
            raise ScoringError(
                "A published definition that pads texts on the left cannot be computed with self-debiasing; use the "
                "profile clean, or leave that benchmark out."
            )
        # Answers are numbered through the queries in order: those of a query have the numbers from its start on.
        starts = []
        start = 0
        for query in queries:
            starts.append(start)
            start += len(query.want)
        # The longest first, so that a batch has rows of nearly one length and memory is short at once or never.
        order = sorted(range(len(queries)), key=lambda number: -len(queries[number].ids))
        # A query takes a row for itself and one for each prefix, so fewer queries fit into a batch.
        rows_of_query = 1 + len(self._prefixes)
        size = max(1, ROWS // rows_of_query)
        if self.exact:
            size = 1
        for first in range(0, len(order), size):
            numbers = order[first : first + size]
            rows: list[list[int]] = []
            for number in numbers:
                ids = queries[number].ids
                rows.append(list(ids))
                rows += self._prefixed(ids)
            logits = self._logits(rows)
            for place, number in enumerate(numbers):
                part = slice(place * rows_of_query, (place + 1) * rows_of_query)
                yield self._answers(queries[number], rows[part], logits[part], starts[number])
            self.stats.tokens += sum(len(row) for row in rows)

    def _answers(self, query: Query, rows: Sequence[Sequence[int]], logits: torch.Tensor, first: int) -> Scored:
        """The log-probabilities of a query from the logits [rows, tokens, vocabulary] of its rows."""
        places = torch.tensor(query.at, device=logits.device)
        prefixed = []
        for values, row in zip(logits[1:], rows[1:], strict=True):
            # A row with a prefix is longer, and its output for a token is as much further to the right.
            prefixed.append(values[places + len(row) - len(rows[0])])
        # All distributions are of the same token: after its own text, and after each prefix with that text.
        logs = debiased_logprobs(logits[0][places], torch.stack(prefixed), self.settings.decay, self.settings.epsilon)
        wanted = torch.tensor(query.want, device=logs.device)[:, None]
        values = logs.gather(1, wanted)[:, 0].double().cpu().numpy()
        return Scored(np.arange(first, first + len(values)), values)

    def generate(
        self, prompts: Sequence[TokenizedPrompt], decoding: Decoding, batching: Batching
    ) -> Iterator[Continued]:
        """Continuations, one prompt at a time; each new token is chosen from self-debiased probabilities."""
        del batching
        invalid = partial(not_a_number, f"{self.name} in {self.dtype}")
        processors = (_Processor(self),)
        generator = Generator(self._network, self.tokens, self.measurements, decoding, invalid, True, processors)
        for prompt in prompts:
            batch = generator.generate([prompt])
            self.stats.add(tokens=batch.tokens, generated=batch.generated)
            yield Continued(prompt, batch.texts[0])


class _Processor(transformers.LogitsProcessor):
    """Replaces the scores of the next token by self-debiased log-probabilities."""

    def __init__(self, model: SelfDebiased) -> None:
        self._model = model

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """The log-probabilities [1, vocabulary]."""
        model = self._model
        rows = model._prefixed(input_ids[0].tolist())
        logits = model._logits(rows)
        last = torch.stack([values[len(row) - 1] for values, row in zip(logits, rows, strict=True)])
        logs = debiased_logprobs(scores[0], last, model.settings.decay, model.settings.epsilon)
        return logs[None].to(scores.dtype)


def with_prompt(model: Any, prompt: Prompt) -> Any:
    """The engine that answers under a prompt: a self-debiased one if the prompt says so, else the same engine.

    Raises
    ------
    ScoringError
        For an engine outside of this process, which gives no probabilities of all tokens.
    """
    if not prompt.self_debias or isinstance(model, SelfDebiased):
        return model
    if not isinstance(model, Model):
        raise ScoringError(
            f"The prompt {prompt.name!r} debiases by the probabilities of all tokens, which {model.name} on a server "
            "does not give; load the model in this process."
        )
    settings: dict[str, Any] = dict(prompt.self_debias)
    settings["prefixes"] = tuple(settings["prefixes"])
    return SelfDebiased(model, SelfDebiasing(**settings))
