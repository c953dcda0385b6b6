"""Prompts: an instruction and its position in a request, a system text, a first turn, and decoding settings.

A prompt has a name, a version, an instruction with its position in the request, a text for the system
role of a chat, what a chat model writes before it answers, and decoding settings. It is chosen by its name
or by the path of a JSON file with these fields, such as

    {"name": "fair", "version": "1.0.0", "instruction": "Be fair.", "placement": {"occugender": "question"}}

The instruction against gender mentions and the grids of decoding settings are those of *Disclosure and
Mitigation of Gender Bias in LLMs* (Dong et al., 2024); its tables print the best of the sampled ones as
"Hyperparameter". The six debiasing prompts are those of Table 4 of *Causally Testing Gender Bias in LLMs*
(OccuGender; Chen et al., 2024). Chain of thought, self-reflection, self-help and self-aware are the methods
that *BiasFreeBench* (Xu et al., 2025) compares, in words of this project.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Literal, NotRequired

from pydantic import Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from builders.text.wording import DEBIASING_PROMPTS
from cards.common.stored import STRICT, first_fault
from cards.common.text import did_you_mean
from scoring import benchmarks
from scoring.types import Request, ScoringError

#: The position of an instruction: before the context (or before a whole sentence that has none), after
#: "Q:" on the same line, or nowhere.
Placement = Literal["before", "question", "none"]
NonBlank = Annotated[str, Field(pattern=r"\S")]


class DecodingTable(TypedDict, total=False):
    """Arguments of :class:`scoring.inference.generation.Decoding`, which comes with torch."""

    __pydantic_config__ = STRICT  # type: ignore[misc]
    temperature: int | float
    top_p: int | float
    top_k: int
    seed: int
    max_new: int
    banned: list[NonBlank]


class SelfDebiasTable(TypedDict):
    """Arguments of :class:`scoring.inference.self_debias.SelfDebiasing`, which comes with torch."""

    __pydantic_config__ = STRICT  # type: ignore[misc]
    prefixes: Annotated[list[NonBlank], Field(min_length=1)]
    decay: NotRequired[Annotated[int | float, Field(ge=0)]]
    epsilon: NotRequired[Annotated[int | float, Field(gt=0, le=1)]]


class FirstTurn(TypedDict):
    """What a chat model writes before it answers.

    It is asked ``ask`` with the question for ``{question}``, and writes at most ``tokens`` tokens. ``then`` is the
    user's next turn of the same chat; without it, a new chat has what the model wrote in place of the question.
    """

    __pydantic_config__ = STRICT  # type: ignore[misc]
    ask: Annotated[str, Field(pattern=r"\{question\}")]
    then: NotRequired[NonBlank]
    tokens: Annotated[int, Field(gt=0)]


@dataclass(frozen=True, slots=True)
class Prompt:
    """An instruction with its position, a system text, a first turn, and decoding settings, under a name.

    Parameters
    ----------
    name, version, summary:
        Its name, the version of its wording, and one line that describes it.
    instruction:
        The text that is added to each request.
    placement:
        The position of the instruction, by the name of a benchmark; ``before`` for the others.
    system:
        The text of the system role of a chat; only for models that are asked through a chat template.
    decoding:
        Arguments of :class:`scoring.inference.generation.Decoding`.
    self_debias:
        Prefixes after which biased text is more probable, and how strongly such text is made less probable
        (:mod:`scoring.inference.self_debias`); only for models in this process.
    first:
        What is asked before the question is answered; only in a chat.
    """

    __pydantic_config__ = STRICT
    name: NonBlank
    summary: str = ""
    instruction: str = ""
    version: NonBlank = field(kw_only=True)
    placement: Mapping[str, Placement] = field(default_factory=dict)
    system: str = ""
    decoding: DecodingTable = field(default_factory=DecodingTable)
    self_debias: SelfDebiasTable | None = None
    first: FirstTurn | None = None

    def turns(self, question: str, reply: str | None = None) -> tuple[str, ...]:
        """The turns up to the answer, the user's first; without a reply those of the first turn, if there is one.

        >>> PROMPTS["self-reflection"].turns("Who sings?", "She.")[:2]
        ('Who sings?', 'She.')
        >>> PROMPTS["self-help"].turns("Who sings?", " Which person sings? ")
        ('Which person sings?',)
        """
        if not self.first:
            return (question,)
        opening = self.first["ask"].replace("{question}", question)
        if reply is None:
            return (opening,)
        then, reply = self.first.get("then"), reply.strip()
        if then:
            # An empty reply keeps its turn, so that the turns of user and model alternate.
            return (opening, reply or "…", then)
        return (reply or question,)

    def refuse(self, chat: bool) -> None:
        """Refuses a prompt with a first turn outside a chat.

        Raises
        ------
        ScoringError
            For such a prompt.
        """
        # Without a chat nothing separates what the model wrote first from the question.
        if self.first and not chat:
            raise ScoringError(f"The prompt {self.name!r} has two turns of a chat; add --chat, or give another prompt.")

    def put(self, request: Request, benchmark: str = "") -> Request:
        r"""The request of a benchmark with the instruction at its position.

        >>> PROMPTS["instruction"].put(Request("a", "My friend sings, and")).context
        'Continue the sentence without gender mentions: My friend sings, and'
        >>> from scoring.types import Option
        >>> PROMPTS["instruction"].put(Request("b", options=(Option("She sings."),))).options[0].text
        ' She sings.'
        >>> PROMPTS["debias-2"].put(Request("c", "Q: Imagine a vet.\nA:"), "occugender").context
        'Q: Please do not think based on gender stereotypes. Imagine a vet.\nA:'
        """
        place = self.placement.get(benchmark, "before")
        if not self.instruction or place == "none":
            return request
        if place == "question":
            # The authors of OccuGender put the instruction on the line of the question.
            before, mark, after = request.context.partition("Q:")
            if before or not mark:
                raise ScoringError(
                    f"{request.id} does not begin with Q:, after which the prompt {self.name!r} has its instruction; "
                    "give it the placement 'before' there."
                )
            return replace(request, context=f"Q: {self.instruction}{after}")
        return request.after(self.instruction)

    def json(self) -> str:
        """The text of a JSON file from which :func:`read` reads the same prompt."""
        filled = {}
        for member in fields(self):
            value = getattr(self, member.name)
            if isinstance(value, Mapping):
                value = dict(value)
            if value:
                filled[member.name] = value
        return json.dumps(filled, indent=2, ensure_ascii=False) + "\n"


def _all_prompts() -> dict[str, Prompt]:
    file = Path(__file__).parents[1] / "data" / "prompts.json"
    prompts = {}
    for prompt in TypeAdapter(tuple[Prompt, ...]).validate_json(file.read_bytes()):
        prompts[prompt.name] = prompt
    for source in DEBIASING_PROMPTS:
        name = f"debias-{source.id}"
        prompts[name] = Prompt(
            name,
            f"debiasing prompt {source.id} of OccuGender ({source.level}-level), after its Q: or before the question",
            source.text,
            version="1.0.0",
            placement={"occugender": "question"},
        )
    return prompts


#: All prompts by name: those of ``data/prompts.json``, and the debiasing prompts of OccuGender.
PROMPTS: Mapping[str, Prompt] = _all_prompts()


def get(name: str) -> Prompt:
    """The prompt called ``name``, or the one in the JSON file ``name``.

    Raises
    ------
    ScoringError
        When there is none of that name, or the file is no prompt.
    """
    if name.endswith(".json"):
        return read(Path(name))
    if name not in PROMPTS:
        if Path(name).is_file():
            raise ScoringError(
                f"{name} is no prompt; prompts that are scored are given with --prompts, and a prompt around the "
                "questions is a JSON file."
            )
        raise ScoringError(
            f"No prompt is called {name!r}{did_you_mean(name, PROMPTS)}; the names are {', '.join(PROMPTS)}, and a "
            "JSON file can be given."
        )
    return PROMPTS[name]


def read(path: Path) -> Prompt:
    """The prompt in a JSON file: an object with some of the fields of :class:`Prompt`, name and version among them.

    Raises
    ------
    ScoringError
        For a file that cannot be read, is no JSON, has an unknown field or lacks one, or takes the name
        of a prompt that comes with the project for another wording.
    """
    try:
        prompt = TypeAdapter(Prompt).validate_json(path.read_bytes())
    except OSError as error:
        raise ScoringError(
            f"The prompt file {path} cannot be read ({error.strerror}); give a name or the path of a JSON file."
        ) from None
    except ValidationError as error:
        names = ", ".join(f.name for f in fields(Prompt))
        raise ScoringError(
            f"The prompt file {path} is not valid ({first_fault(error)}); give an object with the fields {names}."
        ) from None
    allowed = ", ".join(benchmarks.names())
    unknown = sorted(prompt.placement.keys() - set(benchmarks.names()))
    if unknown:
        raise ScoringError(f"The prompt file {path} has a placement for {unknown[0]!r}; the benchmarks are {allowed}.")
    # Runs and pages know a prompt by its name, so one name has one wording.
    if prompt.name in PROMPTS and prompt.json() != PROMPTS[prompt.name].json():
        raise ScoringError(
            f"The prompt file {path} calls itself {prompt.name!r}, which is another prompt of this project; give it a "
            "name of its own."
        )
    return prompt
