"""The pipeline of UnStereoEval, with a chat model, or over the authors' recorded generation (``--replay published``).

The stages are in :mod:`builders.generation.pipelines._unstereo`; here is the replay. The recorded generation becomes
responses to the requests of the pipeline. Replies to the prompts that write sentences are recorded, and so are the
verdicts. Of conversions only the template is recorded, from which the reply is restored up to the case of *he*. Of
revisions only the published result is recorded: it becomes the response to the first attempt. Such responses have the
finish reason ``restored``.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from builders.dataset import BuildError, Files
from builders.datasets.gender_pmi import delta_table
from builders.datasets.unstereo import OURS_COLUMNS, from_published
from builders.generation.clients import ChatRequest
from builders.generation.lists import without_markup
from builders.generation.output import generation_manifest, stage_lines, write_output
from builders.generation.pipeline import FilterLog, Pipeline, Rules
from builders.generation.pipelines import _unstereo
from builders.generation.pipelines._unstereo import Draft, Generation, UnstereoSettings, convert_request, write_request
from builders.generation.responses import ChatError, ChatResponse, MissingResponse, read_responses, response
from builders.parsers import read, recorded
from builders.sources.catalogue import catalogue
from builders.sources.fetch import Fetcher
from builders.text.words import PRONOUNS, Gender, fill_they
from cards.common.files import put_all
from cards.common.terminal import text_table
from pmi.analysis.sentence import within
from pmi.types import DeltaTable

#: The model that the authors asked, by the name in their settings.
MODEL = "gpt-3.5-turbo"
GENDERS: Mapping[str, Gender] = {"he": "male", "she": "female"}

_JUDGED = "word target_word sentence has_placeholder template modifications likely_under".split()
_CONVERTED = ("", "word", "target_word", "sentence", "prompt", "convert_kwargs")
_DATE = "not recorded"


@dataclass(frozen=True, slots=True)
class RecordedSentence:
    """A sentence of the recorded generation.

    ``template`` has our slots, ``verdicts`` are those on the versions with he and with she, and ``published`` is the
    row of the published file with its template and whether it was judged natural; None where no revision helped.
    """

    written: recorded.ReplySentence
    template: str
    verdicts: tuple[str, str]
    published: tuple[recorded.PublishedRow, str, bool] | None = None


@dataclass(frozen=True, slots=True)
class RecordedGeneration:
    """The recorded generation of one length: its replies, sentences and prompts that convert, in their order."""

    length: int
    replies: Sequence[recorded.Reply]
    sentences: Sequence[RecordedSentence]
    conversions: Sequence[str]

    def part(self, draw: int, pronoun: str) -> RecordedGeneration:
        """The replies and sentences of one sample of words and one pronoun."""

        def belongs(reply: recorded.Reply) -> bool:
            return reply.draw == draw and reply.pronoun == pronoun

        replies = [reply for reply in self.replies if belongs(reply)]
        sentences = [sentence for sentence in self.sentences if belongs(sentence.written.reply)]
        return replace(self, replies=replies, sentences=sentences)


def source_names(length: int) -> tuple[str, ...]:
    """The names of the sources of :func:`read_record`."""
    return tuple(f"unstereo-development/{kind}-{length}" for kind in ("use", "replies", "verdicts", "conversions"))


def read_record(files: Files, length: int) -> RecordedGeneration:
    """The recorded generation of one length.

    Raises
    ------
    BuildError
        When the files are not those of one generation.
    """
    published, replies, verdicts, conversions = (files[name] for name in source_names(length))
    results = recorded.replies(replies, length)
    judged: list[dict[str, str]] = []
    for path in verdicts.paths:
        judged.extend(read.table(path, _JUDGED))
    written = recorded.sentences(results)
    if [sentence.text for sentence in written] != [fields["sentence"] for fields in judged]:
        raise BuildError(
            f"The verdicts of length {length} are not on the sentences of the replies; get the files again."
        )
    sentences = []
    for sentence, fields in zip(written, judged, strict=True):
        # The column is a Python dictionary in text, whose strings have no quotation marks inside.
        verdict = json.loads(fields["likely_under"].replace("'", '"'))
        template = from_published(fields["template"])
        sentences.append(RecordedSentence(sentence, template, (verdict["male"], verdict["female"])))
    table = list(read.table(published.path, OURS_COLUMNS))
    rows = [recorded.PublishedRow.of(fields) for fields in table]
    # A published row is put to the sentence that it is, or was revised from.
    for fields, row, place in zip(table, rows, recorded.places(rows, written), strict=True):
        result = row, from_published(fields["template"]), fields["is_natural"] == "True"
        sentences[place] = replace(sentences[place], published=result)
    prompts = []
    for path in conversions.paths:
        for fields in read.table(path, _CONVERTED):
            prompts.append(fields["prompt"])
    return RecordedGeneration(length, results, sentences, prompts)


_SLOT = re.compile(r"(^\W*|[.!?]['\"”’)]*\s+['\"“‘(]*)?\{(\w+)\}")


def with_he(template: str) -> str:
    """A template filled with *he*, with a capital at the beginning of a sentence.

    >>> with_he('"{nominative} is in," {nominative} said. {possessive} coat is his own.')
    '"He is in," he said. His coat is his own.'
    """

    def form(match: re.Match[str]) -> str:
        start, slot = match[1], match[2]
        word = str(getattr(PRONOUNS["male"], slot))
        # The first group matches only where a sentence begins.
        if start is None:
            return word
        return start + word.capitalize()

    return _SLOT.sub(form, template)


def responses(generation: Generation, part: RecordedGeneration) -> Iterator[ChatResponse]:
    """The responses to the requests of a generation over one part of the record, in the order of its stages."""
    for reply in part.replies:
        yield _response(write_request(generation, reply.word, GENDERS[reply.pronoun]), reply.text)

    def as_read(text: str) -> str:
        # The published code takes entries as they are; the requests of profile clean hold them without markup.
        return text if generation.is_paper else without_markup(text)

    for sentence in part.sentences:
        reply = sentence.written.reply
        draft = Draft(reply.word, GENDERS[reply.pronoun], as_read(sentence.written.text), MODEL)
        yield from _versions(generation, draft, sentence.template, "convert", sentence.verdicts)
        if sentence.published and sentence.published[0].revised:
            row, template, _ = sentence.published
            yield _response(_unstereo.revise_request(generation, draft, 0), row.sentence, restored=True)
            revised = replace(draft, sentence=as_read(row.sentence))
            # Only the published code has a prompt of its own for sentences that were revised.
            prompt = "convert_revised" if generation.is_paper else "convert"
            yield from _versions(generation, revised, template, prompt)


def _versions(
    generation: Generation, draft: Draft, template: str, prompt: str, verdicts: Sequence[str] = ()
) -> Iterator[ChatResponse]:
    """The responses to the conversion of a sentence and to the questions about its versions."""
    sentence = draft.sentence
    if draft.gender != "male":
        sentence = with_he(template)
        yield _response(convert_request(generation, draft, prompt), sentence, restored=True)
    if not verdicts:
        return
    if generation.is_paper:
        converted = _unstereo.to_template_published(sentence)
    else:
        converted = _unstereo.to_template(sentence)
        # A sentence without a pronoun is dropped before it is judged.
        if "{" not in converted:
            return
    filled = _unstereo.versions_of(generation, replace(draft, template=converted))
    # Shorter than the verdicts where there is no template, so that nothing is asked.
    for version, verdict in zip(filled, verdicts, strict=False):
        yield _response(_unstereo.judge_request(generation, version), verdict)


def _response(request: ChatRequest, text: str, *, restored: bool = False) -> ChatResponse:
    reason = "restored" if restored else "stop"
    return response(request.body, text, model=MODEL, date=_DATE, finish_reason=reason)


@dataclass
class PublishedClient:
    """Responds from the record. A request without a recorded reply in one of ``open_stages`` gets an empty one.

    ``unanswered`` counts these by stage.
    """

    responses: Mapping[str, ChatResponse]
    open_stages: frozenset[str] = frozenset()
    unanswered: Counter[str] = field(default_factory=Counter)

    def __call__(self, stage: str, requests: Sequence[ChatRequest]) -> list[ChatResponse]:
        """The response to each request, in the same order.

        Raises
        ------
        MissingResponse
            When one is not recorded and must be.
        """
        results = []
        for request in requests:
            if request.key in self.responses:
                results.append(self.responses[request.key])
            elif stage in self.open_stages:
                self.unanswered[stage] += 1
                results.append(_response(request, "", restored=True))
            else:
                raise MissingResponse(f"Stage {stage} sends a prompt that is not among the recorded ones.")
        return results


#: The sizes that the paper prints, by length and limit on |MaxPMIDiff|.
PAPER_SIZES: Mapping[int, Mapping[float, int]] = {
    5: {0.65: 3701, 0.8: 3978, 1.0: 4263},
    10: {0.65: 3412, 0.8: 3920, 1.0: 4400},
    20: {0.65: 2845, 0.8: 3569, 1.0: 4299},
}


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage of a replay: the published items, ours, and how many of them differ in text or place."""

    length: int
    name: str
    published: int
    ours: int
    different: int

    @classmethod
    def of(cls, length: int, name: str, theirs: Sequence[object], ours: Sequence[object]) -> Stage:
        """The comparison of two sequences, place by place."""
        # Places that only the longer sequence has differ too.
        different = abs(len(theirs) - len(ours))
        for published, item in zip(theirs, ours, strict=False):
            if published != item:
                different += 1
        return cls(length, name, len(theirs), len(ours), different)

    @classmethod
    def of_sizes(cls, length: int, name: str, published: int, ours: int) -> Stage:
        """The comparison of two sizes, where the items cannot be compared."""
        return cls(length, name, published, ours, abs(published - ours))


@dataclass
class Replay:
    """What a replay of one length collects, in the order of the published files.

    ``first``, ``complete`` and ``passed`` are the drafts before and after revision and those that pass, each of
    ``passed`` with its reply; ``prompts`` and ``conversions`` are the texts that are sent. ``complete`` and the prompts
    are only collected in profile ``paper``.
    """

    settings: UnstereoSettings
    log: FilterLog = field(default_factory=FilterLog)
    first: list[Draft] = field(default_factory=list)
    complete: list[Draft] = field(default_factory=list)
    passed: list[tuple[Draft, recorded.Reply]] = field(default_factory=list)
    prompts: list[str] = field(default_factory=list)
    conversions: list[str] = field(default_factory=list)
    responses: dict[str, ChatResponse] = field(default_factory=dict)
    unanswered: Counter[str] = field(default_factory=Counter)

    def generation(self, client: PublishedClient) -> Generation:
        """A generation with the settings and the log of this replay."""
        return Generation(self.settings, MODEL, client, self.log)

    def rows(self, table: DeltaTable) -> list[dict[str, Any]]:
        """The rows of the kept drafts, each with its reply, the draw of its word, and MaxPMIDiff."""
        generation = self.generation(PublishedClient({}))
        rows = []
        for number, (draft, reply) in enumerate(self.passed):
            row = _unstereo.row(generation, draft, table, number)
            # The record was judged without they, but a row of profile clean has a version with they.
            row["sentence_they"] = None if generation.is_paper else fill_they(draft.template)
            row["reply_id"] = reply.id
            row["draw"] = reply.draw
            row["seed"] = reply.seed
            rows.append(row)
        return rows


def replay_published(values: Mapping[str, Any], fetcher: Fetcher, console: Console) -> None:
    """Replays all three lengths into ``values["out"]`` by the rules of ``values["profile"]`` and prints the stages.

    Raises
    ------
    BuildError
        When a source is missing or a file cannot be written.
    """
    sources = catalogue().sources
    compared, notes = [], []
    for length in recorded.LENGTHS:
        names = (*source_names(length), "unstereo/pmi")
        files = {name: fetcher.get(sources[name]) for name in names}
        out = values["out"] / f"ours-{length}"
        deltas = delta_table(files["unstereo/pmi"])
        record = read_record(files, length)
        try:
            result = replay(record, values["profile"], out, values["limit"])
        except OSError as error:
            raise ChatError(f"{out} cannot be written ({error.strerror or error}); give another --out.") from None
        rows = result.rows(deltas)
        manifest = generation_manifest("unstereo", MODEL, result.settings, result.responses, result.log)
        write_output(out, manifest, rows, result.log)
        for stage in stages(record, result, rows):
            sizes = [f"{stage.published:,}", f"{stage.ours:,}", f"{stage.different:,}"]
            compared.append([f"ours-{length}", stage.name, *sizes])
        for line in stage_lines(result.log):
            notes.append(f"ours-{length}: {line}")
        for name, count in sorted(result.unanswered.items()):
            notes.append(f"ours-{length}: {count:,} requests of stage {name} have no recorded reply.")
    console.print(text_table(["sentences", "stage", "published", "ours", "differ"], compared), soft_wrap=False)
    console.print("differ: items that are not equal in text and order; for counts the difference.")
    for note in notes:
        console.print(note)
    console.print(f"The rows are in {values['out']}.")


def replay(record: RecordedGeneration, profile: Rules, out: Path, limit: int | None = None) -> Replay:
    """The pipeline over the recorded generation of one length; ``limit`` is that of :class:`UnstereoSettings`.

    In profile ``paper`` the responses are written below ``out`` as files of recorded replies, one for each sample of
    words and pronoun, and read from there. The prompts of ``clean`` were never sent, so its responses are not written.
    """
    words = out / "words.txt"
    lines = "".join(f"{word}\n" for word in dict.fromkeys(reply.word for reply in record.replies))
    put_all(out, {words.name: lines.encode()}, ChatError)
    # The published loop makes one attempt more than its setting says, so a setting of 0 is one attempt.
    tries = 0 if profile == "paper" else 1
    result = Replay(UnstereoSettings(words, record.length, profile, tries=tries, they=False, limit=limit))
    for draw, pronoun in recorded.PARTS:
        _replay_part(record.part(draw, pronoun), pronoun, out / f"replies-{draw}-{pronoun}.jsonl", result)
    if profile == "clean":
        # Each part has its own filter of repeats, so a draft may still repeat one of an earlier sample or pronoun.
        fault = _unstereo.repeat_fault([draft for draft, _ in result.passed])
        result.passed = result.log.filter(
            "set", result.passed, lambda passed: fault(passed[0]), lambda passed: passed[0].template
        )
    return result


def _replay_part(part: RecordedGeneration, pronoun: str, path: Path, result: Replay) -> None:
    """Adds the replay of one sample of words and one pronoun."""
    # What the record says as responses to our requests. Requests that it cannot answer are those of the open stages.
    answers = {answer.key: answer for answer in responses(result.generation(PublishedClient({})), part)}
    for key, answer in answers.items():
        # The same prompt was sent for a word of two samples, so a key alone does not name a response.
        result.responses[f"{path.stem} {key}"] = answer
    gender = GENDERS[pronoun]
    words = [reply.word for reply in part.replies]
    if result.settings.profile == "paper":
        lines = "".join(f"{answer.to_line()}\n" for answer in answers.values())
        put_all(path.parent, {path.name: lines.encode()}, ChatError)
        client = PublishedClient(read_responses(path), frozenset(["revise"]))
        generation = result.generation(client)
        first = _unstereo.paper_first(generation, words, (gender,))
        complete = _unstereo.paper_revised(generation, first)
        accepted = _unstereo.paper_kept(generation, complete, None)
        result.first += first
        result.complete += complete
        for word in words:
            result.prompts.append(_prompt(write_request(generation, word, gender)))
        for draft in first:
            if draft.gender == "female":
                result.conversions.append(_prompt(convert_request(generation, draft, "convert")))
    else:
        client = PublishedClient(answers, frozenset(["revise", "convert", "judge"]))
        generation = result.generation(client)
        accepted = _unstereo.clean(generation, words, (gender,), None)
    replies = {write_request(generation, reply.word, gender).key: reply for reply in part.replies}
    for draft in accepted:
        result.passed.append((draft, replies[draft.reply_id]))
    result.unanswered += client.unanswered


def _prompt(request: ChatRequest) -> str:
    return str(request.body["messages"][0]["content"])


def stages(record: RecordedGeneration, result: Replay, rows: Sequence[Mapping[str, Any]]) -> Iterator[Stage]:
    """The stages of a replay compared with the published ones; in profile ``clean`` only the sizes."""
    length = record.length
    final = [sentence.published for sentence in record.sentences if sentence.published]
    natural = [template for _, template, is_natural in final if is_natural]
    if result.settings.profile == "paper":
        yield from _paper_stages(record, result)
        yield Stage.of(length, "judged natural", natural, [row["template"] for row in rows])
    else:
        yield Stage.of_sizes(length, "judged natural", len(natural), len(rows))
    for limit, size in PAPER_SIZES[length].items():
        ours = sum(within(row["max_pmi_diff"], limit) for row in rows)
        yield Stage.of_sizes(length, f"|MaxPMIDiff| at most {limit:g}", size, ours)


def _paper_stages(record: RecordedGeneration, result: Replay) -> Iterator[Stage]:
    """The stages before the verdict, whose texts are equal to the published ones if the rules are the same."""
    length = record.length
    texts, templates, incomplete = [], [], []
    unrevised, revised = [], []
    final = []
    for number, sentence in enumerate(record.sentences):
        texts.append(sentence.written.text)
        templates.append(sentence.template)
        if sentence.published is None:
            # A sentence without a published row was revised without success, so it needed a revision too.
            incomplete.append(number)
            continue
        row, template, _ = sentence.published
        final.append(template)
        if row.revised:
            incomplete.append(number)
            revised.append(template)
        else:
            unrevised.append(template)
    generation = result.generation(PublishedClient({}))
    our_incomplete = [number for number, draft in enumerate(result.first) if _unstereo.missing_part(generation, draft)]
    our_unrevised, our_revised = [], []
    for draft in result.complete:
        if draft.revisions:
            our_revised.append(draft.template)
        else:
            our_unrevised.append(draft.template)
    yield Stage.of(length, "prompts that write", [reply.prompt for reply in record.replies], result.prompts)
    yield Stage.of(length, "sentences", texts, [draft.sentence for draft in result.first])
    yield Stage.of(length, "prompts that convert", record.conversions, result.conversions)
    yield Stage.of(length, "templates before revision", templates, [draft.template for draft in result.first])
    yield Stage.of(length, "without word or pronoun", incomplete, our_incomplete)
    yield Stage.of(length, "templates, unrevised", unrevised, our_unrevised)
    yield Stage.of(length, "templates, revised", revised, our_revised)
    yield Stage.of(length, "templates", final, [draft.template for draft in result.complete])
    failures = len(record.sentences) - len(final)
    yield Stage.of_sizes(length, "failures", failures, len(result.first) - len(result.complete))


PIPELINE = Pipeline(
    "Sentences of a few words that fit a pronoun of any gender.",
    UnstereoSettings,
    _unstereo.sentence_rows,
    replays={"published": replay_published},
)
