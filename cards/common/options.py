"""How commands start, and settings declared once: the fields of a dataclass are options of a command.

In Python they are parameters with checks.

A field that is an option has its help in its type, ``Annotated[int, typer.Option(help="…")]``; the types of options
that several commands have are named, such as :data:`scoring.options.Limit`.
"""

import inspect
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import MISSING, fields
from importlib.util import find_spec
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

import typer
from rich.console import Console
from typer.core import TyperCommand, TyperGroup
from typer.models import ParameterInfo

from cards.common.registry import INCLUDED
from cards.common.text import did_you_mean, printable, redactor, secrets

T = TypeVar("T")
#: The error of a wrong command line, which has another module in each version of typer.
UsageError: Any = typer.BadParameter.__mro__[1]
_REFUSAL = (
    "error: An argument looks like an access token; give tokens in the environment (HF_TOKEN) or by `hf auth login`, "
    "and delete this one from the history of the shell."
)

#: The form of a list in a help, by which an option that takes one is known.
LIST = "A,B"
#: What torch says where the memory of the processor or of a GPU is used up.
_NO_MEMORY = re.compile(r"(can't|cannot|could not|unable to) allocate|out of memory|not enough memory", re.IGNORECASE)
_TOO_LITTLE = (
    "error: There is too little memory for this command; end other programs, or give a smaller model, or less at one "
    "time (such as a lower --batch-tokens or --limit)."
)


@contextmanager
def ended(
    errors: Console, *expected: type[Exception], interrupted: str = "start the same command again to go on"
) -> Iterator[None]:
    """Ends a command with one sentence and an exit status where its block raises an error that is expected.

    The status is ``exit_code`` of the error, or 1, which an error of a file or too little memory has too; 130 when
    interrupted. Secrets of the environment are hidden.
    """
    try:
        yield
    except expected as error:
        status = getattr(error, "exit_code", 1)
        # Work that was handed to a queue and a condition that holds are no errors; the message says what they are.
        sentence = str(error)
        if not getattr(error, "expected", status == os.EX_TEMPFAIL):
            sentence = f"error: {error}"
    except OSError as error:
        problem = f"{error.filename or 'A file'} cannot be used ({error.strerror or type(error).__name__})"
        sentence, status = f"error: {problem}; give a name or a folder that can be read and written.", 1
    except KeyboardInterrupt:
        sentence, status = f"Interrupted; {interrupted}.", 130
    except (UsageError, typer.Abort, typer.Exit):
        raise
    except Exception as error:
        # What torch raises where the memory is too little is a RuntimeError.
        if isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and _NO_MEMORY.search(str(error))):
            sentence = _TOO_LITTLE
        else:
            sentence = _of_included_file(error)
        if not sentence:
            raise
        status = 1
    else:
        return
    style = "red" if sentence.startswith("error: ") else None
    errors.print(printable(redactor(os.environ)(sentence)), style=style, markup=False, highlight=False, soft_wrap=True)
    raise typer.Exit(status) from None


def _of_included_file(error: Exception) -> str:
    """The sentence for an unexpected error of a command with files of the user; empty where there are none.

    Where code of such a file raised it, the sentence has its line. Otherwise the values of the file may have led to
    it, and the sentence says where it was raised.
    """
    files = []
    for name, module in list(sys.modules.items()):
        if name.startswith(INCLUDED):
            files.append(str(module.__file__))
    if not files:
        return ""
    problem = f"{type(error).__name__}: {error}"
    places = traceback.extract_tb(error.__traceback__)
    for place in reversed(places):
        if place.filename in files:
            return f"error: {place.filename}, line {place.lineno}, raised {problem}; correct the file."
    last = places[-1]
    return (
        f"error: {Path(last.filename).name}, line {last.lineno}, raised {problem}, with {', '.join(files)} included; "
        "correct what the file gives, or leave it out to see whether it is the cause."
    )


def start(app: typer.Typer, name: str) -> None:
    """Runs a command by its name, unless an argument is an access token.

    An error message about a wrong argument would print the argument. So a token is refused before any
    argument is parsed, in a sentence without it, with exit status 2.
    """
    for stream_name in ("stdout", "stderr"):
        if getattr(sys, stream_name) is None:  # closed by the shell (>&-)
            nowhere = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - open until the process ends
            setattr(sys, stream_name, nowhere)
        getattr(sys, stream_name).reconfigure(errors="replace")  # for terminals without Unicode
    if holds_token(sys.argv[1:], os.environ):
        print(_REFUSAL, file=sys.stderr)
        raise SystemExit(2)
    try:
        app(prog_name=name)
        sys.stdout.flush()
    except OSError as error:
        # What is left in the stream would be written once more at the end of the process.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        print(f"error: The output cannot be written ({error.strerror}); give it a place with room.", file=sys.stderr)
        raise SystemExit(1) from None


def holds_token(arguments: Sequence[str], environment: Mapping[str, str]) -> bool:
    """Whether an argument holds a secret of the environment, or a text in the form of an access token.

    >>> holds_token(["--org", "me", "--tokn=hf_" + "a" * 34], {}), holds_token(["hf_models"], {})
    (True, False)
    """
    pattern = secrets(environment)
    # Found by its form too: an option may be misspelt, so its name says nothing.
    return any(pattern.search(argument) for argument in arguments)


class NearestGroup(TyperGroup):
    """A group of commands that says the nearest name where there is none of the name that was typed."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that the arguments name."""
        try:
            return super().resolve_command(ctx, args)
        except UsageError as error:
            if error.message.startswith("No such command"):
                names = self.list_commands(ctx)
                nearest = did_you_mean(args[0], names) or f"; give one of {', '.join(names)}"
                error.message = f"No command is called {args[0]!r}{nearest}."
            raise


def group(**more: Any) -> typer.Typer:
    """The application of several commands; without one it prints its help."""
    plain: dict[str, Any] = {"add_completion": False, "pretty_exceptions_show_locals": False, "rich_markup_mode": None}
    return typer.Typer(cls=NearestGroup, no_args_is_help=True, **plain, **more)


class HelpCommand(TyperCommand):
    """A command whose help has one line an option where it fits: the common options first, the others by groups."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Reads the arguments, lists in any form; an error about a choice says the nearest one."""
        try:
            return super().parse_args(ctx, with_joined_lists(args, ctx, self.get_params(ctx)))
        except typer.BadParameter as error:
            error.message = error.message.replace("Value error, ", "")
            # The library names all choices, of which the nearest one is most likely meant.
            match = re.match(r"'(.*)' is not one of (.*)\.$", error.message)
            if match:
                near = did_you_mean(match[1], re.findall(r"'(.*?)'", match[2]))
                error.message = f"{match[0][:-1]}{near}."
            raise

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Writes the arguments and the options under the names of their groups (``rich_help_panel``)."""
        groups: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            # A hidden option has no record.
            if not record:
                continue
            names, text = record
            title = getattr(parameter, "rich_help_panel", None)
            if not title:
                title = "Options" if parameter.param_type_name == "option" else "Arguments"
            groups.setdefault(title, []).append(_brief(names, text))
        for title, records in groups.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records, col_max=34)


def with_joined_lists(args: Sequence[str], ctx: Any, parameters: Sequence[Any]) -> list[str]:
    """The arguments, where each option that takes a list with commas (``metavar="A,B"``) is there once.

    It may be repeated, and known names may follow it with spaces between them: ``--benchmarks a b --benchmarks c``.
    """
    options = {name: option for option in parameters if option.metavar == LIST for name in option.opts}
    values: dict[str, list[str]] = {}
    others = []
    rest = list(args)
    while rest:
        word = rest.pop(0)
        name, equals, value = word.partition("=")
        if word == "--" or name not in options or not (equals or rest):
            others.append(word)
            # What follows the two dashes are words, whatever they look like.
            if word == "--":
                others += rest
                break
            continue
        of_option = values.setdefault(options[name].name, [])
        of_option.append(value if equals else rest.pop(0))
        while rest and _completes(options[name], ctx, rest[0]):
            of_option.append(rest.pop(0))
    joined = []
    for option in options.values():
        if option.name in values:
            joined += [option.opts[0], ",".join(values[option.name])]
    return joined + others


def _completes(option: Any, ctx: Any, word: str) -> bool:
    """Whether a word is one of the names that the shell would complete after an option."""
    return not word.startswith("-") and word in [item.value for item in option.shell_complete(ctx, word)]


def _brief(names: str, text: str) -> tuple[str, str]:
    """The names of an option with N for a number, and its help; limits are said where a value is outside of them."""
    # Limits are written as "1<=x<=9"; what is left of a help that had nothing else is an empty bracket.
    text = re.sub(r"(?:; )?(\d[\d.]*<=?)?x[<>]=?\d[\d.]*", "", text).replace("[]", "").replace("[; ", "[")
    # Versions of typer write the type of a number as INTEGER, INTEGER RANGE, <int> or <int range>.
    names = re.sub(r" (INTEGER|FLOAT|<int|<float)( RANGE| range>|>)?", " N", names.removesuffix(" <list[str]>"))
    return names, " ".join(text.split())


def single(call: Callable[..., None], *kinds: type[Any], name: str | None = None, **groups: type[Any]) -> typer.Typer:
    """The application of one command: the options of a function, and those of dataclasses; ``groups`` have a title."""
    app = typer.Typer(add_completion=False, pretty_exceptions_show_locals=False, rich_markup_mode=None)
    more: list[inspect.Parameter] = []
    for kind in kinds:
        more += parameters(kind)
    for title, kind in groups.items():
        more += _grouped(title, kind)
    app.command(name, cls=HelpCommand)(with_options(call, more))
    return app


def command_of(call: Callable[..., None], more: Sequence[inspect.Parameter], name: str) -> Any:
    """The same as a command for a group of commands."""
    return typer.main.get_command(single(with_options(call, more), name=name))


def with_options(call: Callable[..., None], more: Sequence[inspect.Parameter]) -> Callable[..., None]:
    """A function that has further parameters by name, of which its own go first."""
    named = []
    for parameter in inspect.signature(call, eval_str=True).parameters.values():
        if parameter.kind is not parameter.VAR_KEYWORD:
            named.append(parameter.replace(kind=parameter.KEYWORD_ONLY))
    # A function may declare an option of its own instead of a shared one.
    names = {parameter.name for parameter in named}
    named += [parameter for parameter in more if parameter.name not in names]
    # Python wants parameters without a default first; the sort is stable, so each part keeps its order.
    named.sort(key=lambda parameter: parameter.default is not parameter.empty)

    def command(**values: Any) -> None:
        call(**values)

    # typer reads signature and annotations, so a function that takes anything shows those of all options.
    command.__signature__ = inspect.Signature(named)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in named}
    command.__doc__ = call.__doc__
    return command


def completing(names: Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    """Completes the last name of a list with commas in a shell.

    >>> completing(lambda: ["neutral", "occugender"])("neutral,o")
    ['neutral,occugender']
    """

    def complete(incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",")
        return [f"{before}{comma}{name}" for name in names() if name.startswith(last)]

    return complete


def parameters(kind: type[Any]) -> list[inspect.Parameter]:
    """The fields of a dataclass that are options, as parameters of a command.

    A field that may also be an object, a text or a path (``str | Prompt``), is a text on the command line.
    """
    hints = get_type_hints(kind, include_extras=True)
    options = []
    for field in fields(kind):
        hint = hints[field.name]
        info = _info(hint)
        # A field without a declaration of an option is for Python alone.
        if info is None:
            continue
        default: Any = inspect.Parameter.empty
        if field.default_factory is not MISSING:
            default = field.default_factory()
        elif field.default is not MISSING:
            default = field.default
        option = inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=default)
        options.append(option.replace(annotation=Annotated[_typed(hint), info]))
    return options


def _grouped(title: str, kind: type[Any]) -> Iterator[inspect.Parameter]:
    """The options of a dataclass under a title, whose words have ``_`` between them."""
    for parameter in parameters(kind):
        typed, info = get_args(parameter.annotation)
        # The declaration is shared by all commands that have the option, and the title is of this command.
        info_of_group = copy(info)
        info_of_group.rich_help_panel = title.replace("_", " ")
        yield parameter.replace(annotation=Annotated[typed, info_of_group])


def _info(hint: Any) -> ParameterInfo | None:
    """The declaration of an option in a type, or None."""
    for part in getattr(hint, "__metadata__", ()):
        if isinstance(part, ParameterInfo):
            return part
    return None


def _typed(hint: Any) -> Any:
    """The type that a hint has on the command line."""
    kind = get_args(hint)[0]
    if get_origin(kind) is Sequence:
        return list[get_args(kind)[0]]  # type: ignore[misc]
    # Of several types a command line can only give the text; Python may give the others too.
    if get_origin(kind) in (Union, UnionType) and str in get_args(kind):
        return str | None if NoneType in get_args(kind) else str
    return kind


#: A command of a shell inside a sentence, or an option.
_SHELL = re.compile(r"(?:probes|pip|python|hf) [a-z-].*?(?=[;,)]|\. |\.?$)|--([a-z][a-z-]+)")


@contextmanager
def in_python(error: type[Exception], **names: str) -> Iterator[None]:
    """Says errors of the block in the words of Python: ``--batch-tokens`` becomes ``batch_tokens=…``.

    ``names`` has the parameters that are called otherwise than their options.

    >>> with in_python(ValueError):
    ...     raise ValueError("Run probes build --out x; add --batch-tokens.")
    Traceback (most recent call last):
    ValueError: Run probes build --out x; add batch_tokens=….
    """

    def in_words_of_python(match: re.Match[str]) -> str:
        option = match[1]
        # A command of a shell stays as it is, with its options.
        if not option:
            return match[0]
        return f"{names.get(option, option).replace('-', '_')}=…"

    try:
        yield
    except error as problem:
        problem.args = (_SHELL.sub(in_words_of_python, str(problem)),)
        raise


def visible_console() -> Console:
    """Where progress of a call from Python is shown: a terminal, a notebook, or a file that gets a line a minute."""
    console = Console(stderr=True)
    if console.is_jupyter:
        # What a notebook saves has no escape codes. Bars need a package; without it :class:`Progress` shows text.
        moving = find_spec("ipywidgets") is not None
        return Console(stderr=True, color_system=None, force_jupyter=moving, force_terminal=False)
    return console


def filled(kind: type[T], values: Mapping[str, Any], error: type[Exception]) -> T:
    """A dataclass with those of the values that are its fields, each of the type and in the range of its option.

    A list of texts becomes a text with commas where a text is wanted, one text a list, and a text a path.

    Raises
    ------
    Exception
        An error of the given type in one sentence: the name, what was given and what is expected.

    Examples
    --------
    >>> from dataclasses import make_dataclass
    >>> kind = make_dataclass("Made", [("limit", Annotated[int | None, typer.Option(min=1)])])
    >>> filled(kind, {"limit": -3}, ValueError)
    Traceback (most recent call last):
    ValueError: limit is -3; give at least 1.
    """
    hints = get_type_hints(kind, include_extras=True)
    chosen = {}
    for field in fields(kind):  # type: ignore[arg-type]
        if field.name in values:
            chosen[field.name] = checked(field.name, hints[field.name], values[field.name], error)
    return kind(**chosen)


def checked(name: str, hint: Any, value: Any, error: type[Exception]) -> Any:
    """One value for :func:`filled`."""
    from pydantic import Field, TypeAdapter, ValidationError  # a list of commands does not wait for it

    # The limits of an option are typer's, so Python refuses the same values as the command line.
    limits = Field(ge=getattr(_info(hint), "min", None), le=getattr(_info(hint), "max", None))
    kind: Any = Annotated[_lenient(hint), limits]
    try:
        return TypeAdapter[Any](kind, config=_STRICT).validate_python(value)
    except ValidationError as problem:
        faults = problem.errors(include_url=False)
    # The text of an object of another library may be of any length, or need the object to be whole.
    plain = isinstance(value, Path) or type(value).__module__ == "builtins"
    shown = f"{value!r:.80}" if plain else f"of type {type(value).__name__}"
    # Of a union there is a fault for each type, and two types may say the same.
    wanted = " or ".join(dict.fromkeys(fault["msg"].removeprefix("Input should be ") for fault in faults))
    wanted = wanted.replace("greater than or equal to", "at least").replace("less than or equal to", "at most")
    choices = re.findall(r"'(.*?)'", wanted)
    raise error(f"{name} is {shown}; give {wanted}{did_you_mean(value, choices)}.")


#: Types are exact, but for what :func:`_lenient` allows; NaN and infinity are no setting.
_STRICT: Any = {"strict": True, "allow_inf_nan": False, "arbitrary_types_allowed": True}


def _lenient(hint: Any) -> Any:
    """The type of a hint, where a list of texts is also a text, one value a list, and a text a path."""
    from pydantic import BeforeValidator

    if get_origin(hint) is Annotated:
        return _lenient(get_args(hint)[0])
    if get_origin(hint) in (Union, UnionType):
        return Union[tuple(_lenient(part) for part in get_args(hint))]  # noqa: UP007  # of as many types as there are
    if get_origin(hint) in (list, Sequence):
        items = Sequence[_lenient(get_args(hint)[0])]  # type: ignore[misc, valid-type]
        return Annotated[items, BeforeValidator(lambda v: [v] if isinstance(v, str | Path) else v)]
    if hint is str:
        return Annotated[str, BeforeValidator(_joined)]
    if hint is Path:
        return Annotated[Path, BeforeValidator(lambda value: Path(value) if isinstance(value, str) else value)]
    return hint


def _joined(value: Any) -> Any:
    """A list of texts as one text with commas, as the command line has it, and a path as text."""
    if isinstance(value, list | tuple) and all(isinstance(item, str) for item in value):
        return ",".join(value)
    if isinstance(value, Path):
        return str(value)
    return value
