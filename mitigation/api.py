"""Mitigation from Python; the command ``probes mitigate`` calls the same functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, overload

from rich.console import Console
from typer import Option

from builders.dataset import BuildError
from cards.common import draw, terminal
from cards.common.options import checked, filled, in_python, visible_console
from cards.common.progress import stage
from cards.common.text import split_list
from mitigation import recipes
from mitigation.adapters import write
from mitigation.recipe import (
    TEXT_FORMAT,
    WIKITEXT,
    Adapter,
    Change,
    MitigationError,
    Model,
    Recipe,
    TrainingData,
    resolve_settings,
)
from mitigation.texts.pairs_file import read_pairs
from scoring import DATA, benchmarks
from scoring.asking.run import read, suited
from scoring.inference import fetching
from scoring.inference.engines import name_of, refuse_wrong_name
from scoring.inference.engines.loaded import check_loaded, engine_of, unchanged
from scoring.inference.engines.transformers import refuse_mistyped
from scoring.inference.load_options import (
    BUNDLED,
    MODEL,
    AllowPickle,
    Device,
    Dtype,
    LoadOptions,
    Revision,
    TrustRemoteCode,
)
from scoring.inputs.tables import DataMissing
from scoring.options import Benchmarks, Data, Limit, Profile, Resamples
from scoring.statistics.stats import RESAMPLES
from scoring.types import ScoringError

if TYPE_CHECKING:
    import pandas as pd

    from mitigation.running.estimate import Estimate
    from mitigation.running.evaluate import Evaluation


#: Options that several commands have.
Text = Annotated[
    Path | None, Option(metavar="FILE", help="Texts for perplexity, a line each, or wikitext; by default neutral ones.")
]
Config = Annotated[Path | None, Option(metavar="FILE", help="Settings by name, in TOML or JSON.")]


@dataclass(frozen=True, slots=True)
class Options:
    """The options of all recipes, and parameters of :func:`mitigate`."""

    data: Data = DATA
    limit: Limit = None
    profile: Profile = "clean"
    config: Config = None
    benchmarks: Benchmarks = ""
    text: Text = None
    chat: Annotated[bool, Option("--chat", help="Use the model's chat template.")] = False
    evaluate: Annotated[bool, Option(help="Evaluate before and after.")] = True
    keep_worse: Annotated[
        bool, Option("--keep-worse", help="With --no-evaluate: keep it where ordinary text became less probable.")
    ] = False
    device: Device = None
    quantize: Annotated[
        Literal["auto", "4bit", "none"],
        Option(rich_help_panel=MODEL, help="Weights in 4 bits; auto with a GPU, if the recipe uses them."),
    ] = "auto"
    resamples: Resamples = RESAMPLES
    dry_run: Annotated[bool, Option("--dry-run", help="Only say what memory and time it would take.")] = False
    revision: Revision = None
    dtype: Dtype = "auto"
    trust_remote_code: TrustRemoteCode = False
    allow_pickle: AllowPickle = False


@dataclass(frozen=True, slots=True, repr=False)
class Mitigated:
    """What a recipe made: the folder of the adapter or prompt, and its facts."""

    folder: Path
    facts: Adapter

    def table(self) -> pd.DataFrame:
        """Every score before and after over the same examples, a row each, with the paired difference and interval."""
        # Imported here, because it brings torch with it.
        from mitigation.running.evaluate import changes_table

        return changes_table(self.facts.changes)

    def __repr__(self) -> str:
        """The recipe, the model, the folder, and the first score of each benchmark before and after, in one line."""
        return draw.one_line(f"Mitigated {self._heading}", list(self._headlines()))

    def _repr_html_(self) -> str:
        """The first score of each benchmark before and after with a small picture, and all scores folded."""
        return draw.glance_html(
            self._heading, [(text, c.difference, 0.0, draw.FREE) for text, c in self._headlines().items()], self.table()
        )

    @property
    def _heading(self) -> str:
        return f"{self.facts.recipe} on {self.facts.base}, in {self.folder}"

    def _headlines(self) -> dict[str, Change]:
        first = {change.benchmark: change for change in reversed(self.facts.changes)}
        return {f"{c.benchmark} {c.metric} {c.before[0]:#.3g} → {c.after[0]:#.3g}": c for c in reversed(first.values())}


@overload
def mitigate(recipe: str, model: Any, *, dry_run: Literal[True], **options: Any) -> Estimate: ...


@overload
def mitigate(
    recipe: str,
    model: Any,
    *,
    tokenizer: Any = None,
    out: str | Path | None = None,
    data: str | Path = DATA,
    limit: int | None = None,
    profile: Literal["clean", "paper"] = "clean",
    config: str | Path | None = None,
    benchmarks: str | Sequence[str] = (),
    text: str | Path | None = None,
    chat: bool = False,
    evaluate: bool = True,
    keep_worse: bool = False,
    resamples: int = RESAMPLES,
    quantize: Literal["auto", "4bit", "none"] = "auto",
    revision: str | None = None,
    dtype: Literal["auto", "float32", "bfloat16", "float16", "float64"] = "auto",
    device: str | None = None,
    trust_remote_code: bool = False,
    allow_pickle: bool = False,
    dry_run: Literal[False] = False,
    include: str | Path | Sequence[str | Path] = (),
    console: Console | None = None,
    **settings: Any,
) -> Mitigated: ...


@overload
def mitigate(recipe: str, model: Any, *, dry_run: bool, **options: Any) -> Mitigated | Estimate: ...


def mitigate(
    recipe: str,
    model: Any,
    *,
    tokenizer: Any = None,
    out: str | Path | None = None,
    data: str | Path = DATA,
    limit: int | None = None,
    profile: Literal["clean", "paper"] = "clean",
    config: str | Path | None = None,
    benchmarks: str | Sequence[str] = (),
    text: str | Path | None = None,
    chat: bool = False,
    evaluate: bool = True,
    keep_worse: bool = False,
    resamples: int = RESAMPLES,
    quantize: Literal["auto", "4bit", "none"] = "auto",
    revision: str | None = None,
    dtype: Literal["auto", "float32", "bfloat16", "float16", "float64"] = "auto",
    device: str | None = None,
    trust_remote_code: bool = False,
    allow_pickle: bool = False,
    dry_run: bool = False,
    include: str | Path | Sequence[str | Path] = (),
    console: Console | None = None,
    **settings: Any,
) -> Mitigated | Estimate:
    """Makes an adapter or a prompt with a recipe, and scores the model before and after.

    Parameters
    ----------
    recipe:
        The name of a recipe, such as ``debias_tuning``, ``fast``, ``prompts`` or ``decoding``.
    model, tokenizer:
        A name on the Hub, a folder or a bundled model; or a loaded transformers model and its tokenizer. A loaded
        model is afterwards as it was before; the adapter is in the folder.
    out:
        The folder of the adapter; ``adapters/RECIPE-MODEL`` by default. An interrupted call continues.
    data, limit:
        Built data sets, and the most rows of each split.
    profile, config:
        Settings of this project (``clean``) or the published ones (``paper``), and a file with settings by name.
    benchmarks, text, chat, evaluate, resamples:
        What is scored before and after, and how; ``text`` is a file with texts for perplexity, one per line.
    keep_worse:
        Without an evaluation, write the adapter also where ordinary text has a higher loss with it.
    quantize:
        Whether weights are loaded in 4 bits; a loaded model is used as it is.
    revision, dtype, device, trust_remote_code, allow_pickle:
        How a model is loaded (:class:`scoring.inference.load_options.LoadOptions`).
    dry_run:
        Read only the configuration of the model, and return a :class:`mitigation.running.estimate.Estimate`.
    include:
        Python files outside the project that define a ``RECIPE``.
    console:
        Where progress and the table are shown; by default in a terminal and a notebook.
    settings:
        Settings of the recipe by name.

    Raises
    ------
    MitigationError
        When a setting is wrong or the recipe does not suit the model.
    ScoringError
        When the model or the data cannot be used.

    Examples
    --------
    >>> mitigate("prompts", "tiny-causal", limit=5).table()  # doctest: +SKIP
    """
    # Before any other name is bound: these are the parameters, and Options takes those that it has.
    values = dict(locals())
    console = console or visible_console()
    with in_python(ScoringError):
        # Files first, because they may define the recipe.
        for path in checked("include", list[Path], include, MitigationError):
            recipes.include(path)
        chosen = recipes.get(recipe)
        in_memory = not isinstance(model, (str, Path))
        name = name_of(model) if in_memory else str(model)
        folder = checked("out", Path, out or Path("adapters") / f"{recipe}-{Path(name).name}", MitigationError)
        # A model of the caller's is left as it was, also after an exception.
        with unchanged(model) if in_memory else nullcontext(), built():
            loaded = None
            if in_memory:
                if dry_run:
                    raise MitigationError("An estimate reads a configuration; give the model by its name or folder.")
                check_loaded(model, tokenizer, loading(name, filled(Options, values, MitigationError)))
                loaded = engine_of(model, tokenizer)
            result = mitigated(chosen, name, settings, values, folder, console, console, loaded)
    assert result is not None, "only the other processes of a distributed training have no result"
    if isinstance(result, Adapter):
        return Mitigated(folder, result)
    return result


@contextmanager
def built() -> Iterator[None]:
    """Turns an error about data that a recipe reads into this package's own."""
    try:
        yield
    except BuildError as error:
        raise MitigationError(str(error)) from None


def mitigated(
    recipe: Recipe,
    model: str,
    settings: Mapping[str, Any],
    values: Mapping[str, Any],
    out: Path,
    console: Console,
    errors: Console,
    loaded: Model | None = None,
) -> Adapter | Estimate | None:
    """What :func:`mitigate` makes with ``values`` for :class:`Options`; the command calls it too."""
    options = filled(Options, values, MitigationError)
    resolved = resolve_settings(recipe, options.profile, options.config, settings)
    rows = TrainingData(options.data, options.limit)
    how = loading(model, options)
    refuse_wrong(options, resolved, out)
    if loaded is None:
        refuse_recipe(model)
        refuse_wrong_name(model)
        refuse_mistyped(model)
        # What is on the Hub needs the network, and is looked at after all files of the settings.
        if model in BUNDLED or Path(model).is_dir():
            fetching.check_model(how.small_files(), model)
    if options.dry_run:
        from mitigation.running.estimate import estimate  # with it comes torch

        estimated = estimate(recipe, resolved, how, options.quantize, rows)
        terminal.show(console, estimated.lines)
        return estimated
    write.check_target(out)
    # All that follows has lines of its own; of what has none, this one says how long it takes.
    with stage(errors, f"Preparing {recipe.name} for {model} …", bars=True):
        # Data that is not there is refused now, and not after the training.
        evaluation = planned_evaluation(recipe, options, rows, resolved, errors) if options.evaluate else None
        from mitigation.running import steps  # with it comes torch

        return steps.make_and_evaluate(
            recipe,
            resolved,
            how,
            rows,
            out,
            evaluation,
            console,
            errors,
            quantize=options.quantize,
            loaded=loaded,
            keep_worse=options.keep_worse,
        )


def refuse_recipe(model: str) -> None:
    """Refuses a recipe that is given as a model.

    Raises
    ------
    MitigationError
        If there is no folder of the name.
    """
    if model in recipes.names() and not Path(model).exists():
        raise MitigationError(f"{model!r} is a recipe and no model; give a model, such as tiny-causal.")


def refuse_wrong(options: Options, settings: Any, out: Path) -> None:
    """Refuses names and files that are not there, before torch is imported.

    Raises
    ------
    ScoringError
        With the first one.
    """
    for name in split_list(options.benchmarks):
        benchmarks.get(name)
    for place in (out, *out.parents):
        if place.is_file():
            raise MitigationError(f"{place} is a file, and an adapter has its own folder; give another --out.")
    if options.device not in (None, "auto") and not fetching.is_device(str(options.device)):
        raise MitigationError(fetching.NO_DEVICE.format(options.device))
    tracker = getattr(settings, "report_to", "none")
    if tracker != "none" and not find_spec(tracker):
        raise MitigationError(
            f"--report-to {tracker} needs the package {tracker}, which is not installed; install it with pip install "
            f"{tracker}."
        )
    text = options.text
    if text and text != Path(WIKITEXT) and not text.is_file():
        raise MitigationError(f"{text} cannot be read as text (there is no such file); {TEXT_FORMAT}.")
    pairs = getattr(settings, "pairs", "")
    # The setting may also name pairs of the project.
    if isinstance(pairs, str) and Path(pairs).suffix and not Path(pairs).is_file():
        read_pairs(pairs)


def loading(model: str, options: Options) -> LoadOptions:
    """How a model is loaded."""
    return LoadOptions(
        model,
        revision=options.revision,
        dtype=options.dtype,
        device=options.device,
        trust_remote_code=options.trust_remote_code,
        allow_pickle=options.allow_pickle,
    )


def planned_evaluation(
    recipe: Recipe, options: Options, data: TrainingData, settings: Any = None, errors: Console | None = None
) -> Callable[[Model], Evaluation]:
    """A function from a model to its evaluation; the data is read now, before a model is loaded.

    Jobs that a file of the ``settings`` names are not among those by which the recipe is judged. Where nothing is built
    and the user named neither a benchmark nor a folder, the three lines are all that is measured, and a sentence on the
    console ``errors`` says so.
    """
    names = split_list(options.benchmarks)
    # Those that the user names, or else those of the recipe, or else all; each once.
    chosen = [benchmarks.get(name) for name in dict.fromkeys(names or recipe.benchmarks or benchmarks.names())]
    try:
        parts = read(chosen, data.source, options.profile, data.limit, named=bool(names))
    except DataMissing as error:
        if names or options.data != DATA or errors is None:
            raise
        parts = []
        terminal.show(errors, [f"Stereotype, stated gender and perplexity are measured alone. {error}"])
    # Only now, because torch comes with it.
    from mitigation.running import outcome
    from mitigation.running.evaluate import Evaluation, held_out_texts

    texts = held_out_texts(data, options.text)
    stated = outcome.loaded(learned_text(settings), data.limit)

    def evaluation(model: Model) -> Evaluation:
        # What does not suit the model is left out, unless the user has named it: then it is an error.
        suitable, _ = suited(parts, "chat" if options.chat else model.kind, model.name, named=bool(names))
        return Evaluation(tuple(suitable), texts, options.profile, options.resamples, options.chat, stated)

    return evaluation


def learned_text(settings: Any) -> str:
    """The text of the files of pairs or contrasts that a recipe learns from; empty without one."""
    texts = []
    for name in ("pairs", "contrast"):
        path = getattr(settings, name, "")
        if isinstance(path, str) and path and Path(path).is_file():
            texts.append(Path(path).read_text(encoding="utf-8", errors="replace"))
    return "\n".join(texts)
