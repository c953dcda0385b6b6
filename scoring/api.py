"""Scoring a model from Python; the command ``probes score`` calls the same functions."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, overload

from rich.console import Console

from cards.common.options import checked, in_python, visible_console
from cards.common.text import split_list
from scoring import benchmarks as registry
from scoring.asking.result import RunResult, load
from scoring.inference.engines import Call, check_folder, chosen
from scoring.inference.parallel import ALONE, Processes
from scoring.inputs.prompts import Prompt
from scoring.many.cluster import outcomes
from scoring.many.sweep import Sweep, calls
from scoring.report.headlines import Comparison
from scoring.statistics.stats import RESAMPLES
from scoring.types import DATA, ScoringError


@overload
def evaluate(model: list[str] | tuple[str, ...], **options: Any) -> Sweep: ...


@overload
def evaluate(model: Any = "", **options: Any) -> RunResult: ...


def evaluate(  # type: ignore[misc]  # the signatures above stand for all of these options
    model: Any = "",
    *,
    tokenizer: Any = None,
    benchmarks: str | Sequence[str] = (),
    data: str | Path = DATA,
    out: str | Path | None = None,
    profile: Literal["clean", "paper"] = "clean",
    prompt: str | Prompt = "plain",
    chat: bool = False,
    limit: int | None = None,
    system: str = "",
    truncate: bool = False,
    batch_tokens: int | None = None,
    resamples: int = RESAMPLES,
    overwrite: bool = False,
    beside: str | Path | Sequence[str | Path] = (),
    ways: str | Sequence[str] = "",
    wordings: str | int = "",
    prompts: str | Path | None = None,
    include: str | Path | Sequence[str | Path] = (),
    revision: str | None = None,
    revisions: str | Sequence[str] = (),
    adapter: str | Path | None = None,
    adapter_revision: str | None = None,
    dtype: Literal["auto", "float32", "bfloat16", "float16", "float64"] = "auto",
    device: str | None = None,
    quantize: Literal["4bit", "8bit"] | None = None,
    trust_remote_code: bool = False,
    allow_pickle: bool = False,
    device_map: str | Mapping[str, Any] | None = None,
    exact: bool = False,
    executor: Literal["ray", "slurm"] | None = None,
    cluster: str | Sequence[str] = (),
    server: str = "",
    results: str = "",
    base_url: str | Sequence[str] = (),
    model_name: str | None = None,
    concurrency: int = 4,
    timeout: float = 600.0,
    chat_api: bool = False,
    samples: int = 5,
    temperature: float = 1.0,
    seed: int = 0,
    offline: bool = False,
    dry_run: bool = False,
    budget: str | None = None,
    price_prompt: str | None = None,
    price_reply: str | None = None,
    limit_name: str = "max_tokens",
    console: Console | None = None,
) -> RunResult | Sweep:
    """Scores a model on benchmarks; the parameters are the options of ``probes score`` and have their defaults.

    Parameters
    ----------
    model:
        A name on the Hub, a folder, a bundled model (``tiny-causal``, ``tiny-masked``), a loaded transformers or
        PEFT model, an engine of your own, or a function that gives a list of texts for a list of prompts (its scores
        are shares of ``samples`` answers, as those of a chat API). A loaded model is afterwards as it was before:
        mode, generation settings, hooks and dtype. A list of names is scored one after the other
        (:mod:`scoring.many.sweep`): each has a folder in ``out``, and one that fails does not stop the others.
    tokenizer:
        The tokenizer of a loaded model, or the folder or name of that of a served one.
    benchmarks, profile, limit, resamples:
        One name or several, by default all that suit the model and have data; definitions of this project (``clean``)
        or the published ones (``paper``); so many rows of each split; resamples of the bootstrap.
    data, out, overwrite:
        A folder that :func:`builders.build` wrote, or ``hub:ORG``. A folder for the files of the run: responses are
        stored there as they arrive, so an interrupted call continues where it stopped. Without it nothing is written;
        see :meth:`scoring.asking.result.RunResult.save`. ``overwrite`` replaces a run with other settings there. A
        folder with other files is refused; files that were added to a run stay as they are.
    prompt, system, chat, truncate, batch_tokens:
        How requests are put: a prompt by name, by file or as an object; a system text; the model's chat template; cut
        texts that are too long; the most tokens of a batch.
    revision, adapter, adapter_revision, dtype, device, quantize, trust_remote_code, allow_pickle, device_map, exact:
        How a model is loaded (:class:`scoring.inference.load_options.LoadOptions`).
    base_url, model_name, concurrency, timeout:
        Addresses of inference servers instead of a model in this process, and how they are asked.
    chat_api, samples, temperature, seed, offline, dry_run, budget, price_prompt, price_reply, limit_name:
        Answers in words are sampled from a chat API (:class:`scoring.options.Sampling`). With ``dry_run`` the cost is
        printed, and the result has no scores.
    revisions:
        Revisions of each model, each scored as a model of its own, such as ``step1000,step2000``.
    executor, cluster, server, results:
        A list of models may be scored in tasks of Ray or Slurm with resources such as ``gpus=1``
        (:mod:`scoring.many.cluster`), with a server for each (:mod:`scoring.many.own_server`), and its results be also
        in a data set of the Hub (``hub:ORG/NAME``, :mod:`scoring.many.hub_results`).
    beside:
        Folders of stored runs, whose scores the page of this run shows beside its own.
    ways:
        How items are asked: ``likelihood``, ``choice``, ``text`` or ``two_turns``, and with several how far they agree
        (:mod:`scoring.asking.ways`).
    wordings:
        ``all``, or how many wordings the items are asked in too (:mod:`scoring.asking.wordings`).
    prompts:
        A CSV or Parquet file of prompts of your own, each continued: a column ``prompt``, and ``group`` for groups; or
        two columns with the two prompts of a pair in each row (:mod:`scoring.inputs.prompt_file`).
    include:
        Python files outside the project that define a ``BENCHMARK``.
    console:
        Where progress is shown; by default in a terminal, and in a notebook that has the package ipywidgets.

    Raises
    ------
    ScoringError
        When the model or the data cannot be used, or a value is wrong or contradicts another; one sentence.

    Examples
    --------
    >>> result = evaluate("tiny-causal", benchmarks="occugender", limit=5)  # doctest: +SKIP
    >>> result.table()  # doctest: +SKIP
    """
    values = dict(locals())
    with in_python(ScoringError):
        shown = checked("console", Console, console or visible_console(), ScoringError)
        several = [revisions] if isinstance(revisions, str) and revisions else list(revisions)
        if isinstance(model, (list, tuple)) or several:
            names = list(model) if isinstance(model, (list, tuple)) else [model]
            return _swept(names, split_list(",".join(several)), values, shown)
        if given := [name for name in ("executor", "cluster", "server", "results") if values[name]]:
            raise ScoringError(f"--{given[0]} is of several models; give a list, which may have one.")
        return evaluated(Call.of(model, values), shown)


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
    after = run if isinstance(run, RunResult) else load(run)
    before = base if isinstance(base, RunResult) else load(base)
    return after.compare(before, resamples)


def _swept(models: Sequence[Any], revisions: Sequence[str], values: Mapping[str, Any], console: Console) -> Sweep:
    """The runs of several models by name."""
    unnamed = [model for model in models if not isinstance(model, (str, Path))]
    if unnamed or not models:
        given = f"A {type(unnamed[0]).__name__} is in the list of models" if unnamed else "The list of models is empty"
        raise ScoringError(f"{given}; give names or folders, because each is loaded when the one before it is freed.")
    call = Call.of(str(models[0]), values)
    if not call.settings.out:
        raise ScoringError("Several models have a folder each, and no --out is given; give the folder for all of them.")
    registry.include(*call.settings.include)
    every = calls(call, [str(model) for model in models], revisions, call.settings.out)
    found = list(outcomes(every, call.settings.out, console))
    runs = {outcome.name: outcome.folder for outcome in found if not outcome.sentence}
    return Sweep(runs, {outcome.name: outcome for outcome in found if outcome.sentence})


def evaluated(call: Call, console: Console, processes: Processes = ALONE) -> RunResult:
    """The result of a call of :func:`evaluate`; the command comes here too."""
    registry.include(*call.settings.include)
    if call.settings.out and processes.first:
        check_folder(call.settings.out)
    return chosen(call).run(call, console, processes)
