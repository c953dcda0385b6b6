"""Scoring a model from Python; the command ``probes score`` calls the same functions."""

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from inspect import Parameter, Signature
from pathlib import Path
from typing import Any, Literal, TypedDict, Unpack, get_args, get_type_hints, overload

from rich.console import Console

from cards.common.options import checked, in_python, parameters, visible_console
from cards.common.text import did_you_mean, split_list
from scoring.asking.result import RunResult, load
from scoring.inference.engines import Call, check_folder, chosen, keep
from scoring.inference.load_options import LoadOptions
from scoring.inference.parallel import ALONE, Processes
from scoring.inputs.prompt_file import PromptFile
from scoring.inputs.prompts import Prompt
from scoring.many.cluster import outcomes
from scoring.many.sweep import Sweep, calls
from scoring.options import OF_SEVERAL, ManyModels, Sampling, ServedOptions, Settings
from scoring.report.headlines import Comparison
from scoring.statistics.stats import RESAMPLES
from scoring.types import ScoringError


class EvaluateOptions(TypedDict, total=False):
    """The options of :func:`evaluate` with their types, so that editors complete them and type checkers check them.

    What an option does, its default and its limits are declared in its group (:data:`GROUPS`) alone.
    """

    tokenizer: Any
    benchmarks: str | Sequence[str]
    data: str | Path
    out: str | Path | None
    profile: Literal["clean", "paper"]
    prompt: str | Prompt
    chat: bool
    limit: int | None
    groups: Literal["headline", "all"]
    system: str
    start: str
    truncate: bool
    batch_tokens: int | None
    resamples: int
    overwrite: bool
    beside: str | Path | Sequence[str | Path]
    ways: str | Sequence[str]
    wordings: str | int
    prompts: Any
    include: str | Path | Sequence[str | Path]
    revision: str | None
    revisions: str | Sequence[str]
    adapter: str | Path | None
    adapter_revision: str | None
    dtype: Literal["auto", "float32", "bfloat16", "float16", "float64"]
    device: str | None
    quantize: Literal["4bit", "8bit"] | None
    trust_remote_code: bool
    allow_pickle: bool
    device_map: str | Mapping[str, Any] | None
    exact: bool
    executor: Literal["ray", "slurm"] | None
    cluster: str | Sequence[str]
    server: str
    results: str
    base_url: str | Sequence[str]
    model_name: str | None
    concurrency: int
    timeout: float
    chat_api: bool
    samples: int
    temperature: float
    seed: int
    offline: bool
    dry_run: bool
    budget: str | None
    price_prompt: str | None
    price_reply: str | None
    limit_name: str
    console: Console | None


#: The groups of options, each of which declares its options with help, default and limits.
GROUPS: tuple[type[Any], ...] = (Settings, LoadOptions, ManyModels, ServedOptions, Sampling)


@overload
def evaluate(model: list[str] | tuple[str, ...], **options: Unpack[EvaluateOptions]) -> Sweep: ...


@overload
def evaluate(model: Any = "", **options: Unpack[EvaluateOptions]) -> RunResult: ...


def evaluate(model: Any = "", **options: Unpack[EvaluateOptions]) -> RunResult | Sweep:
    """Scores a model on benchmarks; the parameters are the options of ``probes score`` and have their defaults.

    Parameters
    ----------
    model:
        A name on the Hub, a folder, a bundled model (``tiny-causal``, ``tiny-masked``), a loaded transformers or
        PEFT model, a pair of such a model and its tokenizer, an engine of your own, or a function that gives a list of
        texts for a list of prompts (its scores are shares of ``samples`` answers, as those of a chat API). A loaded
        model is afterwards as it was before: mode, generation settings, hooks and dtype. A list of names is scored one
        after the other (:mod:`scoring.many.sweep`): each has a folder in ``out``, and one that fails does not stop the
        others.
    options:
        What to score, where the files go and how a model is loaded or asked. :class:`EvaluateOptions` has the names
        and types, and ``help(scoring.evaluate)`` lists each with its help. Where a command takes a text with commas, a
        list is taken too. ``tokenizer`` may be that of a loaded model. Without ``out`` nothing is written; with it
        responses are stored as they arrive, so an interrupted call continues where it stopped. ``revisions`` are
        scored each as a model of its own, such as ``step1000,step2000``. With ``dry_run`` the cost is printed, and the
        result has no scores. Progress is shown on ``console``, by default in a terminal and in a notebook that has the
        package ipywidgets.

    Raises
    ------
    ScoringError
        When the model or the data cannot be used, or a value is wrong or contradicts another; one sentence.
    TypeError
        For an option that there is not.

    Examples
    --------
    >>> result = evaluate("tiny-causal", benchmarks="occugender", limit=5)  # doctest: +SKIP
    >>> result.table()  # doctest: +SKIP
    """
    known = _signature().parameters
    for name in options:
        if name not in known or name == "model":
            near = did_you_mean(name, known)
            raise TypeError(f"evaluate() got an unexpected keyword argument {name!r}{near}")
    values: dict[str, Any] = {"tokenizer": None, **options}
    with in_python(ScoringError):
        console = checked("console", Console, values.pop("console", None) or visible_console(), ScoringError)
        revisions = values.pop("revisions", "")
        if not isinstance(revisions, str):
            revisions = ",".join(revisions)
        # A model with its tokenizer, as functions that load both return them.
        if isinstance(model, tuple) and len(model) == 2 and hasattr(model[0], "config"):
            model, values["tokenizer"] = model
        if isinstance(model, (list, tuple)):
            return _swept(list(model), split_list(revisions), values, console)
        if revisions:
            return _swept([model], split_list(revisions), values, console)
        for name in OF_SEVERAL:
            if values.get(name):
                raise ScoringError(f"--{name} needs several models; give a list, which may have one.")
        return evaluated(Call.of(model, values).with_base(), console)


def _signature() -> Signature:
    """The parameters of :func:`evaluate` with the defaults of their declarations, in the order of the groups."""
    named = [Parameter("model", Parameter.POSITIONAL_OR_KEYWORD, default="", annotation=Any)]
    types = get_type_hints(EvaluateOptions)
    for group in GROUPS:
        for option in fields(group):
            # The model is the first parameter, and the same for every group that has it.
            if option.name == "model":
                continue
            default = option.default
            if option.default_factory is not MISSING:
                default = option.default_factory()
            annotation = types.get(option.name, Any)
            named.append(Parameter(option.name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation))
    # These two are of a call and of no group.
    named.append(Parameter("revisions", Parameter.KEYWORD_ONLY, default="", annotation=types["revisions"]))
    named.append(Parameter("console", Parameter.KEYWORD_ONLY, default=None, annotation=types["console"]))
    return Signature(named, return_annotation=RunResult | Sweep)


def _help() -> str:
    """The help of each option by group, as a part of the docstring of :func:`evaluate`."""
    lines = ["", "    Options", "    -------"]
    for group in GROUPS:
        for parameter in parameters(group):
            _, declaration = get_args(parameter.annotation)
            lines += [f"    {parameter.name}:", f"        {declaration.help}"]
    return "\n".join([*lines, "    "])


# Editors read the types above; ``help`` and notebooks read these, which are made of the declarations.
evaluate.__signature__ = _signature()  # type: ignore[attr-defined]
evaluate.__doc__ = f"{evaluate.__doc__}{_help()}"


def compare(run: RunResult | str | Path, base: RunResult | str | Path, resamples: int = RESAMPLES) -> Comparison:
    """The differences of a run from an earlier one, its ``base``, with paired intervals.

    Parameters
    ----------
    run, base:
        The result of :func:`evaluate`, or the folder of a stored run.
    resamples:
        Resamples of the bootstrap.

    Raises
    ------
    ScoringError
        When a folder has no run, or the runs are of other data, profiles, examples or versions of a benchmark.

    Examples
    --------
    >>> compare("runs/fair", "runs/before").table()  # doctest: +SKIP
    """
    if not isinstance(run, RunResult):
        run = load(run)
    if not isinstance(base, RunResult):
        base = load(base)
    return run.compare(base, resamples)


def _swept(models: Sequence[Any], revisions: Sequence[str], values: Mapping[str, Any], console: Console) -> Sweep:
    """The runs of several models by name."""
    advice = "give names or folders, because each is loaded when the one before it is freed"
    if not models:
        raise ScoringError(f"The list of models is empty; {advice}.")
    for model in models:
        if not isinstance(model, (str, Path)):
            raise ScoringError(f"A {type(model).__name__} is in the list of models; {advice}.")
    call = Call.of(str(models[0]), values)
    if not call.settings.out:
        raise ScoringError("Several models have a folder each, and no --out is given; give the folder for all of them.")
    every = calls(call, [str(model) for model in models], revisions, call.settings.out)
    runs, failed = {}, {}
    for outcome in outcomes(every, call.settings.out, console):
        if outcome.sentence:
            failed[outcome.name] = outcome
        else:
            runs[outcome.name] = outcome.folder
    return Sweep(runs, failed)


def evaluated(call: Call, console: Console, processes: Processes = ALONE) -> RunResult:
    """The result of a call of :func:`evaluate`; the command comes here too."""
    if call.settings.out and processes.first:
        check_folder(call.settings.out)
    # Call.of has read them.
    if isinstance(call.settings.prompts, PromptFile) and processes.first:
        console.print(f"Prompts: {call.settings.prompts.understood}.", markup=False, highlight=False)
    result = chosen(call).score(call, console, processes)
    if processes.first and not call.sampling.dry_run:
        keep(call)
    return result
