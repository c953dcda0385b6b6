"""The recorded run of UnStereoEval as responses to the requests of the UnStereo pipeline.

Replies to the prompts that write sentences are recorded, and so are the verdicts. Of conversions only the template
is recorded, from which the reply is restored up to the case of *he*. Of revisions only the published result is
recorded: it becomes the response to the first attempt. Such responses have the finish reason ``restored``.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from builders.dataset import BuildError, Files
from builders.datasets.unstereo import OURS_COLUMNS, from_published
from builders.generation.clients import Request
from builders.generation.lists import without_markup
from builders.generation.pipelines._drafts import Draft, to_template, to_template_published
from builders.generation.pipelines._stages import (
    UnstereoRun,
    convert_request,
    judge_request,
    revise_request,
    versions_of,
    write_request,
)
from builders.generation.response_cache import ResponseCache
from builders.generation.responses import MissingResponse, Response, response
from builders.parsers import read, recorded
from builders.text.words import PRONOUNS, Gender

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
        RecordedSentence(sentence, from_published(fields["template"]), _verdicts(fields["likely_under"]))
        for sentence, fields in zip(written, judged, strict=True)
    ]
    table = list(read.table(published.path, OURS_COLUMNS))
    rows = [recorded.PublishedRow.of(fields) for fields in table]
    for fields, row, place in zip(table, rows, recorded.places(rows, written), strict=True):
        result = row, from_published(fields["template"]), fields["is_natural"] == "True"
        sentences[place] = replace(sentences[place], published=result)
    prompts = [fields["prompt"] for path in conversions.paths for fields in read.table(path, _CONVERTED)]
    return RecordedRun(length, results, sentences, prompts)


def _verdicts(text: str) -> tuple[str, str]:
    verdicts = json.loads(text.replace("'", '"'))
    return verdicts["male"], verdicts["female"]


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
    as_read = (lambda text: text) if run.is_paper else without_markup
    for sentence in part.sentences:
        reply = sentence.written.reply
        draft = Draft(reply.word, GENDERS[reply.pronoun], as_read(sentence.written.text), MODEL)
        yield from _versions(run, draft, sentence.template, "convert", sentence.verdicts)
        if sentence.published and sentence.published[0].revised:
            row, template, _ = sentence.published
            yield _response(revise_request(run, draft, 0), row.sentence, restored=True)
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
        converted = (to_template_published if run.is_paper else to_template)(sentence)
        filled = versions_of(run, replace(draft, template=converted)) if run.is_paper or "{" in converted else ()
        for version, verdict in zip(filled, verdicts, strict=False):
            yield _response(judge_request(run, version), verdict)


def _response(request: Request, text: str, *, restored: bool = False) -> Response:
    reason = "restored" if restored else "stop"
    return response(request.body, text, model=MODEL, date=_DATE, finish_reason=reason)


@dataclass
class PublishedClient:
    """Responds from the record. A request without a recorded reply in one of ``open_stages`` gets an empty one.

    ``unanswered`` counts these by stage.
    """

    known: Mapping[str, Response] | ResponseCache
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
            if request.key in self.known:
                results.append(self.known[request.key])
            elif stage in self.open_stages:
                self.unanswered[stage] += 1
                results.append(_response(request, "", restored=True))
            else:
                raise MissingResponse(f"Stage {stage} sends a prompt that is not among the recorded ones.")
        return results
