"""The pipeline of UnStereoEval, with a chat model, or over the recorded run of its authors (``--replay published``).

The stages are in :mod:`builders.generation.pipelines._unstereo`; here is the replay. The recorded run becomes
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
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any

from rich.console import Console

from builders.dataset import BuildError, Files
from builders.datasets.gender_pmi import delta_table
from builders.datasets.unstereo import OURS_COLUMNS, from_published
from builders.generation.clients import Request
from builders.generation.lists import without_markup
from builders.generation.output import generation_manifest, stage_lines, write_output
from builders.generation.pipeline import FilterLog, Pipeline, Rules
from builders.generation.pipelines import _unstereo
from builders.generation.pipelines._unstereo import Draft, UnstereoRun, UnstereoSettings, convert_request, write_request
from builders.generation.responses import ChatError, MissingResponse, Response, read_responses, response
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
    """A sentence of the recorded run.

    ``template`` has our slots, ``verdicts`` are those on the versions with he and with she, and ``published`` is the
    row of the published file with its template and whether it was judged natural; None where no revision helped.
    """

    written: recorded.ReplySentence
    template: str
    verdicts: tuple[str, str]
    published: tuple[recorded.PublishedRow, str, bool] | None = None


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """The recorded run of one length: its replies, sentences and prompts that convert, in their order."""

    length: int
    replies: Sequence[recorded.Reply]
    sentences: Sequence[RecordedSentence]
    conversions: Sequence[str]

    def part(self, draw: int, pronoun: str) -> RecordedRun:
        """The replies and sentences of one sample of words and one pronoun."""
        run = draw, pronoun
        return replace(
            self,
            replies=[reply for reply in self.replies if (reply.draw, reply.pronoun) == run],
            sentences=[s for s in self.sentences if (s.written.reply.draw, s.written.reply.pronoun) == run],
        )


def source_names(length: int) -> tuple[str, ...]:
    """The names of the sources of :func:`read_run`."""
    return tuple(f"unstereo-development/{kind}-{length}" for kind in ("use", "replies", "verdicts", "conversions"))


def read_run(files: Files, length: int) -> RecordedRun:
    """The recorded run of one length.

    Raises
    ------
    BuildError
        When the files are not those of one run.
    """
    published, replies, verdicts, conversions = (files[name] for name in source_names(length))
    results = recorded.replies(replies, length)
    judged = [fields for path in verdicts.paths for fields in read.table(path, _JUDGED)]
    written = recorded.sentences(results)
    if [sentence.text for sentence in written] != [fields["sentence"] for fields in judged]:
        raise BuildError(
            f"The verdicts of length {length} are not on the sentences of the replies; get the files again."
        )
    sentences = [
        RecordedSentence(sentence, from_published(fields["template"]), itemgetter("male", "female")(verdict))
        for sentence, fields in zip(written, judged, strict=True)
        for verdict in [json.loads(fields["likely_under"].replace("'", '"'))]
    ]
    # A published row is put to the sentence that it is, or was revised from.
    table = list(read.table(published.path, OURS_COLUMNS))
    rows = [recorded.PublishedRow.of(fields) for fields in table]
    for fields, row, place in zip(table, rows, recorded.places(rows, written), strict=True):
        result = row, from_published(fields["template"]), fields["is_natural"] == "True"
        sentences[place] = replace(sentences[place], published=result)
    prompts = [fields["prompt"] for path in conversions.paths for fields in read.table(path, _CONVERTED)]
    return RecordedRun(length, results, sentences, prompts)


_SLOT = re.compile(r"(^\W*|[.!?]['\"”’)]*\s+['\"“‘(]*)?\{(\w+)\}")


def with_he(template: str) -> str:
    """A template filled with *he*, with a capital at the beginning of a sentence.

    >>> with_he('"{nominative} is in," {nominative} said. {possessive} coat is his own.')
    '"He is in," he said. His coat is his own.'
    """

    def form(match: re.Match[str]) -> str:
        word = str(getattr(PRONOUNS["male"], match[2]))
        return word if match[1] is None else match[1] + word.capitalize()

    return _SLOT.sub(form, template)


def responses(run: UnstereoRun, part: RecordedRun) -> Iterator[Response]:
    """The responses to the requests of a run over one part of the record, in the order of the stages of a sentence."""
    for reply in part.replies:
        yield _response(write_request(run, reply.word, GENDERS[reply.pronoun]), reply.text)
    # The published code takes entries as they are; the requests of profile clean hold them without markup.
    as_read = (lambda text: text) if run.is_paper else without_markup
    for sentence in part.sentences:
        reply = sentence.written.reply
        draft = Draft(reply.word, GENDERS[reply.pronoun], as_read(sentence.written.text), MODEL)
        yield from _versions(run, draft, sentence.template, "convert", sentence.verdicts)
        if sentence.published and sentence.published[0].revised:
            row, template, _ = sentence.published
            yield _response(_unstereo.revise_request(run, draft, 0), row.sentence, restored=True)
            prompt = "convert_revised" if run.is_paper else "convert"
            yield from _versions(run, replace(draft, sentence=as_read(row.sentence)), template, prompt)


def _versions(
    run: UnstereoRun, draft: Draft, template: str, prompt: str, verdicts: Sequence[str] = ()
) -> Iterator[Response]:
    """The responses to the conversion of a sentence and to the questions about its versions."""
    sentence = draft.sentence
    if draft.gender != "male":
        sentence = with_he(template)
        yield _response(convert_request(run, draft, prompt), sentence, restored=True)
    if verdicts:
        converted = (_unstereo.to_template_published if run.is_paper else _unstereo.to_template)(sentence)
        filled = (
            _unstereo.versions_of(run, replace(draft, template=converted)) if run.is_paper or "{" in converted else ()
        )
        for version, verdict in zip(filled, verdicts, strict=False):
            yield _response(_unstereo.judge_request(run, version), verdict)


def _response(request: Request, text: str, *, restored: bool = False) -> Response:
    reason = "restored" if restored else "stop"
    return response(request.body, text, model=MODEL, date=_DATE, finish_reason=reason)


@dataclass
class PublishedClient:
    """Responds from the record. A request without a recorded reply in one of ``open_stages`` gets an empty one.

    ``unanswered`` counts these by stage.
    """

    responses: Mapping[str, Response]
    open_stages: frozenset[str] = frozenset()
    unanswered: Counter[str] = field(default_factory=Counter)

    def __call__(self, stage: str, requests: Sequence[Request]) -> list[Response]:
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
        different = sum(a != b for a, b in zip(theirs, ours, strict=False)) + abs(len(theirs) - len(ours))
        return cls(length, name, len(theirs), len(ours), different)


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
    responses: dict[str, Response] = field(default_factory=dict)
    unanswered: Counter[str] = field(default_factory=Counter)

    def run(self, client: PublishedClient) -> UnstereoRun:
        """A run with the settings and the log of this replay."""
        return UnstereoRun(self.settings, MODEL, client, self.log)

    def rows(self, table: DeltaTable) -> list[dict[str, Any]]:
        """The rows of the kept drafts, each with its reply, the draw of its word, and MaxPMIDiff."""
        run, made = self.run(PublishedClient({})), []
        for number, (draft, reply) in enumerate(self.passed):
            they = None if run.is_paper else fill_they(draft.template)
            row = _unstereo.row(run, draft, table, number) | {"sentence_they": they}
            made.append(row | {"reply_id": reply.id, "draw": reply.draw, "seed": reply.seed})
        return made


def replay_published(values: Mapping[str, Any], fetcher: Fetcher, console: Console) -> None:
    """Replays all three lengths into ``values["out"]`` by the rules of ``values["profile"]`` and prints the stages.

    Raises
    ------
    BuildError
        When a source is missing or a file cannot be written.
    """
    counted, notes = [], []
    for length in recorded.LENGTHS:
        names = (*source_names(length), "unstereo/pmi")
        files = {name: fetcher.get(catalogue().sources[name]) for name in names}
        out = values["out"] / f"ours-{length}"
        deltas = delta_table(files["unstereo/pmi"])
        record = read_run(files, length)
        try:
            result = replay(record, values["profile"], out, values["limit"])
        except OSError as error:
            raise ChatError(f"{out} cannot be written ({error.strerror or error}); give another --out.") from None
        rows = result.rows(deltas)
        manifest = generation_manifest("unstereo", MODEL, result.settings, result.responses, result.log)
        write_output(out, manifest, rows, result.log)
        for stage in stages(record, result, rows):
            numbers = (stage.published, stage.ours, stage.different)
            counted.append([f"ours-{length}", stage.name, *(f"{number:,}" for number in numbers)])
        notes += [f"ours-{length}: {line}" for line in stage_lines(result.log)]
        notes += [
            f"ours-{length}: {count:,} requests of stage {name} have no recorded reply."
            for name, count in sorted(result.unanswered.items())
        ]
    console.print(text_table(["sentences", "stage", "published", "ours", "differ"], counted), soft_wrap=False)
    console.print("differ: items that are not equal in text and order; for counts the difference.")
    for note in notes:
        console.print(note)
    console.print(f"The rows are in {values['out']}.")


def replay(record: RecordedRun, profile: Rules, out: Path, limit: int | None = None) -> Replay:
    """The pipeline over the recorded run of one length; ``limit`` is that of :class:`UnstereoSettings`.

    In profile ``paper`` the responses are written below ``out`` as files of recorded replies, one for each sample of
    words and pronoun, and read from there. The prompts of ``clean`` were never sent, so its responses are not written.
    """
    words = out / "words.txt"
    lines = "".join(f"{word}\n" for word in dict.fromkeys(reply.word for reply in record.replies))
    put_all(out, {words.name: lines.encode()}, ChatError)
    # The published loop makes one attempt more than it is told to, so no further try is one attempt.
    tries = 0 if profile == "paper" else 1
    result = Replay(UnstereoSettings(words, record.length, profile, tries=tries, they=False, limit=limit))
    for draw, pronoun in recorded.RUNS:
        _replay_part(record.part(draw, pronoun), pronoun, out / f"replies-{draw}-{pronoun}.jsonl", result)
    if profile == "clean":
        # Without those that repeat one of an earlier sample or pronoun.
        fault = _unstereo.repeat_fault([draft for draft, _ in result.passed])
        result.passed = result.log.filter("set", result.passed, lambda pair: fault(pair[0]), lambda p: p[0].template)
    return result


def _replay_part(part: RecordedRun, pronoun: str, path: Path, result: Replay) -> None:
    """Adds the replay of one sample of words and one pronoun."""
    # What the record says as responses to our requests. Requests that it cannot answer are those of the open stages.
    answers = {answer.key: answer for answer in responses(result.run(PublishedClient({})), part)}
    # The same prompt was sent for a word of two samples, so a key alone does not name a response.
    result.responses |= {f"{path.stem} {key}": answer for key, answer in answers.items()}
    gender, words = GENDERS[pronoun], [reply.word for reply in part.replies]
    if result.settings.profile == "paper":
        lines = "".join(f"{answer.to_line()}\n" for answer in answers.values())
        put_all(path.parent, {path.name: lines.encode()}, ChatError)
        client = PublishedClient(read_responses(path), frozenset(["revise"]))
        run = result.run(client)
        first = _unstereo.paper_first(run, words, (gender,))
        complete = _unstereo.paper_revised(run, first)
        accepted = _unstereo.paper_kept(run, complete, None)
        result.first += first
        result.complete += complete
        result.prompts += [_prompt(write_request(run, word, gender)) for word in words]
        result.conversions += [_prompt(convert_request(run, d, "convert")) for d in first if d.gender == "female"]
    else:
        client = PublishedClient(answers, frozenset(["revise", "convert", "judge"]))
        run = result.run(client)
        accepted = _unstereo.clean(run, words, (gender,), None)
    replies = {write_request(run, reply.word, gender).key: reply for reply in part.replies}
    result.passed += [(draft, replies[draft.reply_id]) for draft in accepted]
    result.unanswered += client.unanswered


def _prompt(request: Request) -> str:
    return str(request.body["messages"][0]["content"])


def stages(record: RecordedRun, result: Replay, rows: Sequence[Mapping[str, Any]]) -> Iterator[Stage]:
    """The stages of a replay beside the published ones; in profile ``clean`` only the sizes."""
    of = partial(Stage.of, record.length)
    final = [s.published for s in record.sentences if s.published]
    if result.settings.profile == "paper":
        run = result.run(PublishedClient({}))
        yield of("prompts that write", [reply.prompt for reply in record.replies], result.prompts)
        yield of("sentences", [s.written.text for s in record.sentences], [d.sentence for d in result.first])
        yield of("prompts that convert", record.conversions, result.conversions)
        yield of(
            "templates before revision", [s.template for s in record.sentences], [d.template for d in result.first]
        )
        # A sentence without a published row was revised without success, so it needed a revision too.
        need = [n for n, s in enumerate(record.sentences) if not (s.published and not s.published[0].revised)]
        yield of(
            "without word or pronoun", need, [n for n, d in enumerate(result.first) if _unstereo.missing_part(run, d)]
        )
        for name, revised in (("templates, unrevised", False), ("templates, revised", True)):
            theirs = [template for row, template, _ in final if row.revised is revised]
            yield of(name, theirs, [d.template for d in result.complete if bool(d.revisions) is revised])
        yield of("templates", [template for _, template, _ in final], [d.template for d in result.complete])
        failed = len(record.sentences) - len(final), len(result.first) - len(result.complete)
        yield Stage(record.length, "failures", *failed, abs(failed[0] - failed[1]))
        natural = [template for _, template, is_natural in final if is_natural]
        yield of("judged natural", natural, [row["template"] for row in rows])
    else:
        size = sum(is_natural for *_, is_natural in final)
        yield Stage(record.length, "judged natural", size, len(rows), abs(size - len(rows)))
    for limit, size in PAPER_SIZES[record.length].items():
        ours = sum(within(row["max_pmi_diff"], limit) for row in rows)
        yield Stage(record.length, f"|MaxPMIDiff| at most {limit:g}", size, ours, abs(size - ours))


PIPELINE = Pipeline(
    "Sentences of a few words that fit a pronoun of any gender.",
    UnstereoSettings,
    _unstereo.run,
    replays={"published": replay_published},
)
