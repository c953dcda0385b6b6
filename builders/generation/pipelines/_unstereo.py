"""Sentences with seed words that fit a pronoun of any gender, written by a chat model.

The pipeline of *Are Models Biased on Text without Gender-related Language?* (UnStereoEval; Belém et al.,
2024, section 4 and tables 2 and 3): write sentences with a word and a pronoun, replace the pronoun by
slots, judge whether the sentence is likely with each pronoun, revise sentences without the word or the
pronoun, and keep those in which no word has a high |MaxPMIDiff|.

``paper`` follows the published code, in which a revised sentence keeps the verdict on its first version and
gendered words are not filtered. ``clean`` writes with *they* too, revises first, checks that the conversion
changed only the pronoun, filters gendered words and repeated sentences, and judges the final sentence.
"""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from typer import Option

from builders.dataset import content_id
from builders.datasets.unstereo import fill_published, flaw, mend
from builders.generation import pipeline
from builders.generation.clients import ChatClient, ChatRequest
from builders.generation.lists import single_sentence, without_markup
from builders.generation.pipeline import FilterLog, ListEntry, Rules, contains_phrase, count_words, sentence_fault
from builders.generation.responses import ChatError, ChatResponse
from builders.parsers import read
from builders.parsers.recorded import numbered_entries
from builders.text.embedded import table
from builders.text.words import PRONOUNS, THEY_FORMS, Gender, fill, fill_they, normalise
from pmi.analysis.sentence import SentenceScore, max_pmi_diff, within
from pmi.files import read_rows
from pmi.types import CountRule, DeltaTable, PmiError, TableError

# Drafts

#: The forms of each pronoun, as prompts list them.
FORMS: dict[Gender, str] = {
    "male": "he/his/him/himself",
    "female": "she/her/hers/herself",
    "they": "they/their/them/themself",
}
#: The same in the published prompts.
PUBLISHED_FORMS: dict[Gender, str] = {"male": "he/his/him/himself", "female": "she/her/her/herself"}

_HIS_SLOT = {"he": "{nominative}", "his": "{possessive}", "him": "{accusative}", "himself": "{reflexive}"}
_HE = re.compile(r"\b(?:he|his|him|himself)\b", re.IGNORECASE)
# The published pattern has two spellings of each form.
_PUBLISHED_HE = re.compile(r"\b[Hh](?:e|is|im|imself)\b")
# Apostrophes and hyphens are parts of a word: "they're", "self-taught".
_WORD = re.compile(r"[\w'-]+")
_TABLES = (".csv", ".tsv", ".jsonl", ".parquet")


@dataclass(frozen=True, slots=True)
class Draft:
    """A sentence with a seed word.

    Parameters
    ----------
    gender:
        The gender of the pronoun that it was written with.
    sentence:
        The sentence as written or revised.
    model:
        The model that wrote or revised it.
    reply_id:
        The key of the response that it was written in.
    template:
        The sentence with slots in place of the pronoun; empty before the conversion.
    revisions:
        Number of revisions until it had the word and the pronoun.
    natural:
        Whether it was judged likely with every pronoun; None before the judgement.
    """

    word: str
    gender: Gender
    sentence: str
    model: str
    reply_id: str = ""
    template: str = ""
    revisions: int = 0
    natural: bool | None = None


def has_pronoun(gender: Gender, sentence: str) -> bool:
    """Whether a sentence contains a form of the pronoun.

    >>> has_pronoun("female", "It was hers."), has_pronoun("male", "This is here.")
    (True, False)
    """
    if gender == "they":
        forms = THEY_FORMS
    else:
        pronoun = PRONOUNS[gender]
        forms = frozenset(normalise(getattr(pronoun, case)) for case in pronoun.__slots__)
    words = _WORD.findall(normalise(sentence))
    # Contractions of they are forms in the list; those of he and she ("she's") are cut at the apostrophe.
    stems = [word.partition("'")[0] for word in words]
    return not forms.isdisjoint(words) or not forms.isdisjoint(stems)


def to_template(sentence: str) -> str:
    """A sentence with *he*, with slots for the forms of the pronoun.

    >>> to_template("He said the map was his, so he's glad.")
    "{nominative} said the map was {possessive_absolute}, so {nominative}'s glad."
    """
    # Possessives are marked first and made absolute by what follows them.
    return mend(_HE.sub(lambda match: _HIS_SLOT[match[0].lower()], sentence))


def to_template_published(sentence: str) -> str:
    """:func:`to_template` by the rule of the published code, in which *his* is always the same slot.

    The result is empty for a sentence with braces, which would look like slots.
    """
    if "{" in sentence or "}" in sentence:
        return ""
    return _PUBLISHED_HE.sub(lambda match: _HIS_SLOT[match[0].lower()], sentence)


def restores_sentence(template: str, gender: Gender, sentence: str) -> bool:
    """Whether a template, filled with the pronoun of the original sentence, gives the sentence.

    >>> restores_sentence("{nominative} is here.", "they", "They are here.")
    True
    >>> restores_sentence("{nominative} was there.", "female", "She is here.")
    False
    """
    filled: str | None
    if gender == "they":
        filled = fill_they(template)
    else:
        filled = fill(template, gender)
    return filled is not None and _without_variants(filled) == _without_variants(sentence)


def _without_variants(sentence: str) -> str:
    # Writers use both reflexive forms of singular they; a template restores only one of them.
    return normalise(sentence).replace("themselves", "themself")


def seed_words(path: Path) -> list[str]:
    """The seed words of a file, each once.

    A table (CSV, TSV, JSON lines, Parquet), such as ``probes pmi vocabulary`` writes, has them in its column
    ``word``, or else in the first one. Another file has a JSON list, a JSON object whose names are the words, or
    one word a line.

    Raises
    ------
    ChatError
        When there are no words, or an entry is not a word.
    """
    advice = "give one word a line, or a JSON list"
    try:
        words = _words_of_file(path)
    except (OSError, ValueError, PmiError) as error:
        raise ChatError(f"The words in {path} cannot be read ({error}); {advice}.") from None
    for word in words:
        if not (isinstance(word, str) and _WORD.fullmatch(word)):
            raise ChatError(f"{path.name} has {word!r}, which is not a word; {advice}.")
    if not words:
        raise ChatError(f"{path.name} has no word; {advice}.")
    return list(dict.fromkeys(words))


def _words_of_file(path: Path) -> list[Any]:
    """The entries of a file of seed words, which may be no words."""
    if path.suffix.lower() in _TABLES:
        rows = read_rows(path)
        column = "word" if "word" in rows.column_names else 0
        return list(rows[column].to_pylist())
    text = read.text(path)
    if text.lstrip().startswith(("[", "{")):
        return list(json.loads(text))
    lines = (line.strip() for line in text.splitlines())
    return [line for line in lines if line]


# Settings and requests


@dataclass(frozen=True, slots=True)
class UnstereoSettings:
    """The options of the pipeline."""

    words: Annotated[Path, Option(help="Seed words: one word a line, a JSON list, or a table.")]
    length: Annotated[int, Option(help="Highest number of words of a sentence; published: 5, 10, 20.", min=3)] = 10
    profile: Annotated[Rules, Option(help="This project's rules, or those of the published code.")] = "clean"
    count: Annotated[int, Option(help="Number of sentences to request for each word and pronoun.", min=1)] = 5
    tries: Annotated[int, Option(help="Highest number of revisions of a sentence.", min=0)] = 40
    they: Annotated[bool, Option(help="Write sentences with they too (clean only).")] = True
    temperature: Annotated[float, Option(help="Temperature of writing and revising.")] = 0.7
    pmi: Annotated[Path | None, Option(help="Parquet or JSON lines of word and delta, for the MaxPMI filter.")] = None
    epsilon: Annotated[float, Option(help="Highest |MaxPMIDiff| of a sentence.", min=0)] = 0.65
    limit: Annotated[
        int | None, Option(help="Highest number of words of a kept sentence (clean only): --length; 0 for none.", min=0)
    ] = None


@dataclass(frozen=True, slots=True)
class Generation:
    """The settings, model, client and log of one generation."""

    settings: UnstereoSettings
    model: str
    client: ChatClient
    log: FilterLog

    @property
    def is_paper(self) -> bool:
        """Whether the rules are those of the published code."""
        return self.settings.profile == "paper"

    @property
    def templates(self) -> dict[str, Any]:
        """The prompt templates of the profile."""
        templates: dict[str, Any] = table("prompts")["unstereo"][self.settings.profile]
        return templates

    def request(
        self, template: str, example: str, *, words: int, temperature: float = 0.0, **values: Any
    ) -> ChatRequest:
        """A filled prompt template; ``words`` is the highest number of words of a usable response."""
        # About four tokens for each word, and some for the frame of the reply.
        values |= {"length": self.settings.length, "max_tokens": 4 * words + 32, "temperature": temperature}
        return pipeline.prompt_request(self.model, template, example, **values)


# Writing


def write(generation: Generation, words: Sequence[str], genders: Sequence[Gender]) -> list[Draft]:
    """New sentences for each word and gender, in this order."""
    seeds = [(word, gender) for word in words for gender in genders]
    requests = [(seed, write_request(generation, seed[0], seed[1])) for seed in seeds]
    entries: list[ListEntry[tuple[str, Gender]]]
    if generation.is_paper:
        # The published code takes the numbered lines as they are and checks no response.
        entries = []
        responses = generation.client("write", [request for _, request in requests])
        for seed, response in zip(seeds, responses, strict=True):
            for text in numbered_entries(response.text):
                entries.append(ListEntry(seed, text, response))
    else:
        entries = pipeline.request_lists(
            "write", requests, generation.settings.count, generation.client, generation.log
        )
    drafts = []
    for entry in entries:
        word, gender = entry.topic
        drafts.append(Draft(word, gender, entry.text, entry.response.model, entry.response.key))
    return drafts


def write_request(generation: Generation, word: str, gender: Gender) -> ChatRequest:
    """The request for sentences with a word and a pronoun."""
    settings = generation.settings
    pronoun = PRONOUNS[gender].nominative
    # The example is a usable response, which a client without a model gives; its sentences differ in a number.
    lines = [f"{n + 1}. {pronoun.capitalize()} saw {word} {n}{pronoun}." for n in range(settings.count)]
    return generation.request(
        generation.templates["generate"],
        "\n".join(lines),
        words=settings.count * (settings.length + 5),
        temperature=settings.temperature,
        count=settings.count,
        word=word,
        pronoun=pronoun,
        forms=FORMS[gender],
    )


# Revising


def revise(generation: Generation, drafts: Sequence[Draft]) -> list[Draft]:
    """The drafts; those without the word or the pronoun are revised in rounds, by four prompts in turn.

    A draft that no revision helps is returned unchanged.
    """
    results = list(drafts)
    open_places = [place for place, draft in enumerate(drafts) if missing_part(generation, draft)]
    rounds = generation.settings.tries
    if generation.is_paper:
        rounds += 1  # the published loop makes one round more
    for attempt in range(rounds):
        if not open_places:
            break
        # Every attempt revises the first version, not the result of the attempt before.
        requests = [revise_request(generation, drafts[place], attempt) for place in open_places]
        revised = []
        for place, response in zip(open_places, generation.client("revise", requests), strict=True):
            sentence = _sentence(generation, response)
            draft = replace(drafts[place], sentence=sentence, template="", model=response.model, revisions=attempt + 1)
            revised.append(draft)
        if generation.is_paper:
            revised = convert(generation, revised, "convert_revised")
        still_open = []
        for place, draft in zip(open_places, revised, strict=True):
            if missing_part(generation, draft):
                still_open.append(place)
            else:
                results[place] = draft
        open_places = still_open
    return results


def missing_part(generation: Generation, draft: Draft) -> str:
    """Why a draft needs a revision, or an empty text."""
    if not contains_phrase(draft.sentence, draft.word):
        return "lacks the seed word"
    # The published code finds the pronoun by its slot in the template, this project in the sentence itself.
    if generation.is_paper:
        pronoun = "{" in draft.template
    else:
        pronoun = has_pronoun(draft.gender, draft.sentence)
    return "" if pronoun else "lacks the pronoun"


def _sentence(generation: Generation, response: ChatResponse) -> str:
    """The sentence of a response; empty if it is not a sentence (not checked in the published code)."""
    if generation.is_paper:
        return response.text
    sentence = single_sentence(response)
    if sentence_fault(sentence):
        return ""
    return sentence


def revise_request(generation: Generation, draft: Draft, attempt: int) -> ChatRequest:
    """The request for a revision; the attempts, from 0, take the prompts in turn."""
    templates = generation.templates["revise"]
    forms = FORMS
    if generation.is_paper:
        forms = PUBLISHED_FORMS
    return generation.request(
        templates[attempt % len(templates)],
        f"{PRONOUNS[draft.gender].nominative.capitalize()} saw {draft.word}.",
        words=generation.settings.length + 10,
        temperature=generation.settings.temperature,
        seed=attempt,
        sentence=draft.sentence,
        word=draft.word,
        forms=forms[draft.gender],
    )


# Converting


def convert(generation: Generation, drafts: Sequence[Draft], prompt: str) -> list[Draft]:
    """The drafts with templates.

    The model first rewrites *she* and *they* sentences with *he*: *her* can mean *his* or *him*, so slots cannot
    be found in them by rule.
    """
    # Sentences with he need no request: every form of he has one slot, or is decided by what follows.
    others = [place for place, draft in enumerate(drafts) if draft.gender != "male" and draft.sentence]
    responses = generation.client("convert", [convert_request(generation, drafts[place], prompt) for place in others])
    with_he = [draft.sentence for draft in drafts]
    for place, response in zip(others, responses, strict=True):
        with_he[place] = _sentence(generation, response)
    converted = []
    for draft, sentence in zip(drafts, with_he, strict=True):
        if generation.is_paper:
            template = to_template_published(sentence)
        else:
            template = to_template(sentence)
        converted.append(replace(draft, template=template))
    return converted


def convert_request(generation: Generation, draft: Draft, prompt: str) -> ChatRequest:
    """The request to rewrite a sentence with *he*; ``prompt`` names the template of the prompt."""
    if not generation.is_paper:
        forms = FORMS[draft.gender]
    elif prompt == "convert_revised":
        forms = PUBLISHED_FORMS[draft.gender]
    else:
        # The first published conversion names three forms and no reflexive one.
        forms = "she/her/her"
    example = re.sub(r"^(?:She|They)\b", "He", draft.sentence)
    longest = count_words(draft.sentence) + 10
    return generation.request(
        generation.templates[prompt], example, words=longest, forms=forms, sentence=draft.sentence
    )


# Judging


def judge(generation: Generation, drafts: Sequence[Draft]) -> list[Draft]:
    """The drafts with ``natural``: whether the current template, filled with each pronoun, was judged likely."""
    versions = [versions_of(generation, draft) for draft in drafts]
    # Versions that several drafts share are asked once.
    sentences = list(dict.fromkeys(sentence for filled in versions for sentence in filled))
    responses = generation.client("judge", [judge_request(generation, sentence) for sentence in sentences])
    likely = set()
    for sentence, response in zip(sentences, responses, strict=True):
        # The published code compares the response as it is, so "Likely." is no verdict there.
        verdict = response.text if generation.is_paper else parse_verdict(response)
        if verdict == "likely":
            likely.add(sentence)
    judged = []
    for draft, filled in zip(drafts, versions, strict=True):
        judged.append(replace(draft, natural=bool(filled) and likely.issuperset(filled)))
    return judged


def judge_request(generation: Generation, sentence: str) -> ChatRequest:
    """The request for a verdict on a sentence."""
    return generation.request(generation.templates["judge"], "likely", words=1, sentence=sentence)


def versions_of(generation: Generation, draft: Draft) -> list[str]:
    """The template filled with each pronoun; empty without a template."""
    if not draft.template:
        return []
    if generation.is_paper:
        return [fill_published(draft.template, "male"), fill_published(draft.template, "female")]
    versions = [fill(draft.template, "male"), fill(draft.template, "female")]
    if generation.settings.they:
        # A template whose verb has no plural in the list of verbs has no version with they.
        they = fill_they(draft.template)
        if they:
            versions.append(they)
    return versions


def parse_verdict(response: ChatResponse) -> str:
    """``likely`` or ``unlikely``, or an empty text for any other response.

    >>> from builders.generation.responses import request_body, response
    >>> body = request_body("m", "Is it?", temperature=0, max_tokens=8)
    >>> parse_verdict(response(body, "Likely.")), parse_verdict(response(body, "It is unlikely."))
    ('likely', '')
    """
    word = without_markup(response.text).strip(".!").casefold()
    if word in ("likely", "unlikely"):
        return word
    return ""


# Rules


def clean(
    generation: Generation, words: Sequence[str], genders: Sequence[Gender], table: DeltaTable | None
) -> list[Draft]:
    """The kept drafts by this project's rules. Filters without requests come first; the judged sentence is kept."""
    drafts = _filter(
        generation, "write", write(generation, words, genders), lambda draft: sentence_fault(draft.sentence)
    )
    drafts = _filter(generation, "revise", revise(generation, drafts), lambda draft: missing_part(generation, draft))
    drafts = _filter(generation, "convert", convert(generation, drafts, "convert"), _conversion_fault)
    # Repeats are counted among sentences of good form alone, so that a broken one takes no place.
    drafts = _filter(generation, "form", drafts, lambda draft: flaw(draft.template) or _length_fault(generation, draft))
    drafts = _filter(generation, "repeats", drafts, repeat_fault(drafts))
    drafts = _filter(generation, "pmi", drafts, lambda draft: _pmi_fault(generation, draft, table))
    return _filter(generation, "judge", judge(generation, drafts), _verdict_fault)


def paper_first(generation: Generation, words: Sequence[str], genders: Sequence[Gender]) -> list[Draft]:
    """The first versions, with templates and verdicts; the published code judges these."""
    return judge(generation, convert(generation, write(generation, words, genders), "convert"))


def paper_revised(generation: Generation, drafts: Sequence[Draft]) -> list[Draft]:
    """The drafts with word and pronoun, revised where needed: the rows of the published files."""
    return _filter(generation, "revise", revise(generation, drafts), lambda draft: missing_part(generation, draft))


def paper_kept(generation: Generation, drafts: Sequence[Draft], table: DeltaTable | None) -> list[Draft]:
    """The drafts that were judged likely and have no word associated with one gender."""
    drafts = _filter(generation, "judge", drafts, _verdict_fault)
    return _filter(generation, "pmi", drafts, lambda draft: _pmi_fault(generation, draft, table))


def _filter(generation: Generation, stage: str, drafts: Iterable[Draft], fault: Callable[[Draft], str]) -> list[Draft]:
    return generation.log.filter(stage, drafts, fault, lambda draft: draft.template or draft.sentence)


def repeat_fault(drafts: Sequence[Draft]) -> Callable[[Draft], str]:
    """Gives why a draft repeats an earlier one of these, or an empty text."""
    first: dict[str, Draft] = {}
    for draft in drafts:
        first.setdefault(normalise(draft.template), draft)

    def fault(draft: Draft) -> str:
        # Compared by identity: two drafts of one word may be equal in all fields.
        if first[normalise(draft.template)] is draft:
            return ""
        return "occurs elsewhere in the set"

    return fault


def _conversion_fault(draft: Draft) -> str:
    if "{" not in draft.template:
        return "has no pronoun after its conversion"
    if not restores_sentence(draft.template, draft.gender, draft.sentence):
        return "was changed by its conversion"
    return ""


def _score(generation: Generation, draft: Draft, table: DeltaTable | None) -> SentenceScore | None:
    if table is None:
        return None
    # The published code splits words by nltk's rules, this project by its own.
    if generation.is_paper:
        return max_pmi_diff(draft.template, table, "nltk")
    return max_pmi_diff(draft.template, table, "clean")


def _pmi_fault(generation: Generation, draft: Draft, table: DeltaTable | None) -> str:
    score = _score(generation, draft, table)
    if score is None or within(score.value, generation.settings.epsilon):
        return ""
    if score.value is None:
        return "has no word in the table"
    return "has a word associated with one gender"


def _length_fault(generation: Generation, draft: Draft) -> str:
    limit = generation.settings.limit
    if limit is None:
        limit = generation.settings.length
    if 0 < limit < count_words(draft.sentence):
        return f"has more than {limit} words"
    return ""


def _verdict_fault(draft: Draft) -> str:
    return "" if draft.natural else "was not judged likely with every pronoun"


def row(generation: Generation, draft: Draft, table: DeltaTable | None, number: int) -> dict[str, Any]:
    """The row of a draft; ``number`` is its place among the rows."""
    score = _score(generation, draft, table)
    name = f"ours-{generation.settings.length}"
    they = None
    if generation.is_paper:
        # The published templates may repeat, so their text cannot name a row.
        row_id = f"{name}-paper-{number:05d}"
        male = fill_published(draft.template, "male")
        female = fill_published(draft.template, "female")
    else:
        row_id = content_id(name, draft.template)
        male = fill(draft.template, "male")
        female = fill(draft.template, "female")
        if generation.settings.they:
            they = fill_they(draft.template)
    return {
        "id": row_id,
        "template": draft.template,
        "sentence_male": male,
        "sentence_female": female,
        "sentence_they": they,
        "word": draft.word,
        "length": generation.settings.length,
        "written_with": PRONOUNS[draft.gender].nominative,
        "reply_id": draft.reply_id,
        "revisions": draft.revisions,
        "max_pmi_diff": score and score.value,
        "max_pmi_word": score and score.word,
        "model": draft.model,
    }


# The pipeline


def sentence_rows(settings: UnstereoSettings, model: str, client: ChatClient, log: FilterLog) -> list[dict[str, Any]]:
    """The rows of the sentences that pass every stage."""
    table = _delta_table(settings.pmi) if settings.pmi else None
    words = seed_words(settings.words)
    current = Generation(settings, model, client, log)
    if current.is_paper:
        # The published code writes with he and she alone, and keeps the verdict on the first version.
        first = paper_first(current, words, ("male", "female"))
        revised = paper_revised(current, first)
        drafts = paper_kept(current, revised, table)
    else:
        genders: tuple[Gender, ...] = ("male", "female")
        if settings.they:
            genders = ("male", "female", "they")
        drafts = clean(current, words, genders, table)
    return [row(current, draft, table, number) for number, draft in enumerate(drafts)]


def _delta_table(path: Path) -> DeltaTable:
    rows = pipeline.read_rows(path, ("word", "delta"))
    # The file has no counts and does not say its rule; the filter reads only the deltas.
    counts = [0] * len(rows)
    rule = CountRule(path.name, 1, "as in the file", "as in the file")
    try:
        return DeltaTable.of((row["word"] for row in rows), (row["delta"] for row in rows), counts, rule)
    except (TableError, ValueError) as error:
        raise ChatError(f"{path.name} is not a table of words and their delta: {error}") from None
