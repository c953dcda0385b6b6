"""A function of the user as the model: ``generate(list[str]) -> list[str]`` gives a text for each prompt.

Whatever answers in words can be scored so: a pipeline, an agent, a chain of calls. As through a chat API each question
is asked several times, and the scores are shares of the answers.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

from rich.console import Console

from builders.generation.clients import ChatRequest
from builders.generation.responses import ChatResponse, request_body, response
from cards.common.files import locked
from cards.common.progress import stage
from scoring import report
from scoring.asking.result import RunResult, runs_beside
from scoring.inference.control import CONTROL, hash_of
from scoring.inference.engines import Call, EngineKind, is_function, name_of, refuse
from scoring.inference.engines.chat_api import OPENING, ask, report_of_answers, result, sampled_parts, with_notes
from scoring.inference.parallel import Processes
from scoring.types import Report, ScoringError

#: Options of a chat API that say nothing of a function.
_OF_A_SERVER = ("temperature", "offline", "dry_run", "budget", "price_prompt", "price_reply")


@dataclass(frozen=True, slots=True)
class FunctionClient:
    """Asks a function, with all questions of a stage at once.

    >>> client = FunctionClient(lambda prompts: [text.upper() for text in prompts], "upper")
    >>> body = {"model": "upper", "messages": [{"role": "user", "content": "hello"}], "temperature": 1, "max_tokens": 9}
    >>> [answer.text for answer in client("a", [ChatRequest(body, "")])]
    ['HELLO']
    """

    function: Callable[[list[str]], Sequence[str]]
    name: str

    def __call__(self, stage: str, requests: Sequence[ChatRequest]) -> list[ChatResponse]:
        """The answers in the order of the requests; what the function raises is raised.

        Raises
        ------
        ScoringError
            When the function gives no list of as many texts.
        """
        prompts = [_prompt(request) for request in requests]
        answers = self.function(prompts)
        # A text is a sequence of letters, and no list of texts.
        if not isinstance(answers, Sequence) or isinstance(answers, str) or len(answers) != len(prompts):
            values = f"a {type(answers).__name__}"
            if isinstance(answers, Sequence):
                values = f"{len(answers)} values"
            raise ScoringError(
                f"The function {self.name} gave {values} for {len(prompts)} prompts ({stage}); return a list with a "
                "text for each prompt."
            )
        for number, answer in enumerate(answers):
            if not isinstance(answer, str):
                raise ScoringError(
                    f"The function {self.name} gave a {type(answer).__name__} for prompt {number + 1}; return texts."
                )
        return [response(request.body, answer) for request, answer in zip(requests, answers, strict=True)]


def _prompt(request: ChatRequest) -> str:
    """The text of a request: its turns one after the other, with an empty line between them."""
    # A function takes one text, not messages of roles.
    return "\n\n".join(message["content"] for message in request.body["messages"])


def score_call(call: Call, console: Console, _processes: Processes) -> RunResult:
    """Asks the function, and writes the report where the call has a folder for it.

    Raises
    ------
    ScoringError
        For options that say nothing of a function, and answers that are no texts.
    """
    if call.tokenizer is not None:
        raise ScoringError("A function has no tokenizer here; leave tokenizer out.")
    # A function chooses its own temperature and costs nothing here.
    refuse(call.sampling, "says nothing of a function; leave it out.", _OF_A_SERVER)
    settings = replace(call.settings, chat=True)
    prompt = settings.full_prompt()
    others = runs_beside(settings.beside, settings.profile)
    parts, lacking, remarks = sampled_parts(settings)
    name = name_of(call.model)
    client = FunctionClient(call.model, name)
    with ExitStack() as stack:
        known_by = ""
        if settings.out:
            stack.enter_context(locked(settings.out, ScoringError))
            known_by = _known_by(client, name)
            # Refused before anything is asked: a run must not end at a folder that it may not replace.
            planned = _as_function(report_of_answers({}, parts, name, call.sampling, settings, prompt), known_by)
            report.check_finished(settings.out, planned, overwrite=settings.overwrite, unknown=("revision", "server"))
        with stage(console, f"Asking {name} …"):
            answers = ask(client, parts, name, call.sampling, settings, prompt)
        scored = result(answers, parts, name, call.sampling, settings, prompt)
        described = f"{call.sampling.samples} answers of the function {name} to each question"
        scored = with_notes(scored, parts, remarks, lacking, described, settings.data)
        scored = replace(scored, report=_as_function(scored.report, known_by))
        if settings.out:
            report.write(settings.out, scored.report, scored.tables, scored.validity, others)
    return scored


def _known_by(client: FunctionClient, name: str) -> str:
    """A hash of what a function answers to the control rows: another function may have the same name.

    A function that answers nothing but its own prompts is known by nothing, so its results are of this call alone.
    """
    rows = [ChatRequest(request_body(name, text, temperature=0, max_tokens=OPENING), "") for text in CONTROL]
    try:
        return hash_of([answer.text for answer in client("control rows", rows)])
    # The code of the user may raise anything for texts that it does not expect.
    except Exception:
        return secrets.token_hex(16)


def _as_function(run_report: Report, known_by: str) -> Report:
    """A report that names a function as its engine, which has neither seed nor temperature.

    ``known_by`` is the hash of its answers to the control rows.
    """
    environment: dict[str, Any] = dict(run_report.environment)
    if known_by:
        environment["response key"] = {**environment["response key"], "answers": known_by}
    environment["engine"] = "function"
    environment["answers"] = "answers of a function of the user, as many to each question as the settings say"
    return replace(run_report, environment=environment)


ENGINE = EngineKind(lambda call: is_function(call.model), lambda call: name_of(call.model), score_call)
