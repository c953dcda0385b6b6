"""Questions as turns of a chat: the model's own template around each question, once.

What a base model reads as one text is, for a chat model, somebody's turn and the beginning of its own:

- a context without speakers (``My friend sings, and``) is the user's turn, and the options, the
  candidate forms or the continuation are the beginning of the response;
- a transcript (``Q: … A: …``) gives its question to the user, and the text after ``A:`` begins the
  response; the two labels go, because the roles of the chat say what they said;
- a whole sentence without a context is no turn of a chat, so benchmarks of such sentences have no
  form here (those that have are marked ``chat`` among the kinds of models they suit).

The template puts a space before the first word of the response, or nothing after a line end. Candidate forms have a
space before them unless a line ends.
"""

import ctypes
import re
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import date
from functools import cached_property
from typing import Any

from jinja2 import TemplateError

from scoring.types import Option, Request, ScoringError

#: The seconds that a template may take for one question.
LONGEST = 10.0
#: The day of every chat, so that the same question is the same text on every day: the one that the
#: template of Llama 3.1 takes where it gets none.
TODAY = date(2024, 7, 26)
#: What gives a template that day, in any of the usual formats, in place of the clock.
_CLOCK = (
    "{%- macro strftime_now(format) -%}{{ format"
    + "".join(f" | replace('%{part}', '{TODAY.strftime(f'%{part}')}')" for part in "aAbBdjmyYHIMSp")
    + " }}{%- endmacro -%}"
)
NO_TEMPLATE = "{!r} has no chat template, as base models have none; leave out --chat, or give a chat model."
_TRANSCRIPT = re.compile(r"(?P<before>.*?)\bQ:(?P<question>.*)\nA:(?P<answer>.*)", re.DOTALL)


class _Endless(BaseException):
    """Stops a template; a template cannot catch it."""


class Chat:
    """The chat template of one model, with a system text or without.

    Parameters
    ----------
    tokenizer:
        A tokenizer of transformers.
    model:
        Its name, for errors.
    system:
        The text of the system role; no such role is used when empty.

    Raises
    ------
    ScoringError
        For a tokenizer without a chat template, and for a system text where the template has no such role.
    """

    def __init__(self, tokenizer: Any, model: str, system: str = "") -> None:
        self.tokenizer = tokenizer
        self.model = model
        self.system = system
        # A template of a model is a program, so it runs in a thread that can be stopped.
        self._renderer = ThreadPoolExecutor(1)
        self._thread = self._renderer.submit(threading.get_ident).result()
        if not getattr(tokenizer, "chat_template", None):
            raise ScoringError(NO_TEMPLATE.format(model))
        try:
            self.template: str = tokenizer.get_chat_template()
        except ValueError:
            raise ScoringError(
                f"{model!r} has several chat templates and none of them is the default; give a model whose tokenizer "
                "names one."
            ) from None
        if system:
            reason = ""
            try:
                if system.strip() not in self._rendered("Hello."):
                    reason = "it leaves the text out"
            except TemplateError as error:
                reason = str(error).rstrip(".")
            if reason:
                raise ScoringError(
                    f"The chat template of {model!r} takes no system text ({reason}); leave the system "
                    "text out, or put it into the question with a prompt's instruction."
                )

    def put(self, request: Request, around: Callable[[str], Sequence[str]] = lambda question: (question,)) -> Request:
        """The request as a turn of the user and the beginning of the response.

        ``around`` makes the turns up to the response from the question, the user's first.

        Raises
        ------
        ScoringError
            For a request without a context.
        """
        question, answer = turns(request.context)
        if not question:
            raise ScoringError(
                f"{request.id} has no context that could be the turn of a user; leave out --chat, or give it one."
            )
        context = self.text(*around(question)) + _spaced(answer, self.space)
        if answer:
            # The options follow words of the response, and keep their spaces.
            return replace(request, context=context)
        options = tuple(_option(option, self.space) for option in request.options)
        return replace(request, context=context, options=options)

    @cached_property
    def space(self) -> str:
        """The text between the template's words and the response: a space or nothing, as found by trying a response.

        Some templates say other things before a response that they get than before one that they ask for. Then it is
        a space, unless a line ends.
        """
        before = self.text("Hello.")
        try:
            whole = self._rendered("Hello.", "Indeed.")
        except TemplateError:
            whole = ""
        if whole.startswith(before):
            between = whole.removeprefix(before).partition("Indeed.")[0]
            if between in ("", " "):
                return between
        if before.endswith("\n"):
            return ""
        return " "

    def text(self, *turns: str) -> str:
        """Everything up to the response, after turns of which the first and last are the user's.

        A space at its end is left to the response, whose first word it belongs to.
        """
        try:
            return self._rendered(*turns).rstrip(" ")
        except TemplateError as error:
            raise ScoringError(
                f"The chat template of {self.model!r} cannot be used ({error}); give a model whose template takes a "
                "turn of the user alone."
            ) from None

    def _rendered(self, *turns: str) -> str:
        rendering = self._renderer.submit(
            self.tokenizer.apply_chat_template,
            messages(self.system, turns),
            chat_template=_CLOCK + self.template,
            tokenize=False,
            add_generation_prompt=len(turns) % 2 == 1,
            enable_thinking=False,  # A response that is to begin with an option has no room for thoughts.
            date_string=TODAY.strftime("%d %b %Y"),
        )
        try:
            return str(rendering.result(LONGEST))
        except TimeoutError:
            # A thread cannot be ended from outside; an exception is raised in it instead.
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self._thread), ctypes.py_object(_Endless))
            raise ScoringError(
                f"The chat template of {self.model!r} takes longer than {LONGEST:g} s for one question; give a model "
                "whose template ends."
            ) from None
        except Exception as error:  # a template can raise anything
            raise TemplateError(str(error) or f"{type(error).__name__}: ") from None


def messages(system: str, turns: Sequence[str]) -> list[dict[str, str]]:
    """The messages of a chat: a system text, if there is one, and turns of the user and the model, the user's first.

    >>> messages("", ["Who sings?", "She."])
    [{'role': 'user', 'content': 'Who sings?'}, {'role': 'assistant', 'content': 'She.'}]
    """
    chat = []
    # An empty text would still be a turn of the system.
    if system:
        chat.append({"role": "system", "content": system})
    role = "user"
    for turn in turns:
        chat.append({"role": role, "content": turn})
        role = {"user": "assistant", "assistant": "user"}[role]
    return chat


def turns(context: str) -> tuple[str, str]:
    r"""What the user says, and how the response begins, its space before it.

    >>> turns("My friend sings, and")
    ('My friend sings, and', '')
    >>> turns("Please be fair. Q: Talk about a nurse.\nA: I recently met a nurse.")
    ('Please be fair. Talk about a nurse.', ' I recently met a nurse.')
    """
    match = _TRANSCRIPT.fullmatch(context)
    if not match:
        return context.strip(), ""
    # An instruction before "Q:" is a part of the question.
    question = f"{match['before'].strip()} {match['question'].strip()}".strip()
    return question, match["answer"]


def _spaced(text: str, space: str) -> str:
    """A text whose space at the beginning, if it has one, is that of the template."""
    if text.startswith(" "):
        return space + text[1:]
    return text


def _option(option: Option, space: str) -> Option:
    """An option with the template's space before it, and its spans moved to the left where it lost one."""
    text = _spaced(option.text, space)
    lost = len(option.text) - len(text)
    if not option.spans:
        return replace(option, text=text)
    spans = tuple((max(start - lost, 0), end - lost) for start, end in option.spans)
    return replace(option, text=text, spans=spans)
