"""The losses that recipes train with: of debias tuning, DPO, MABEL, and further training as a language model.

Debias tuning: *Disclosure and Mitigation of Gender Bias in LLMs* (Dong et al., 2024), section 5. L_d makes paired
female and male forms (she/he, her/him …) equally probable, L_g makes all forms improbable, L_l gives both
genders the same total. Each loss is per prompt; the paper adds them up over a batch, this project averages.
The forms are those of scoring: single tokens after a space, no token twice.

MABEL: *MABEL: Attenuating Gender Bias using Textual Entailment Data* (He et al., 2022), section 3. A sentence is
represented by the last hidden state of its first token, or by what a network of two layers makes of it, which the
authors train and throw away (``MLPLayer`` of their code).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch

from builders.text.words import PRONOUN_PAIRS
from mitigation.recipe import MitigationError, Model
from mitigation.texts.swaps import Swapper
from mitigation.training.train import LossTerms, TokenRows, logits_at, network_inputs
from scoring.inference.tokens import Tokens
from scoring.metrics import add, pronouns

#: Of the tokens that a masked model predicts, the shares that are masked and that are replaced by another token (BERT).
MASKED, OTHER = 0.8, 0.1
#: The token ids of a premise, its hypothesis, and both with swapped words.
EntailmentRow = tuple[list[int], list[int], list[int], list[int]]


class LanguageLoss:
    """The mean negative log-likelihood in nats of the next tokens, or of masked ones, as ``loss``."""

    def __init__(self, model: Model, share: float) -> None:
        self.kind = model.kind
        self.pad = model.tokens.pad
        self.share = share
        self.special = torch.tensor(sorted({*model.tokens.tokenizer.all_special_ids, self.pad}))
        self.mask = model.tokens.tokenizer.mask_token_id
        self.size = model.network.config.get_text_config().vocab_size

    def __call__(self, network: Any, rows: TokenRows) -> LossTerms:
        """The loss of a batch of rows."""
        device = next(network.parameters()).device
        inputs = network_inputs(rows, self.pad, device)
        ids = inputs["input_ids"]
        if self.kind == "causal":
            logits = network(**inputs, use_cache=False).logits[:, :-1]
            wanted, counted = ids[:, 1:], inputs["attention_mask"][:, 1:].bool()
        else:
            # Held-out rows have the same masks in every measurement.
            seed = int(torch.randint(2**31, (1,))) if network.training else 0
            generator = torch.Generator().manual_seed(seed)
            corrupted, counted = self.corrupt(ids.cpu(), generator)
            wanted, counted = ids, counted.to(device)
            logits = network(**inputs | {"input_ids": corrupted.to(device)}).logits
        losses = torch.nn.functional.cross_entropy(logits[counted].float(), wanted[counted])
        return {"loss": losses}

    def corrupt(self, ids: torch.Tensor, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        """Token ids [rows, tokens] as a masked model reads them, and which of them it predicts [rows, tokens].

        At least one token is predicted, so that the mean is defined.
        """
        # Special tokens and padding are never predicted.
        ordinary = ~torch.isin(ids, self.special)
        chosen = (torch.rand(ids.shape, generator=generator) < self.share) & ordinary
        if not chosen.any():
            chosen[tuple(ordinary.nonzero()[0])] = True
        # One draw decides which of the three a chosen token becomes.
        part = torch.rand(ids.shape, generator=generator)
        other = torch.randint(self.size, ids.shape, generator=generator)
        corrupted = torch.where(chosen & (part < MASKED), torch.tensor(self.mask), ids)
        return torch.where(chosen & (part >= MASKED) & (part < MASKED + OTHER), other, corrupted), chosen


class FormTokens(NamedTuple):
    """Token ids of female and of male forms, and of the pairs [pairs, 2] in which both forms are one token."""

    female: list[int]
    male: list[int]
    pairs: list[list[int]]

    @property
    def all(self) -> list[int]:
        """Every token id once."""
        return self.female + self.male


def form_tokens(tokens: Tokens, model: str) -> FormTokens:
    """The forms that a model can predict as one token.

    Raises
    ------
    MitigationError
        If no pair has two such forms, so that nothing can be balanced.
    """
    token = dict(zip(pronouns.FORMS, tokens.words(pronouns.FORMS), strict=True))
    pairs = [[token[f], token[m]] for f, m in PRONOUN_PAIRS if token[f] is not None and token[m] is not None]
    if not pairs:
        raise MitigationError(
            f"In the vocabulary of {model} no female and male form are one token each, so its next token cannot be "
            "balanced; give a model with larger tokens."
        )
    # A form without a partner of one token still counts for the total of its gender.
    female, male = ([i for pair in PRONOUN_PAIRS if (i := token[pair[side]]) is not None] for side in (0, 1))
    return FormTokens(female, male, [[int(i or 0) for i in pair] for pair in pairs])


def gender_mass(probabilities: torch.Tensor, forms: FormTokens) -> tuple[torch.Tensor, torch.Tensor]:
    """F and M: the total probability of female and of male forms, each [prompts]; takes [prompts, vocabulary]."""
    return probabilities[:, forms.female].sum(1), probabilities[:, forms.male].sum(1)


def divergence(
    probabilities: torch.Tensor, forms: FormTokens, epsilon: float = add.EPSILON, *, within: bool = False
) -> torch.Tensor:
    """L_d [prompts] of probabilities [prompts, vocabulary]: the printed expression of ADD, in nats.

    For a pair (f, m) it is half of f ln(2f / (f + m)) + m ln(2m / (f + m)), so at most half of ln 2 times
    F + M: its gradient is small where the forms are improbable. ``within`` first divides each form by the
    total of its gender. Only that variant fits the values that the paper prints for ADD without L_d.

    >>> p = torch.tensor([[0.5, 0.0, 0.5]], dtype=torch.float64)
    >>> round(divergence(p, FormTokens([0], [1], [[0, 1]])).item(), 6)
    0.173287
    >>> divergence(p, FormTokens([0], [1], [[0, 1]]), within=True).item()
    0.0
    """
    pairs = probabilities[:, forms.pairs] + epsilon
    if within:
        pairs = pairs / pairs.sum(1, keepdim=True)
    female, male = pairs.unbind(2)
    # Natural logarithms of shares around one half: 2f / (f + m) is 1 where the pair is balanced.
    both = female + male
    return 0.5 * (female * (2 * female / both).log() + male * (2 * male / both).log()).sum(1)


def presence(probabilities: torch.Tensor, forms: FormTokens) -> torch.Tensor:
    """L_g [prompts] of probabilities [prompts, vocabulary]: F + M.

    >>> presence(torch.tensor([[0.5, 0.25, 0.25]]), FormTokens([0], [1], [[0, 1]])).item()
    0.75
    """
    female, male = gender_mass(probabilities, forms)
    return female + male


def imbalance(probabilities: torch.Tensor, forms: FormTokens, epsilon: float = add.EPSILON) -> torch.Tensor:
    """L_l [prompts] of probabilities [prompts, vocabulary]: |F − M| / (F + M).

    >>> round(imbalance(torch.tensor([[0.5, 0.25, 0.25]]), FormTokens([0], [1], [[0, 1]])).item(), 4)
    0.3333
    """
    female, male = gender_mass(probabilities, forms)
    return (female - male).abs() / (female + male + epsilon)


def retention(base: torch.Tensor, tuned: torch.Tensor, forms: FormTokens) -> torch.Tensor:
    """KL(base ‖ tuned) [positions] of logits [positions, vocabulary], with all gendered forms as one event.

    The tuned model may move probability between the forms, and has to keep their total and everything else.
    Not in the paper, whose optimum gives no probability to any form.

    >>> logits = torch.tensor([[0.9, 0.1, 1.0]]).log()
    >>> retention(logits, logits[:, [1, 0, 2]], FormTokens([0], [1], [[0, 1]])).abs().max().item() < 1e-6
    True
    """
    base_logs, tuned_logs = (_merge_forms(logits, forms) for logits in (base, tuned))
    return (base_logs.exp() * (base_logs - tuned_logs)).sum(1)


def _merge_forms(logits: torch.Tensor, forms: FormTokens) -> torch.Tensor:
    """Log-probabilities of all other tokens, followed by that of all forms together."""
    logs = logits.float().log_softmax(-1)
    # All forms count as one token, so that moving probability between them costs nothing.
    others = torch.ones(logs.shape[1], dtype=torch.bool, device=logs.device)
    others[forms.all] = False
    return torch.cat([logs[:, others], logs[:, forms.all].logsumexp(1, keepdim=True)], 1)


def at_last(network: Any, inputs: Mapping[str, torch.Tensor], **options: Any) -> torch.Tensor:
    """The logits [rows, vocabulary] of a network at the last token of each row."""
    last = inputs["attention_mask"].sum(1) - 1
    return logits_at(network, inputs, torch.arange(len(last), device=last.device), last, **options)


class DebiasLoss:
    """The loss of a batch of prompts: the mean of each term over the prompts, and their weighted sum."""

    def __init__(self, model: Model, forms: FormTokens, settings: Any) -> None:
        self.device, self.pad, self.forms, self.settings = model.device, model.tokens.pad, forms, settings

    def __call__(self, network: Any, rows: TokenRows) -> LossTerms:
        """The terms by the name of their weight, also those of weight 0, and ``loss``."""
        inputs = network_inputs(rows, self.pad, self.device)
        if self.settings.retention:
            # Every position of the prompts is kept, not only the last one; padding is no position.
            real = inputs["attention_mask"].nonzero().T
            logits = logits_at(network, inputs, *real, use_cache=False)
            last = logits[inputs["attention_mask"].sum(1).cumsum(0) - 1]
        else:
            last = at_last(network, inputs, use_cache=False)
        probabilities = last.float().softmax(-1)
        epsilon, within = self.settings.epsilon, self.settings.l_d_within
        terms = {
            "l_d": divergence(probabilities, self.forms, epsilon, within=within).mean(),
            "l_g": presence(probabilities, self.forms).mean(),
            "l_l": imbalance(probabilities, self.forms, epsilon).mean(),
        }
        if self.settings.retention:
            terms["retention"] = self._retention(network, logits, inputs, real)
        return {"loss": sum(getattr(self.settings, name) * term for name, term in terms.items()), **terms}

    def _retention(
        self, network: Any, logits: torch.Tensor, inputs: dict[str, torch.Tensor], real: torch.Tensor
    ) -> torch.Tensor:
        """The divergence from the base model: the sum over the tokens of a prompt, the mean over the prompts."""
        # Several processes train a network that is wrapped; the base model is the network inside, without its adapter.
        tuned = network.module if isinstance(network, torch.nn.parallel.DistributedDataParallel) else network
        training = tuned.training
        with torch.no_grad(), tuned.disable_adapter():
            base = logits_at(tuned.eval(), inputs, *real, use_cache=False)
        tuned.train(training)
        return retention(base, logits, self.forms).sum() / len(inputs["attention_mask"])


class PreferenceLoss:
    """The loss of DPO (Rafailov et al. 2023, Eq. 7) for answers of one token, as a mean over the rows.

    A row is a :class:`mitigation.recipes.dpo.Preference`. With a share of 1 or 0 it is one preference of DPO; with a
    share between them it is the mean of the losses of both preferences, weighted by how often each is drawn. Beside
    ``loss`` it has the means of log P(first) − log P(second) and of its absolute value, in nats.
    """

    def __init__(self, model: Model, beta: float) -> None:
        self.device, self.pad, self.beta = model.device, model.tokens.pad, beta

    def __call__(self, network: Any, rows: Sequence[Any]) -> LossTerms:
        """The terms of a batch of rows."""
        prompts, answers, shares, references = zip(*rows, strict=True)
        inputs = network_inputs(prompts, self.pad, self.device)
        logits = at_last(network, inputs, use_cache=False)
        first, second = logits.float().gather(1, torch.tensor(answers, device=self.device)).unbind(1)
        ratio = first - second  # the normalization of both probabilities is the same
        # DPO compares with the base model, so only what training adds to the preference counts.
        added = self.beta * (ratio - torch.tensor(references, device=self.device))
        share = torch.tensor(shares, device=self.device)
        logsigmoid = torch.nn.functional.logsigmoid
        loss = -(share * logsigmoid(added) + (1 - share) * logsigmoid(-added)).mean()
        return {"loss": loss, "log ratio": ratio.mean(), "absolute log ratio": ratio.abs().mean()}


def entailment_rows(
    model: Model, pairs: Iterable[tuple[str, str]], swapper: Swapper, length: int
) -> list[EntailmentRow]:
    """The pairs with a listed word in either sentence, as rows of at most ``length`` token ids a sentence.

    A pair whose swapped copy has the same tokens, because the listed word is cut off, is left out.
    """
    # A pair without a listed word would be its own swapped copy and teach nothing.
    texts: list[str] = []
    for premise, hypothesis in pairs:
        swapped = swapper.swap(premise), swapper.swap(hypothesis)
        if swapped != (premise, hypothesis):
            texts += (premise, hypothesis)
            texts += swapped
    if not texts:
        return []
    window = min(length, model.tokens.window or length)
    # All texts at once: a tokenizer is much faster with one long list.
    ids = model.tokens.tokenizer(texts, truncation=True, max_length=window)["input_ids"]
    rows = []
    for start in range(0, len(ids), 4):
        premise_ids, hypothesis_ids, swapped_premise, swapped_hypothesis = ids[start : start + 4]
        if (premise_ids, hypothesis_ids) != (swapped_premise, swapped_hypothesis):
            rows.append((premise_ids, hypothesis_ids, swapped_premise, swapped_hypothesis))
    return rows


def similarities(premises: torch.Tensor, hypotheses: torch.Tensor, temperature: float) -> torch.Tensor:
    """Cosines of all premises with all hypotheses [premises, hypotheses], divided by the temperature."""
    unit_premises = torch.nn.functional.normalize(premises, dim=-1)
    unit_hypotheses = torch.nn.functional.normalize(hypotheses, dim=-1)
    return unit_premises @ unit_hypotheses.T / temperature


def contrastive(states: torch.Tensor, temperature: float) -> torch.Tensor:
    """The cross-entropy of finding the hypothesis of each premise among all of the batch, equations 1 and 2.

    ``states`` [4, rows, width] has the sentences in the order of :data:`EntailmentRow`. Swapped pairs are rows like
    the others, so the batch has twice as many.

    >>> states = torch.eye(4)[torch.tensor([[0, 1], [0, 1], [2, 3], [2, 3]])]
    >>> round(contrastive(states, 1.0).item(), 4)
    0.7437
    """
    premise, hypothesis, swapped_premise, swapped_hypothesis = states
    # The right hypothesis of each premise is on the diagonal; all others of the batch are wrong ones.
    table = similarities(
        torch.cat([premise, swapped_premise]), torch.cat([hypothesis, swapped_hypothesis]), temperature
    )
    return torch.nn.functional.cross_entropy(table, torch.arange(len(table), device=table.device))


def alignment(states: torch.Tensor, temperature: float) -> torch.Tensor:
    """How much the similarities of premises and hypotheses change when the words are swapped, as in the code.

    The squared differences of all similarities of a premise are added up, and their mean over premises is taken.

    >>> states = torch.eye(4)[torch.tensor([[0, 1], [0, 1], [2, 3], [3, 2]])]
    >>> alignment(states, 1.0).item()
    2.0
    """
    premise, hypothesis, swapped_premise, swapped_hypothesis = states
    difference = similarities(premise, hypothesis, temperature)
    difference = difference - similarities(swapped_premise, swapped_hypothesis, temperature)
    return difference.square().sum(1).mean()


class EntailmentLoss:
    """The contrastive loss, and the weighted losses of alignment and of masked tokens; ``loss`` is their sum."""

    def __init__(self, model: Model, temperature: float, aligned: float, masked: float, share: float) -> None:
        self.pad = model.tokens.pad
        self.temperature, self.aligned, self.masked = temperature, aligned, masked
        self.head: torch.nn.Module | None = None
        self.language = LanguageLoss(model, share)

    def __call__(self, network: Any, rows: Sequence[EntailmentRow]) -> LossTerms:
        """The terms of a batch of rows."""
        states = self.states(network, rows)
        sentences: list[list[int]] = []
        for row in rows:
            sentences += row
        terms = {
            "contrastive": contrastive(states, self.temperature),
            "alignment": alignment(states, self.temperature),
            "masked": self.language(network, sentences)["loss"],
        }
        total = terms["contrastive"] + self.aligned * terms["alignment"] + self.masked * terms["masked"]
        return {"loss": total, **terms}

    def states(self, network: Any, rows: Sequence[EntailmentRow]) -> torch.Tensor:
        """The states [4, rows, width] of the sentences, in the order of :data:`EntailmentRow`."""
        device = next(network.parameters()).device
        # All premises first, then all hypotheses, and so on.
        sentences = [row[which] for which in range(4) for row in rows]
        hidden = network(**network_inputs(sentences, self.pad, device), output_hidden_states=True).hidden_states[-1]
        first = torch.as_tensor(hidden[:, 0]).float()
        if self.head:
            first = self.head(first)
        return first.view(4, len(rows), -1)

    @contextmanager
    def trained_head(self, network: Any, wanted: bool) -> Iterator[None]:
        """Within the block, if it is ``wanted``, a network above the first token is trained with the other weights.

        It is a part of ``network`` there, so that the optimizer and checkpoints have it; afterwards nothing has it.
        """
        if not wanted:
            yield
            return
        width = network.config.hidden_size
        layers = [torch.nn.Linear(width, width) for _ in range(2)]
        for layer in layers:  # as BERT begins its own
            torch.nn.init.normal_(layer.weight, std=0.02)
            torch.nn.init.zeros_(layer.bias)
        device = next(network.parameters()).device
        self.head = network.sentence_head = torch.nn.Sequential(layers[0], torch.nn.Tanh(), layers[1]).to(device)
        try:
            yield
        finally:
            self.head = None
            del network.sentence_head
