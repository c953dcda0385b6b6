"""Measures language ability on GLUE, without and with an adapter: ``probes mitigate glue MODEL --out DIR``.

``glue.json`` in the folder (``glue-ADAPTER.json`` with an adapter) has the scores of every seed. An interrupted
measurement goes on, and every adapter that is measured in the folder is compared with the same runs of the model.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from cards.common import answer_key, files, stored, terminal, text
from cards.common.options import ended
from mitigation.ability.tasks import GlueSettings, load
from mitigation.api import built
from mitigation.recipe import Console, MitigationError, Model, ScoringError
from scoring.adapters.facts import FACTS, Change, digests, read
from scoring.inference.load_options import Device, LoadOptions, ModelName, Revision
from scoring.options import Limit

#: The tasks by default: those of the smaller ones that are classifications, from pinned files.
TASKS = "cola,mrpc,rte,wnli"


def main(
    model: ModelName,
    out: Annotated[Path, typer.Option(help="Folder of the results and of all runs; it may have those of adapters.")],
    adapter: Annotated[Path | None, typer.Option(metavar="FOLDER", help="An adapter to compare with.")] = None,
    tasks: Annotated[
        str, typer.Option(metavar="A,B", help="cola, mnli, mrpc, qnli, qqp, rte, sst2, stsb, wnli; none with ''.")
    ] = TASKS,
    limit: Limit = None,
    lm_eval: Annotated[
        str, typer.Option("--lm-eval", metavar="A,B", help="Zero-shot tasks of lm-evaluation-harness: hellaswag …")
    ] = "",
    lm_eval_path: Annotated[
        Path | None, typer.Option("--lm-eval-path", metavar="FOLDER", help="YAML files of further such tasks.")
    ] = None,
    record: Annotated[
        bool, typer.Option("--record", help="Write the changes into the facts of the adapter, for its page.")
    ] = False,
    revision: Revision = None,
    device: Device = None,
    **values: Any,
) -> None:
    """Fine-tunes MODEL on tasks of GLUE, without and with an adapter, and prints scores of the validation splits."""
    console, errors = terminal.terminal(160), Console(stderr=True)
    with ended(errors, ScoringError):
        chosen = {name: value for name, value in values.items() if value is not None}
        # Options that were not given keep the defaults of the settings.
        settings = GlueSettings(**chosen)
        options = LoadOptions(model, revision=revision, device=device)
        if record:
            if adapter is None:
                raise MitigationError(
                    "There is no adapter whose facts could be written; give --adapter, or leave out --record."
                )
            read(adapter)  # an adapter without facts is refused before the fine-tuning
        with files.locked(out, MitigationError):
            # The folder may have the results of several adapters, which share the runs of the model.
            name = f"glue-{adapter.resolve().name}.json" if adapter else "glue.json"
            files.refuse_foreign(out, [name], MitigationError)
            content, changes = measure(
                options,
                adapter,
                text.split_list(tasks),
                settings,
                out,
                errors,
                limit,
                text.split_list(lm_eval),
                lm_eval_path,
            )
            files.put_all(out, {name: stored.document(content)}, MitigationError)
        for line in _lines(content):
            terminal.show(console, [line])
        if changes:
            from mitigation.running.evaluate import changes_table  # with it comes torch

            terminal.show(
                console, [changes_table(changes).to_string(index=False, na_rep="", float_format="{:.4g}".format)]
            )
        if adapter and record:
            write_changes(adapter, changes)
        terminal.show(console, [f"The scores of every seed are in {out / name}."])


def measure(
    options: LoadOptions,
    adapter: Path | None,
    tasks: Sequence[str],
    settings: Any,
    out: Path,
    errors: Console,
    limit: int | None = None,
    harness_tasks: Sequence[str] = (),
    include: Path | None = None,
) -> tuple[dict[str, Any], tuple[Change, ...]]:
    """The content of the results file, and the changes from the model to the model with the adapter.

    Raises
    ------
    MitigationError
        If there is nothing to measure, or as :mod:`mitigation.ability`.
    """
    if not tasks and not harness_tasks:
        raise MitigationError("There is no task; give some of GLUE with --tasks or others with --lm-eval.")
    with built():
        data = load(tasks, limit)
    # Imported here, because they bring torch and transformers with them.
    from mitigation.ability import glue, zero_shot
    from mitigation.adapters.temporary import attached

    # The adapted one first, because an adapter that does not fit is refused there.
    adapted = glue.Classifiers(options, adapter) if adapter else None
    base = glue.Classifiers(options)
    content: dict[str, Any] = {
        "model": options.model,
        "revision": base.revision,
        "adapter": adapted.name if adapted else "",
        "effect": str(adapted.effect) if adapted else "",
        "limit": limit,
    }
    changes: tuple[Change, ...] = ()
    if harness_tasks:  # first, because it takes less time to fail
        model = options.load()

        def zero_shot_of(asked: Model, name: str, contents: Mapping[str, str]) -> dict[str, zero_shot.HarnessResult]:
            """The results of a model, from its file in the folder or from the harness."""
            # The key is of the unchanged model and of the files of the adapter.
            key = zero_shot.run_key(model, harness_tasks, limit, include, contents)
            path = out / "runs" / name / f"lm-eval-{answer_key.key_digest(key)[:8]}.json"
            results = zero_shot.stored(path, key)
            if results is None:
                results = zero_shot.measure(asked, harness_tasks, limit, include)
                zero_shot.store(path, key, results)
            return results

        sides = {"before": zero_shot_of(model, "base", {})}
        if adapter:
            with attached(model, adapter) as changed:
                sides["after"] = zero_shot_of(changed, adapter.resolve().name, digests(adapter))
            changes = zero_shot.changes(sides["before"], sides["after"])
        content["lm-eval"] = {}
        for side, results in sides.items():
            content["lm-eval"][side] = {task: dict(result.metrics) for task, result in results.items()}
    if data:
        before, after = glue.compare(base, adapted, data, settings, out, errors)
        content["settings"] = asdict(settings)
        content["data"] = {}
        for task_data in data:
            sizes_and_digest = [len(task_data.train), len(task_data.validation), task_data.digest]
            content["data"][task_data.task.name] = sizes_and_digest
        content["before"] = glue.facts(before)
        content["after"] = None
        if after:
            content["after"] = glue.facts(after)
            changes = glue.changes(before, after) + changes
    return content, changes


def _lines(content: dict[str, Any]) -> list[str]:
    """A line a task of the model alone: mean, standard deviation and number of seeds; and where the adapter is."""
    lines = []
    if content["effect"]:
        lines.append(content["effect"])
    if content["adapter"]:
        return lines
    for name, scores in content.get("before", {}).items():
        # One seed has no standard deviation.
        spread = ""
        if scores["sd"] is not None:
            spread = f" ± {scores['sd']:.2f} (sd of {len(scores['scores'])} seeds)"
        lines.append(f"{name:8} {scores['mean']:6.2f}{spread}")
    for task, metrics in content.get("lm-eval", {}).get("before", {}).items():
        lines += [f"{task}, {name}: {value:.4f}" for name, value in metrics.items()]
    return lines


def write_changes(adapter: Path, changes: Sequence[Change]) -> None:
    """Writes changes into the facts of an adapter, in place of earlier ones of the same benchmarks."""
    from mitigation.adapters.write import write_facts

    # An adapter may be measured several times, with other tasks or seeds.
    facts, new = read(adapter), {change.benchmark for change in changes}
    others = tuple(change for change in facts.changes if change.benchmark not in new)
    write_facts(adapter, replace(facts, changes=others + tuple(changes)))


def add_to_methods(
    folder: Path, options: LoadOptions, tasks: Sequence[str], limit: int | None, errors: Console
) -> None:
    """Measures every adapter of a folder of methods on GLUE, and writes the changes into its facts.

    The runs are in ``glue`` in the folder. What GLUE cannot measure, such as a prompt, is named and left as it is.
    """
    with files.locked(folder / "glue", MitigationError):
        for adapter in sorted(path.parent for path in folder.glob(f"*/{FACTS}")):
            try:
                _, changes = measure(options, adapter, tasks, GlueSettings(), folder / "glue", errors, limit)
                write_changes(adapter, changes)
            except ScoringError as error:
                terminal.show(errors, [f"{adapter.name}: {error}"])
