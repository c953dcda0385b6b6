"""The options that several commands have, and the settings of a run, each declared once with its help."""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from typer import Option

from builders.generation.spending import Spending
from cards.common.files import file_sha256
from cards.common.options import completing
from cards.common.text import split_list
from scoring import benchmarks
from scoring.asking import ways, wordings
from scoring.benchmarks import _prompts
from scoring.inputs import prompt_file
from scoring.inputs.prompts import PROMPTS, Prompt, get
from scoring.statistics.stats import RESAMPLES
from scoring.types import DATA, Benchmark, ScoringError

RUN = "The run"
#: An option under that title in the help.
run_option = partial(Option, rich_help_panel=RUN)

Benchmarks = Annotated[
    str,
    Option(
        metavar="A,B",
        autocompletion=completing(lambda: benchmarks.names()),
        help="Benchmarks; by default all that suit.",
    ),
]
Data = Annotated[str, Option(metavar="PLACE", help="Built data: a folder or hub:ORG.")]
Profile = Annotated[
    Literal["clean", "paper"], Option(metavar="clean|paper", help="Our definitions, or the published ones.")
]
Limit = Annotated[int | None, Option(min=1, help="N rows of each split, of as many clusters.")]
Resamples = Annotated[int, run_option(min=2, help="Bootstrap resamples.")]
Include = Annotated[list[Path], run_option(metavar="FILE.py", help="Add the BENCHMARK of a file; repeatable.")]
Verbose = Annotated[bool, run_option("--verbose", help="Print every score or difference.")]

# A function inside an annotation of a class has no names of the module, so this type is here.
PromptName = Annotated[
    str | Prompt,
    Option(metavar="NAME", autocompletion=completing(lambda: PROMPTS), help="A prompt (--list) or FILE.json."),
]


@dataclass(frozen=True, slots=True)
class Settings:
    """What to score and how; the parameters of :func:`scoring.evaluate` and options of the same names."""

    benchmarks: Benchmarks = ""
    data: Data = DATA
    out: Annotated[Path | None, Option(metavar="FOLDER", help="Folder of the run; by default below runs.")] = None
    profile: Profile = "clean"
    prompt: PromptName = "plain"
    chat: Annotated[bool, Option("--chat", help="Ask through the model's chat template.")] = False
    limit: Limit = None
    groups: Annotated[
        Literal["headline", "all"],
        run_option(metavar="headline|all", help="Rows of the headline, or all, as with debiasing prompts."),
    ] = "headline"
    system: Annotated[str, run_option(metavar="TEXT", help="A system text, with --chat.")] = ""
    start: Annotated[
        str, run_option(metavar="bos|none|TOKEN", help="Token before each text; by default the tokenizer's own.")
    ] = ""
    truncate: Annotated[bool, run_option("--truncate", help="Cut texts that are too long, and mark them.")] = False
    batch_tokens: Annotated[int | None, run_option(min=1, help="The most tokens of a batch.")] = None
    resamples: Resamples = RESAMPLES
    overwrite: Annotated[bool, run_option("--overwrite", help="Replace a run with other settings in --out.")] = False
    beside: Annotated[
        Sequence[Path],
        run_option(metavar="RUN", help="Show a stored run beside this one; repeatable."),
    ] = ()
    ways: Annotated[
        str, Option(metavar="A,B", rich_help_panel=RUN, help="Ways to ask: likelihood, choice, text, two_turns.")
    ] = ""
    wordings: Annotated[
        str | int, Option(metavar="all|N", rich_help_panel=RUN, help="Also ask in N wordings, and give the mean.")
    ] = ""
    prompts: Annotated[
        str | Any | None, run_option(metavar="FILE", help="Score prompts of your own: CSV, Excel, JSON, Parquet.")
    ] = None
    include: Include = ()  # type: ignore[assignment]  # nobody changes it

    def full_prompt(self) -> Prompt:
        """The prompt, with the system text.

        Raises
        ------
        ScoringError
            For settings that contradict each other.
        """
        prompt = self.prompt
        if isinstance(prompt, str):
            prompt = get(prompt)
        if self.system and prompt.system:
            raise ScoringError(
                f"Both --system and the prompt {prompt.name!r} give a system text; leave one of them out."
            )
        if (self.system or prompt.system) and not self.chat:
            raise ScoringError("Only a chat has a system text; add --chat, or leave the system text out.")
        prompt.refuse(self.chat)
        if self.chat and self.truncate:
            raise ScoringError("A chat is not cut to the context window; leave out --truncate or --chat.")
        return replace(prompt, system=self.system or prompt.system)

    def chosen(self) -> list[Benchmark]:
        """The benchmarks in their order, each once; all of them if none is named.

        >>> [benchmark.name for benchmark in Settings("unstereo,neutral,unstereo").chosen()]
        ['unstereo', 'neutral']
        """
        names: list[str] = []
        for part in self.benchmarks.split(","):
            words = part.split()
            # Of a text that is no list of names the whole is named, because it may be a secret, which is hidden.
            if not all(benchmarks.known(word) for word in words):
                words = [part.strip()]
            names += words
        names = list(dict.fromkeys(names))
        if names == ["all"]:
            raise ScoringError("All benchmarks are scored where --benchmarks is left out; leave it out, or name some.")
        if benchmarks.PROMPTS in names:
            raise ScoringError("The benchmark prompts needs a file of yours; name it with --prompts.")
        if not names and self.prompts is None:
            names = list(benchmarks.names())
        selected = [benchmarks.get(name) for name in names]
        number = 0
        if self.wordings:
            number = wordings.count(str(self.wordings))
        if number and self.profile == "paper":
            raise ScoringError("No paper has published wordings; leave out --wordings, or --profile paper.")
        if self.ways or number:
            selected = ways.of_run(selected, split_list(self.ways) or ["likelihood"], number)
        if self.prompts is not None:
            selected = [_prompts.benchmark(prompt_file.read(self.prompts)), *selected]
        return selected


@dataclass(frozen=True, slots=True)
class ServedOptions:
    """Which servers to ask, and how."""

    base_url: Annotated[Sequence[str], Option(metavar="URL", help="vLLM, SGLang, llama-cpp-python; repeatable.")] = ()
    model_name: Annotated[str | None, Option(metavar="NAME", help="Name of the model on the server.")] = None
    tokenizer: Annotated[str | None, Option(metavar="ID", help="Tokenizer; by default that of the server.")] = None
    concurrency: Annotated[int, Option(min=1, help="Requests to a server at the same time.")] = 4
    timeout: Annotated[float, Option(min=0.1, help="Seconds to wait for a reply.")] = 600.0


@dataclass(frozen=True, slots=True)
class ManyModels:
    """Where several models are scored, and where their results are kept besides the folder."""

    executor: Annotated[Literal["ray", "slurm"] | None, Option(help="Score each model in a task of a cluster.")] = None
    cluster: Annotated[Sequence[str], Option(metavar="KEY=VALUE", help="What a task gets: gpus, memory, time, …")] = ()
    server: Annotated[str, Option(metavar="COMMAND", help="Start this for each: has {model} and {port}.")] = ""
    results: Annotated[str, Option(metavar="hub:ORG/NAME", help="Keep the results in a data set of the Hub.")] = ""


@dataclass(frozen=True, slots=True)
class Sampling(Spending):
    """How many answers to each question, at which temperature, with which first seed; and what they may cost."""

    samples: Annotated[int, Option(min=1, help="Answers to each question.")] = 5
    temperature: Annotated[float, Option(min=0.0, help="Temperature of the answers.")] = 1.0
    seed: Annotated[int, Option(min=0, help="Seed of the first answer.")] = 0
    chat_api: Annotated[bool, Option("--chat-api", help="Sample answers (key in OPENAI_API_KEY).")] = field(
        default=False, kw_only=True
    )

    def __str__(self) -> str:
        # Each sample has a seed of its own, the next number.
        seeds = f"seed {self.seed}"
        if self.samples > 1:
            seeds = f"seeds {self.seed} to {self.seed + self.samples - 1}"
        return f"{self.samples} sampled answers to each question at temperature {self.temperature:g}, {seeds}"


#: The options that only several models have, by name.
OF_SEVERAL = tuple(option.name for option in fields(ManyModels))
#: Settings that results do not name: places of files, the size of a batch, runs that a page shows too, and what results
#: have in another form (the benchmarks with their versions, the prompt with its digest, files by their content).
NOT_RECORDED = frozenset(
    {"benchmarks", "data", "out", "prompt", "system", "batch_tokens", "overwrite", "beside", "prompts", "include"}
)


def _names(group: type) -> set[str]:
    """The names of the options of a group."""
    return {option.name for option in fields(group)}


def recorded(settings: Settings, sampling: Sampling | None = None) -> dict[str, Any]:
    """The settings that numbers depend on, by the name of their option, as results have them.

    >>> recorded(Settings(ways="choice"))["ways"]
    'choice'
    """
    values: dict[str, Any] = {}
    for name in sorted(_names(Settings) - NOT_RECORDED):
        values[name] = getattr(settings, name)
    if sampling:
        # What answers cost does not change them.
        for name in sorted(_names(Sampling) - _names(Spending)):
            values[name] = getattr(sampling, name)
    if settings.include:
        files = [Path(file) for file in settings.include]
        values["include"] = {file.name: file_sha256(file) for file in files if file.is_file()}
    return values
