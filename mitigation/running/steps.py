"""The steps of a recipe: from a model to an adapter with metrics before and after.

An interrupted command repeats no finished step. The steps lie in a folder with the name of the output
and ``-work``: checkpoints, the adapter without metrics (``made``), and runs of scoring ``before`` and
``after``. With weights in 4 bits, ``before`` is the unchanged model in 4 bits, and ``control`` the one in
full precision: their difference is the effect of quantization alone. The values of ``control`` are added to
the printed table and to the facts.
"""

import gc
import math
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

import scoring
from builders.files.folders import replace_folder, scratch_beside
from cards.common import files, numbers, progress, terminal
from mitigation.adapters import temporary, write
from mitigation.editing import PAIRS
from mitigation.methods import comparison
from mitigation.recipe import WITHOUT_EFFECT, Console, MitigationError, Model, Recipe, ScoringError, TrainingData
from mitigation.running import estimate, outcome, quantization
from mitigation.running.evaluate import (
    Evaluation,
    Key,
    changes_table,
    compare_runs,
    estimates,
    ordinary_texts,
    score_texts,
    text_changes,
)
from mitigation.training.data import refuse_test_pairs, remark_on_test_rows, shared_measures, training_prompts
from scoring import benchmarks, report
from scoring.adapters.facts import FACTS, PROMPT, Adapter, Change, Numbers, is_whole_model, read
from scoring.asking import answering
from scoring.benchmarks import neutral
from scoring.inference import batching, load_options, self_debias
from scoring.inference.store import Store
from scoring.inputs import prompts
from scoring.report.headlines import HeadlineChange, conclusion
from scoring.statistics.stats import RESAMPLES
from scoring.types import Table

#: A file of the folder of the steps, by whose checksum a later command knows that one made the folder.
MARK = "steps.txt"
#: The prompt that changes nothing.
PLAIN = prompts.PROMPTS["plain"]
#: Nats a token by which the loss of ordinary text may rise without a measure of anything else.
WORSE = 0.05
#: The end of the names of measures that :func:`full_precision_measures` adds.
FULL_PRECISION = " in full precision"


def make_and_evaluate(
    recipe: Recipe,
    settings: Any,
    options: load_options.LoadOptions,
    data: TrainingData,
    out: Path,
    evaluation: Callable[[Model], Evaluation] | None,
    console: Console,
    errors: Console,
    *,
    quantize: str = "auto",
    loaded: Model | None = None,
    answers: Path | None = None,
    keep_worse: bool = False,
) -> Adapter | None:
    """Runs a recipe, evaluates before and after, and writes the adapter to ``out``.

    Parameters
    ----------
    options:
        How to load the model; ``quantize`` in them is replaced.
    evaluation:
        What is scored before and after, for the loaded model; None for no evaluation.
    console, errors:
        The consoles for results, and for progress and remarks.
    quantize:
        As in :func:`mitigation.running.estimate.plan_loading`.
    loaded:
        A model that is loaded already; it is used as it is, and ``options`` only names it.
    answers:
        A folder for the responses of the unchanged model, which several commands may share, to ask it once. By
        default they are in the folder of the steps.
    keep_worse:
        Without an evaluation, write the adapter to ``out`` also where ordinary text has a higher loss with it.

    Returns
    -------
    Adapter | None
        The facts of the adapter; None in a process other than the first of a distributed training.

    Raises
    ------
    MitigationError
        If the recipe does not work for this kind of model, ``out`` has other content, or the loss of ordinary text
        rose and ``keep_worse`` is not given.
    """
    work = out.with_name(f"{out.name}-work")
    write.check_target(out)
    check_work_folder(work)
    settings.inputs()  # what the recipe reads is there and has the right form, before a model is loaded
    refuse_test_pairs(settings, data.source)
    terminal.show(errors, remark_on_test_rows(settings))
    bits = None
    if loaded is None:
        # Each process of a distributed training has a GPU of its own.
        options = replace(options, device=options.device or _gpu_of_process())
        plan = estimate.plan_loading(recipe, settings, options, quantize)
        terminal.show(errors, plan.remarks)
        bits = plan.quantize
        settings = plan.settings
        options = replace(options, quantize=bits, dtype=plan.dtype)
        with progress.stage(errors, f"Loading {options.model} …"):
            model = quantization.load_for_training(options)
    else:
        model = loaded
    if model.kind not in recipe.kinds:
        raise MitigationError(
            f"The recipe {recipe.name} is for {' or '.join(recipe.kinds)} models, and {options.model} is a "
            f"{model.kind} one; give another model."
        )
    chosen = evaluation(model) if evaluation else None  # before training, so that errors in it come first
    # Other processes only train: the first one evaluates and writes.
    if rank := int(os.environ.get("RANK", "0")):
        work.mkdir(parents=True, exist_ok=True)
        with scratch_beside(work / f"rank-{rank}", alone=True) as scratch:
            recipe.apply(model, settings, data, scratch, errors)
        return None
    full_precision: dict[Key, Numbers] = {}
    compared: Sequence[HeadlineChange] = ()
    with files.locked(work, MitigationError):
        # Under the lock, so that two commands into the same folder do not mix their steps.
        files.put_all(work, {MARK: b"The steps of a run of probes mitigate.\n"}, MitigationError)
        adapter = make_adapter(recipe, settings, model, data, work / "made", errors, out)
        # Scores of test rows that are in the training text are no evidence, and a reader of the card must see it.
        shared = shared_measures(settings, data.source)
        adapter = replace(adapter, measures={**adapter.measures, **shared})
        if chosen is not None:
            # A recipe may have measured changes of its own, which come first.
            changes, compared = evaluate_adapter(model, chosen, work, out.name, errors, answers)
            adapter = replace(adapter, changes=(*adapter.changes, *changes))
        else:
            before, after, is_worse = held_out_losses(model, work, out.name, errors)
            losses = f"The loss of ordinary text is {before:.3f} nats a token before and {after:.3f} after."
            if is_worse and not keep_worse:
                raise MitigationError(
                    f"{losses} So {recipe.name} made the model worse, and {out} is not written; evaluate it without "
                    "--no-evaluate, change its settings, or give --keep-worse."
                )
            terminal.show(console, [losses])
        write.write(work / "made", adapter, out)
        if chosen is not None:
            if bits:  # the adapter is in place, so that nothing is lost if full precision does not fit into the memory
                del model
                full_precision = evaluate_full_precision(options, chosen, work, errors)
                measures = {**adapter.measures, **full_precision_measures(adapter.changes, full_precision)}
                adapter = replace(adapter, measures=measures)
                write.write_facts(out, adapter)
            table = changes_table(adapter.changes, full_precision).to_csv(index=False)
            files.put(work / "changes.csv", table.encode())
    terminal.show(console, summary(adapter, compared, out, work))
    return adapter


def summary(adapter: Adapter, compared: Sequence[HeadlineChange], out: Path, work: Path) -> list[str]:
    """How a command ends: held-out bias, all scores, what there was to remove, cost and place, and the outcome.

    ``compared`` are the headlines of the comparison before and after; empty without an evaluation. Where no score of
    the tables of methods was measured, the first headline with an ideal value is used instead of held-out bias.
    """
    lines = []
    headline = _headline(adapter, compared)
    judged = outcome.outcome(adapter.changes)
    if headline is None:
        if compared:
            lines.append(conclusion(compared))
    elif math.isnan(headline.before[0] + headline.after):
        # With few rows a score of small groups can be without a value, and a difference of NaN says nothing.
        lines.append(f"{headline.name} is not defined over these rows; give a higher --limit, or none.")
        lines.append(conclusion(compared))
    else:
        scores = f"{headline.before[0]:.2f} before, {headline.after:.2f} after, {headline.difference}"
        lines.append(f"{headline.name}: {scores}: {headline.words}.")
        lines.append(conclusion(compared))
        lines.append(comparison.to_remove(headline.name, headline.before, headline.ideal or 0.0))
    cost = adapter.cost
    lines.append(
        f"{cost.parameters:,} parameters trained in {cost.seconds:.1f} s, at most {cost.memory / 2**30:.2f} GiB "
        f"({cost.device})."
    )
    if is_whole_model(out):
        what = "model"
    elif (out / PROMPT).is_file():
        what = "prompt"
    else:
        what = "adapter"
    page = ""
    # Also where no headline could be compared: the page has all other scores.
    if compared or (work / "after" / "compare.html").is_file():
        page = f"; the page is {work / 'after' / 'compare.html'}, and every change is in {work / 'changes.csv'}"
    elif adapter.changes:
        page = f"; every change is in {work / 'changes.csv'}"
    lines.append(f"The {what} is {out}{page}.")
    if judged:
        lines += judged.lines
    return lines


@dataclass(frozen=True, slots=True)
class Headline:
    """The score that judges a recipe: its name, its values, the difference in words, and the verdict in words."""

    name: str
    before: Numbers
    after: float
    difference: str
    ideal: float | None
    words: str


def _headline(adapter: Adapter, compared: Sequence[HeadlineChange]) -> Headline | None:
    """The score of held-out bias of the tables of methods, or else the first headline with an ideal value."""
    if not compared:
        return None
    methods = [comparison.Method(adapter.recipe, adapter)]
    tables = comparison.tables_of(comparison.changes_frame("", methods), methods)
    if tables:
        # A recipe without a domain is judged in the first domain that was measured.
        table = tables[0]
        for candidate in tables:
            if candidate.domain == adapter.settings.get("domain"):
                table = candidate
        row = table.cells()[adapter.recipe][table.bias]
        words = f"{comparison.verdict_text(row) or 'no verdict'}. Language ability {row.ability}"
        before = row.before, row.before_low, row.before_high
        name = f"{table.bias} ({table.domain})"
        return Headline(
            name, before, row.after, comparison.change_text(row), comparison.COLUMNS[table.bias].ideal, words
        )
    for change in compared:
        score = change.before
        if score.ideal is not None:
            name = f"{score.benchmark} {score.short_name}"
            difference = numbers.with_interval(change.difference.numbers, "+.2f")
            words = change.verdict or "no verdict"
            return Headline(name, score.numbers, change.after.value, difference, score.ideal, words)
    return None


def _gpu_of_process() -> str | None:
    """The GPU of this process in a distributed training; None otherwise, or without GPUs."""
    local_rank = os.environ.get("LOCAL_RANK")
    if local_rank and torch.cuda.is_available():
        return f"cuda:{local_rank}"
    return None


def check_work_folder(work: Path) -> None:
    """Refuses a folder for the steps, whose parts will be replaced, that no command of this project made.

    A folder of steps has :data:`MARK` in its record; the lock proves nothing, because other programs leave such a file.

    Raises
    ------
    MitigationError
        If it has files and no mark, or if the adapter in it has files that its facts do not describe.
    """
    if not files.is_recorded(work, MARK):
        # A command may have been killed before the mark, and other processes of a distributed training may be faster.
        ours = [files.LOCK, MARK, files.RECORD]
        ours += [name for name in files.strays(work, ()) if name.startswith(".rank-")]
        files.refuse_strays(work, ours, MitigationError)
    write.check_target(work / "made")


def make_adapter(
    recipe: Recipe,
    settings: Any,
    model: Model,
    data: TrainingData,
    folder: Path,
    errors: Console,
    finished: Path | None = None,
) -> Adapter:
    """Runs a recipe into a folder, unless an earlier command made the same adapter; gives its facts without evaluation.

    The adapter of an unfinished command is in the folder, and that of a finished one in ``finished``. The folder is
    replaced in one step, so it has all files of an adapter or does not exist. The caller holds the lock of the folder
    above it.
    """
    made_before = "An earlier command with the same settings made what follows; the recipe is not run again."
    adapter = _made_before(recipe, settings, model, data, folder)
    if adapter:
        terminal.show(errors, [made_before])
        return adapter
    folder.parent.mkdir(parents=True, exist_ok=True)
    with scratch_beside(folder, alone=True) as scratch:
        if finished:
            adapter = _made_before(recipe, settings, model, data, finished)
        if finished and adapter:
            terminal.show(errors, [made_before])
            shutil.copytree(finished, scratch, dirs_exist_ok=True)
        else:
            with progress.stage(errors, f"Applying {recipe.name} …", bars=True):
                adapter = apply_recipe(recipe, settings, model, data, scratch, errors)
        write.write_facts(scratch, adapter)
        replace_folder(scratch, folder)
    return adapter


def apply_recipe(
    recipe: Recipe, settings: Any, model: Model, data: TrainingData, folder: Path, errors: Console
) -> Adapter:
    """Makes an adapter by a recipe in an empty folder.

    Raises
    ------
    MitigationError
        If the memory does not suffice, with the settings that lower what is needed.
    """
    try:
        return recipe.apply(model, settings, data, folder, errors)
    except (RuntimeError, MemoryError) as error:
        if not batching.out_of_memory(error):
            raise
        raise MitigationError(out_of_memory_sentence(recipe, settings, model)) from None


#: Settings that lower the memory of a step, with what to do, the least harmful first.
LESS_MEMORY = {
    "gradient_checkpointing": "--gradient-checkpointing",
    "at_once": "a smaller --at-once",
    "batch_size": "a smaller --batch-size",
    "batch": "a smaller --batch",
    "length": "a smaller --length",
    "most_tokens": "a smaller --most-tokens",
    "rank": "a smaller --rank",
}


def out_of_memory_sentence(recipe: Recipe, settings: Any, model: Model) -> str:
    """What a user can do where the memory of a device does not suffice for a recipe."""
    options = []
    for name, advice in LESS_MEMORY.items():
        value = getattr(settings, name, None)
        lower = value is False if name == "gradient_checkpointing" else (value or 0) > 1
        if lower:
            options.append(advice)
    # All weights cannot be trained in 4 bits, a LoRA on them can.
    if getattr(settings, "rank", 0) and not model.dtype.endswith("4bit"):
        options.append("--quantize 4bit")
    advice = f"give {' or '.join(options)}" if options else "use a device with more memory"
    return (
        f"The memory of {model.device} does not suffice for {recipe.name} on {model.name}; {advice}. The last "
        "checkpoint is kept, and --dry-run says what is needed."
    )


def finished(recipe: Recipe, settings: Any, model: Model, data: TrainingData, folder: Path) -> bool:
    """Whether a folder has the adapter that this command would make, with its scores before and after.

    The model and its revision, the settings, the built data and what else the recipe reads have to be the same.
    Gradient checkpointing may be another one: it changes no result, and the free memory may have turned it on.
    """
    if not _made_before(recipe, settings, model, data, folder):
        return False
    # Changes that a recipe measures itself are no evaluation.
    scored = set(benchmarks.names())
    return any(change.benchmark in scored for change in read(folder).changes)


def _made_before(recipe: Recipe, settings: Any, model: Model, data: TrainingData, folder: Path) -> Adapter | None:
    """The adapter in a folder, if it is complete and was made from this model, these settings and this data."""
    if not (folder / FACTS).is_file():
        return None
    outside = settings.inputs()
    try:
        adapter = read(folder)
        available = replace(data, versions={})  # the data of the older adapter is not recorded as read in this command
        versions, trained = {}, []
        for name in adapter.data:
            if ":" in name:
                continue  # what the settings name is compared by them
            dataset, config, split = name.split("/")
            versions[name] = available.load(dataset, config, split).version
            if (dataset, split) == (neutral.DATASET, "train"):
                trained.append(config)
        versions |= outside
        # Test splits are not read by the recipe, but what was trained on is compared with them as they are now.
        if trained:
            training_prompts(available, trained, leaked=getattr(settings, "leaked", None))
    except ScoringError:
        return None
    # Scores of the evaluation are measured anew or read from the responses; those of the recipe are its result.
    changes = tuple(change for change in adapter.changes if change.benchmark in (recipe.name, PAIRS))
    measures = {name: value for name, value in adapter.measures.items() if not name.endswith(FULL_PRECISION)}
    adapter = replace(adapter, changes=changes, measures=measures)
    same = write.describe(folder, model, recipe.name, settings, data=versions, cost=adapter.cost, measures=measures)
    # The free memory may have been another one then, which changes no result.
    then = {name: adapter.settings.get(name) for name in WITHOUT_EFFECT if name in same.settings}
    same = replace(same, changes=changes, settings={**same.settings, **then})
    if write.text(same) != write.text(adapter):
        return None
    return adapter


def evaluate_adapter(
    model: Model, evaluation: Evaluation, work: Path, name: str, errors: Console, answers: Path | None = None
) -> tuple[tuple[Change, ...], list[HeadlineChange]]:
    """The changes from the model to the model with the adapter or prompt in ``work/made``, called ``name``.

    The second value has the headlines of the comparison.

    The responses of the unchanged model are kept in ``answers``, by default in the folder of the steps.
    """
    with progress.stage(errors, "Scoring the model as it is …", bars=True):
        before = evaluation.score(model, PLAIN, work / "before", errors, answers)
        stated_before = _stated(model, evaluation, PLAIN, answers or work / "before", errors)
    with (
        progress.stage(errors, f"Scoring the model with {name} …", bars=True),
        _changed_model(model, work / "made", name) as (adapted, prompt),
    ):
        after = evaluation.score(adapted, prompt, work / "after", errors)
        stated_after = _stated(adapted, evaluation, prompt, work / "after", errors)
    tables = (before, after)
    with progress.stage(errors, "Comparing the scores before and after …"):
        if evaluation.parts:
            changes, compared = compare_runs(work / "before", work / "after", tables, model.kind, evaluation.resamples)
        else:  # nothing is built, so there are no runs to compare
            changes, compared = tuple(text_changes(*tables, model.kind, evaluation.resamples)), []
    return (*outcome.changes(stated_before, stated_after, evaluation.resamples), *changes), compared


@contextmanager
def _changed_model(model: Model, folder: Path, name: str) -> Iterator[tuple[Model, prompts.Prompt]]:
    """The model with the adapter of a folder, or with its prompt, and the prompt that it is asked with."""
    if (folder / PROMPT).is_file():
        prompt = prompts.read(folder / PROMPT)
        yield self_debias.with_prompt(model, prompt), prompt
    else:
        with temporary.attached(model, folder, name) as adapted:
            yield adapted, PLAIN


def _stated(model: Model, evaluation: Evaluation, prompt: prompts.Prompt, folder: Path, errors: Console) -> Table:
    """The answers by which a recipe is judged; those of an earlier call in the folder are reused.

    A chat model continues the same texts without its template: they are beginnings of sentences, and no questions.
    """
    if evaluation.stated is None:
        return {}
    folder = folder / "stated"
    # Several commands may share the answers of the unchanged model.
    with files.locked(folder, MitigationError, wait=True), Store(folder, answering.key(model, prompt)) as store:
        model.recognise(store)
        return outcome.answers(model, evaluation.stated, prompt, store, errors)


def held_out_losses(model: Model, work: Path, name: str, errors: Console) -> tuple[float, float, bool]:
    """The loss of ordinary text before and after the recipe in nats a token, and whether it is worse beyond chance.

    It is worse where it rises by more than :data:`WORSE`, and the interval of the difference is above 0.
    """

    def losses(asked: Model, prompt: prompts.Prompt, folder: Path) -> Table:
        place = folder / "stated"
        with files.locked(place, MitigationError, wait=True), Store(place, answering.key(asked, prompt)) as store:
            asked.recognise(store)
            return score_texts(asked, ordinary_texts(), store, errors)

    # First, because the adapter is attached to the network of the model itself.
    table_before = losses(model, PLAIN, work / "before")
    with _changed_model(model, work / "made", name) as (adapted, prompt):
        table_after = losses(adapted, prompt, work / "after")
    (change,) = text_changes(table_before, table_after, model.kind, RESAMPLES)
    before, after = math.log(change.before[0]), math.log(change.after[0])
    return before, after, after - before > WORSE and change.difference[1] > 0


def evaluate_full_precision(
    options: load_options.LoadOptions, evaluation: Evaluation, work: Path, errors: Console
) -> dict[Key, Numbers]:
    """The estimates of the unchanged model in full precision; compares them with those of the model in 4 bits.

    The model in 4 bits is no longer in memory. Where the one in full precision does not fit either, a remark says so,
    and there are no estimates.
    """
    gc.collect()  # networks refer to themselves
    torch.cuda.empty_cache()
    try:
        model = replace(options, quantize=None).load()
        texts = evaluation.score(model, prompts.PROMPTS["plain"], work / "control", errors)
    except (RuntimeError, ScoringError) as error:
        if not batching.out_of_memory(error):
            raise
        terminal.show(
            errors, [f"{options.model} in full precision does not fit into the memory, so all scores are in 4 bits."]
        )
        return {}
    report.write_comparison(work / "before", scoring.compare(work / "before", work / "control", evaluation.resamples))
    terminal.show(errors, [f"The effect of the quantization alone is in {work / 'before' / 'compare.html'}."])
    return estimates(work / "control", texts, model.kind, evaluation.resamples)


def full_precision_measures(changes: Sequence[Change], estimates: Mapping[Key, Numbers]) -> dict[str, Numbers]:
    """The estimates in full precision of the changes, named as measures of an adapter."""
    keys = [(change.benchmark, change.group, change.metric) for change in changes]
    return {f"{' '.join(key)}{FULL_PRECISION}": estimates[key] for key in keys if key in estimates}
