"""Mitigation from Python; the command ``python -m mitigation`` calls the same functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rich.console import Console

from mitigation import recipes, run
from mitigation.recipe import Recipe, resolve_settings
from mitigation.training.data import TrainingData
from scoring import DATA
from scoring.adapters.facts import Adapter
from scoring.api import engine_of, name_of, unchanged
from scoring.inference.load_options import LoadOptions
from scoring.statistics.stats import RESAMPLES

if TYPE_CHECKING:
    import pandas as pd

    from mitigation.evaluate import Evaluation
    from scoring.inference.model import Model


@dataclass(frozen=True, slots=True)
class Mitigated:
    """What a recipe made: the folder of the adapter or prompt, and its facts."""

    folder: Path
    facts: Adapter

    def table(self) -> pd.DataFrame:
        """Every score before and after over the same examples, a row each, with the paired difference and interval."""
        import pandas as pd

        rows = [
            (c.benchmark, c.group, c.metric, c.before[0], c.after[0], *c.difference, c.n) for c in self.facts.changes
        ]
        columns = ["benchmark", "group", "metric", "before", "after", "difference", "low", "high", "n"]
        return pd.DataFrame(rows, columns=columns)

    def _repr_html_(self) -> str:
        """The scores before and after as an HTML table, for notebooks."""
        from scoring.report.frames import frame_html

        return frame_html(self.table(), f"{self.facts.recipe} on {self.facts.base}: {self.folder}")


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
    benchmarks: Sequence[str] = (),
    text: str | Path | None = None,
    chat: bool = False,
    evaluate: bool = True,
    resamples: int = RESAMPLES,
    quantize: Literal["auto", "4bit", "none"] = "auto",
    include: Sequence[str | Path] = (),
    console: Console | None = None,
    **options: Any,
) -> Mitigated:
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
    quantize:
        Whether weights are loaded in 4 bits; a loaded model is used as it is.
    include:
        Python files outside the project that define a ``RECIPE``.
    console:
        Where progress and the table are shown; by default nowhere.
    options:
        Settings of the recipe by name, and options for loading, by the names in
        :class:`scoring.inference.load_options.LoadOptions`.

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
    for path in include:
        recipes.include(Path(path))
    chosen = recipes.get(recipe)
    loading = {field.name for field in fields(LoadOptions)} - {"model", "quantize"}
    load_options = {name: value for name, value in options.items() if name in loading}
    overrides = {name: value for name, value in options.items() if name not in loading}
    settings = resolve_settings(chosen, profile, Path(config) if config else None, overrides)
    rows = TrainingData(str(data), limit)
    texts = Path(text) if text else None
    evaluation = planned_evaluation(chosen, benchmarks, rows, profile, texts, chat, resamples) if evaluate else None
    console = console or Console(quiet=True)
    in_memory = not isinstance(model, (str, Path))
    name = name_of(model) if in_memory else str(model)
    folder = Path(out) if out else Path("adapters") / f"{recipe}-{Path(name).name}"
    with unchanged(model) if in_memory else nullcontext():
        made = run.mitigate(
            chosen,
            settings,
            LoadOptions(name, **load_options),
            rows,
            folder,
            evaluation,
            console,
            console,
            quantize=quantize,
            loaded=engine_of(model, tokenizer) if in_memory else None,
        )
    assert made is not None, "only the other processes of a distributed training have no result"
    return Mitigated(folder, made)


def planned_evaluation(
    recipe: Recipe,
    names: Sequence[str],
    data: TrainingData,
    profile: str,
    text: Path | None,
    chat: bool,
    resamples: int,
) -> Callable[[Model], Evaluation]:
    """A function from a model to its evaluation; the data is read now, before a model is loaded."""
    from mitigation.evaluate import Evaluation, held_out_texts
    from scoring import benchmarks
    from scoring.run import read, suited

    chosen = dict.fromkeys(names or recipe.benchmarks or benchmarks.names())
    parts = read([benchmarks.get(name) for name in chosen], data.source, profile, data.limit, named=bool(names))
    texts = held_out_texts(data, text)

    def evaluation(model: Model) -> Evaluation:
        suitable, _ = suited(parts, "chat" if chat else model.kind, model.name, named=bool(names))
        return Evaluation(tuple(suitable), texts, profile, resamples, chat)

    return evaluation
