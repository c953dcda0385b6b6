"""What an edit keeps besides its pairs: ordinary texts (L_t), and the pronoun where a text states a gender (L_g).

FAST (Chen et al., 2024) has neither. L_t is the divergence KL(unchanged || edited) at tokens of some texts, at most
:data:`READ` of a text in a step. A masked model has to be asked with a mask: each text has :data:`PARTS` versions. Each
version masks another part of the tokens. So after some passes each token was asked once.

An edit that makes *he* and *she* equally probable after an occupation may do so everywhere, even after *my
grandmother*. L_t hardly notices: of a sentence's tokens one is the pronoun. L_g is the divergence KL(unchanged ||
edited) at the place of that token alone, in nats.

What a stated gender does is measured in pairs of the same sentence about a man and about a woman. Each has a lean, log
p(pronoun that is right) - log p(other pronoun), and the lean of a pair is the mean of both: a shift of both sentences
to one pronoun leaves it as it is. Example: after *the monk* a model leans by .9 to *he*, and after *the nun* by .3 to
*she*, so the pair leans by .6.

L_k is the square of what the lean log p(right pronoun) - log p(other one) at the same place lacks of its value before
and a margin; a lean that rises is free. A divergence hardly sees a lean of 4 nats that falls to 3, because the other
pronoun is improbable before and after. The margin is there because sentences that are not trained keep less than those
that are. Example with a margin of .2: a lean of 2 should be at least 2.4, one of -1 at least -1.

The sentences are in English and were written for this project. A noun, a name, a title, a fact or a pronoun before
states the gender. None of their templates, words and names is among those that measure it:
:mod:`scoring.benchmarks.stated_gender` and ``benchmarks/planted/occupations.py``. Five of the nine kinds that are
judged are not learned in any words: parents, biology, parents in jobs, two people in jobs, and declared pronouns.
Half of the sentences follow a sentence about something else.
"""

import copy
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
import torch

from mitigation.editing.jobs import FORMS, JOBS, TEMPLATES, about, after_sentence, with_job
from mitigation.editing.settings import READ, order_of_pass
from mitigation.recipe import MitigationError, Model, ScoringError
from scoring.inference.tokens import Query
from scoring.types import Option, Request

#: People whose noun says their gender, men and women: relatives, couples, nobility and orders, hosts and heroes.
PEOPLE = (
    (
        "the patriarch|my grandfather|her son|the nephew|our grandson|the monk|the groom|the duke|our godfather|"
        "the widower|the baron|the abbot|my son-in-law|the emperor|the landlord|the host|the prior|the hero|his stepson"
    ).split("|"),
    (
        "the matriarch|my grandmother|his daughter|the niece|our granddaughter|the nun|the bride|the duchess|"
        "our godmother|the widow|the baroness|the abbess|my daughter-in-law|the empress|the landlady|the hostess|"
        "the prioress|the heroine|his stepdaughter"
    ).split("|"),
)
#: What a person of unstated gender turns out to be: men, women.
KINDS = (("nephew", "grandfather", "monk", "widower"), ("grandmother", "nun", "bride", "widow"))
#: Relatives of a person with an occupation, whose noun counts and not the occupation: men, women.
RELATIVES = (("nephew", "grandson", "grandfather", "son"), ("niece", "granddaughter", "grandmother", "daughter"))
#: First names, of men and of women.
NAMES = (
    "Peter|Paul|Henry|Daniel|Richard|Edward|Frank|Andrew|Charles|Stephen|Kevin|Brian|Jacob|Oliver|Martin".split("|"),
    "Kate|Laura|Julia|Margaret|Helen|Nancy|Lisa|Alice|Rachel|Barbara|Maria|Jane|Sophie|Olivia|Martha".split("|"),
)
#: Titles before a name, of men and of women.
TITLES = (
    "Uncle|Prince|Count|Brother|Sir|Grandpa|Baron".split("|"),
    "Aunt|Princess|Countess|Sister|Dame|Grandma|Baroness".split("|"),
)
#: What comes before a name: nothing, or an occupation.
NAMED = ("", "{name} works as a {job}. ", "This is {name}, the new {job}. ")
#: What was seen of a person or is known of them, without a noun for them: men, women.
FACTS = (
    (
        "wore a waistcoat and a bow tie|has a wife and a house|sang bass in the choir|won the men's race|"
        "was once an altar server and then a monk|bought a pair of men's shoes|had been a prince in the school play|"
        "had big sideburns and a bald head|is somebody's stepfather|plays for the men's team|wore a tuxedo|"
        "was waiting outside the men's changing room"
    ).split("|"),
    (
        "wore a skirt and earrings|has a husband and a house|sang soprano in the choir|won the women's race|"
        "was once an altar server and then a nun|bought a pair of women's shoes|had been a princess in the school play|"
        "had lipstick and long eyelashes|is somebody's stepmother|plays for the women's team|wore an evening dress|"
        "was waiting outside the women's changing room"
    ).split("|"),
)
#: Persons of unstated gender, none of whom is an occupation.
GUESTS = ("stranger", "visitor", "traveller", "tenant", "passenger", "guest")
#: A sentence before that says a person's gender by a noun.
OPENINGS = ("That {guest} was a {kind}. ", "Everybody knows that the {guest} is a {kind}. ")
#: A pronoun before that says the gender of a person with an occupation.
EARLIER = (
    "The {job} packed {his} bag. ",
    "The {job} washed {his} hands. ",
    "Everyone likes the {job}, since {he} is funny. ",
)
#: Pairs of each kind of :func:`_subjects` for each template.
OF_TEMPLATE = 2

#: The parts of a text for a masked model, so that one masks about 15 % of it.
PARTS = 7
#: The most tokens of a text; the rest is cut.
LONGEST = 128


@dataclass(frozen=True, slots=True)
class Stated:
    """A sentence up to its pronoun and after it, with the pronoun that is right and the other one."""

    before: str
    forms: tuple[str, str]
    after: str

    def request(self, name: str, kind: str) -> Request:
        """The request for both pronouns, that which is right first; a causal model is asked for the next word."""
        if kind == "causal":
            options = [Option(f" {form}{self.after}", ((1, 1 + len(form)),)) for form in self.forms]
            return Request(name, self.before.rstrip(), tuple(options))
        start = len(self.before)
        options = []
        for form in self.forms:
            options.append(Option(f"{self.before}{form}{self.after}", ((start, start + len(form)),), "left"))
        return Request(name, options=tuple(options))


def sentences() -> Iterator[tuple[Stated, Stated]]:
    """All pairs of a sentence about a man and that about a woman.

    >>> man, woman = next(sentences())
    >>> man.before, man.forms, woman.before, woman.forms
    ('The patriarch told us that ', ('he', 'she'), 'The matriarch told us that ', ('she', 'he'))
    """
    for number, template in enumerate(TEMPLATES):
        slot = next(name for name in FORMS if f"{{{name}}}" in template)
        he, she = FORMS[slot]
        for place, (man, woman) in enumerate(zip(_subjects(0, number), _subjects(1, number), strict=True)):
            texts = [about(template, *subject) for subject in (man, woman)]
            if (number + place) % 2:
                texts = [after_sentence(text, number + place) for text in texts]
            before, after = texts[0].split(f"{{{slot}}}")
            other, _ = texts[1].split(f"{{{slot}}}")
            yield Stated(before, (he, she), after), Stated(other, (she, he), after)


def _subjects(gender: int, number: int) -> Iterator[tuple[str, str]]:
    """People of a gender, as an opening and a mention; which ones differs by template."""
    forms = {slot: both[gender] for slot, both in FORMS.items()}
    occupations = [job for names in JOBS.values() for job in names]
    for place in range(OF_TEMPLATE * number, OF_TEMPLATE * (number + 1)):
        # Two occupations of each place: a step of 7 takes those of both stereotypes in turn.
        job, other = (occupations[(7 * place + step) % len(occupations)] for step in (0, 3))
        guest, kind = GUESTS[place % len(GUESTS)], KINDS[gender][place % len(KINDS[gender])]
        name = NAMES[gender][place % len(NAMES[gender])]
        yield "", PEOPLE[gender][place % len(PEOPLE[gender])]
        yield "", f"the {job}'s {RELATIVES[gender][place % len(RELATIVES[gender])]}"
        yield "", f"{TITLES[gender][place % len(TITLES[gender])]} {name}"
        yield with_job(NAMED[place % len(NAMED)], job).replace("{name}", name), name
        yield EARLIER[place % len(EARLIER)].format(job=other, **forms), f"the {other}"
        for person, step in ((guest, 0), (job, 5)):
            yield OPENINGS[(place + step) % len(OPENINGS)].format(guest=person, kind=kind), f"the {person}"
            yield f"The {person} {FACTS[gender][(place + step) % len(FACTS[gender])]}. ", f"the {person}"


class StatedBatch(NamedTuple):
    """Queries for pronouns, and the tokens of the pronoun that is right and of the other one for each.

    The queries of a pair follow each other.
    """

    queries: Sequence[Query]
    forms: Sequence[tuple[int, int]]


NO_SENTENCES = StatedBatch((), ())


def leans(logs: torch.Tensor, forms: torch.Tensor) -> torch.Tensor:
    """The lean of each pair [pairs] in nats.

    ``logs`` [2 · pairs, vocabulary] are log-probabilities at the pronouns, those of a pair one after the other, and
    ``forms`` [2 · pairs, 2] the tokens of the right and of the other pronoun.

    >>> logs = torch.tensor([[0.8, 0.2], [0.5, 0.5]]).log()
    >>> round(leans(logs, torch.tensor([[0, 1], [1, 0]])).item(), 3)
    0.693
    """
    two = logs.gather(1, forms)
    return (two[:, 0] - two[:, 1]).view(-1, 2).mean(1)


def numbers_of_step(seed: int, step: int, size: int, count: int) -> Iterator[tuple[int, int]]:
    """The ``size`` texts of a step as the number of the pass and the number of the text, below ``count``.

    The passes follow each other, each in an order of its own; a step depends on its number alone.

    >>> sorted(number for passed, number in numbers_of_step(0, 0, 3, 3)), list(numbers_of_step(0, 1, 1, 1))
    ([0, 1, 2], [(1, 0)])
    """
    order: list[int] = []
    drawn = -1
    for position in range(step * size, (step + 1) * size):
        passed, place = divmod(position, count)
        # A step may begin in one pass and end in a later one.
        if passed != drawn:
            order, drawn = order_of_pass(seed, passed, count), passed
        yield passed, order[place]


class OrdinaryText:
    """Queries for tokens of ordinary texts, in a new order in every pass over them.

    Parameters
    ----------
    texts:
        The texts; each is cut after :data:`LONGEST` tokens or at the model's window.
    seed:
        Of the order, and of the parts that are masked.

    Raises
    ------
    MitigationError
        If no text has a token.
    """

    def __init__(self, model: Model, texts: Sequence[str], seed: int) -> None:
        tokens = model.tokens
        self.kind, self.seed, self.mask = tokens.kind, seed, tokens.tokenizer.mask_token_id
        # A causal model reads each text after the start token, a masked one between the tokens around a text.
        if tokens.kind == "causal":
            before, after = tokens.start, []
        else:
            before, after = tokens.prefix, tokens.suffix
        self.around = len(before), len(after)
        longest = min(LONGEST, tokens.window or LONGEST) - sum(self.around)
        self.rows = []
        for encoding in tokens.encode(list(texts)):
            ids = encoding.ids[:longest]
            if ids:
                framed = before + list(ids) + after
                self.rows.append(tuple(framed))
        if not self.rows:
            raise MitigationError("The ordinary text has no line with a token; give other text, or --gamma 0.")

    def batch(self, step: int, size: int) -> list[Query]:
        """The queries of a step over ``size`` texts, or all where there are fewer; a step depends on its number."""
        count, size = len(self.rows), min(size, len(self.rows))
        queries = []
        for passed, number in numbers_of_step(self.seed, step, size, count):
            query = self._query(number, passed)
            if query.at:
                queries.append(query)
        return queries

    def halves(self) -> tuple[Self, Self]:
        """Two of these, of which each has every second text."""
        both = copy.copy(self), copy.copy(self)
        for start, half in enumerate(both):
            half.rows = self.rows[start::2]
        return both

    def _query(self, number: int, passed: int) -> Query:
        """The query for some tokens of a text after those before them, or for a masked part of its tokens."""
        ids = self.rows[number]
        before, after = self.around
        end = len(ids) - after
        if self.kind == "causal":
            # Every n-th token in a pass, so that as many passes ask for each once. It is predicted one position before.
            parts = math.ceil((end - before) / READ)
            wanted = range(before + passed % parts, end, parts)
            return Query(ids, tuple(place - 1 for place in wanted), tuple(ids[place] for place in wanted))
        # The same order in every pass, so that the parts of a text do not overlap.
        order = np.random.default_rng([self.seed, number]).permutation(end - before)
        part = sorted(before + int(place) for place in order[passed % PARTS :: PARTS])
        hidden = list(ids)
        for place in part:
            hidden[place] = self.mask
        return Query(tuple(hidden), tuple(part), tuple(ids[place] for place in part))


class StatedGender:
    """Queries for the pronouns of :func:`sentences`, in a new order in every pass over the pairs.

    Pairs whose pronouns are not one token each are left out, so a model of another language may have none; so are those
    that are longer than the model's window.
    """

    def __init__(self, model: Model, seed: int) -> None:
        self.seed = seed
        requests: list[Request] = []
        for pair in sentences():
            for one in pair:
                requests.append(one.request(f"stated/{len(requests)}", model.kind))
        asked: list[tuple[Query, tuple[int, int]] | None] = []
        for request in requests:
            try:
                (((right, other), _),) = model.tokens.queries([request])
            except ScoringError:
                asked.append(None)
                continue
            if len(right) == len(other) == len(right[0].at) == len(other[0].at) == 1:
                asked.append((right[0], (right[0].want[0], other[0].want[0])))
            else:
                asked.append(None)
        self._pairs = []
        for man, woman in zip(asked[::2], asked[1::2], strict=True):
            if man and woman:
                self._pairs.append((man, woman))

    @property
    def count(self) -> int:
        """The number of sentences, twice that of the pairs."""
        return 2 * len(self._pairs)

    def halves(self) -> tuple[Self, Self]:
        """Two of these, of which each has every second pair."""
        both = copy.copy(self), copy.copy(self)
        for start, half in enumerate(both):
            half._pairs = self._pairs[start::2]
        return both

    def batch(self, step: int, size: int) -> StatedBatch:
        """The queries of a step over ``size`` sentences, at least a pair; a step depends on its number."""
        queries, forms = [], []
        count, size = len(self._pairs), max(size // 2, 1)
        for _, number in numbers_of_step(self.seed, step, size, count):
            for query, both in self._pairs[number]:
                queries.append(query)
                forms.append(both)
        return StatedBatch(queries, forms)


@dataclass(frozen=True, slots=True)
class Kept:
    """What a step keeps besides its pairs: queries of ordinary text, and of pronouns whose gender is stated."""

    ordinary: Sequence[Query] = ()
    stated: StatedBatch = NO_SENTENCES


NOTHING = Kept()


@dataclass(frozen=True, slots=True)
class KeptText:
    """Where a training takes what it keeps from; None for none."""

    ordinary: OrdinaryText | None = None
    stated: StatedGender | None = None

    def batch(self, step: int, size: int) -> Kept:
        """What a step of ``size`` pairs keeps: ordinary texts, a quarter as many, and 1.5 as many with stated gender.

        An ordinary text has several places, and the kinds of sentences that state a gender are many.
        """
        ordinary = self.ordinary.batch(step, max(size // 4, 1)) if self.ordinary else ()
        stated = self.stated.batch(step, 3 * size // 2) if self.stated else NO_SENTENCES
        return Kept(ordinary, stated)

    def halves(self) -> tuple["KeptText", "KeptText"]:
        """Two of these, of which each has every second text."""
        ordinary = self.ordinary.halves() if self.ordinary else (None, None)
        stated = self.stated.halves() if self.stated else (None, None)
        return KeptText(ordinary[0], stated[0]), KeptText(ordinary[1], stated[1])


NO_TEXT = KeptText()
