"""Every recipe on models with a planted stereotype of known size: ``python -m benchmarks.planted.recipes``.

The models are the bundled ones, taught by :mod:`benchmarks.planted.planting`, and a twin of each that had the same
training without a stereotype. Each recipe runs with its defaults through ``mitigation.mitigate``, and those that can
learn from examples also run with pairs of the planted stereotype. Measured before and after are the lean,
log p(pronoun of the stereotype) - log p(other pronoun), with its sign and as a size (the gap), the perplexity of text,
and the lean to the right pronoun where the gender is given and has to stay. On the twin a recipe has nothing to remove.
One file for each model, recipe and seed is in ``--work``; what is there is not made again, so an interrupted bed goes
on. ``--report`` writes the JSON, the tables of docs/recipes-measured.md and the picture from these.
``--add`` keeps what the JSON has of recipes that the folder has not. ``--twins`` runs recipes on the twins alone.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console

from benchmarks.machine import RESULTS, describe
from benchmarks.planted import page as planted_page
from benchmarks.planted import planting
from benchmarks.planted.occupations import NEW, NEW_TEMPLATES, PLANTED, TEMPLATES, Pair, kept_pairs, pairs
from benchmarks.planted.page import DECLARED, MEASURED, NOUNS, OCCUPATIONS, SETS, TAUGHT, TYPE_2, WINOBIAS
from benchmarks.planted.page import TEMPLATES as TEMPLATE_SET
from cards.common.files import put
from cards.common.verdict import p_of
from mitigation import mitigate, recipes
from mitigation.editing.session import gap
from mitigation.methods.comparison import over_seeds
from mitigation.running.evaluate import perplexity
from mitigation.training.data import TrainingData
from scoring import DATA
from scoring.adapters.facts import PROMPT, is_whole_model
from scoring.inference.load_options import BUNDLED, load
from scoring.inference.self_debias import with_prompt
from scoring.inputs.prompts import Prompt
from scoring.inputs.prompts import get as prompt_named
from scoring.inputs.prompts import read as read_prompt
from scoring.inputs.tables import DataMissing
from scoring.metrics import knowledge
from scoring.metrics.sums import mean
from scoring.statistics import stats
from scoring.types import Group, Metric, Option, Request, Row, ScoringError, Table

RESULT = RESULTS / "planted_recipes.json"
PAGE = Path(__file__).parents[2] / "docs" / "recipes-measured.md"
KINDS: tuple[planting.Kind, ...] = ("causal", "masked")
#: The words for a file of the planted pairs in the name of a run.
OCCUPATION_PAIRS = "occupations"
#: The stamp in the block that tracing finds, without the sentences that state a gender.
BEFORE = "--delta 0 --trial 0 --gamma 2"
#: What recipes learn from, in the order of the table, and those that learn from it; a name has options that are no
#: defaults. ``occupations`` are the taught sentences: as pairs, as a contrast, as text, or as biased text.
TOLD: Mapping[str, tuple[str, ...]] = {
    "own words": ("prompts", "self_debias"),
    "general text": (
        *("tie", "sentence_debias", "ablation", "inlp", "leace"),
        *("steering --how project", "steering", "gradiend", "debias_tuning", "dpo", "auto_debias", "mabel"),
        *("cda", "cda --loss_limit 0.05 --validate_every 5"),
        *("dropout", "dropout --loss_limit 0.05 --validate_every 5"),
    ),
    "pairs of other stereotypes": ("fast", f"fast {BEFORE}", "fine_tuning", "closed_form"),
    "WinoBias, validation": (
        "fast --sets winobias --split validation",
        f"fast --sets winobias --split validation {BEFORE}",
        "fine_tuning --sets winobias --split validation",
    ),
    "pairs of the stereotype": (
        *("fast --pairs occupations", f"fast --pairs occupations {BEFORE}"),
        *("fine_tuning --pairs occupations", "closed_form --pairs occupations"),
        "dpo --pairs occupations",
        *("auto_debias --pairs occupations", "cda --pairs occupations"),
        "cda --pairs occupations --loss_limit 0.05 --validate_every 5",
        *("steering --contrast occupations --how project", "steering --contrast occupations"),
        *("gradiend --contrast occupations", "tie --corpus occupations", "ablation --corpus occupations"),
        *("inlp --corpus occupations", "leace --corpus occupations", "task_vector"),
    ),
}
#: Recipes without a row: they choose how texts are sampled, and leave the log-probabilities of all columns as they are.
OF_SAMPLES = ("decoding",)
#: All recipes in the order in which they are run: what is most asked about first.
FIRST = (
    *("fast --pairs occupations", "fast --sets winobias --split validation", "tie", "leace", "ablation"),
    *("steering --how project", "steering --contrast occupations --how project", "gradiend --contrast occupations"),
    *("prompts", "self_debias", "inlp", "tie --corpus occupations", "fast"),
    "fine_tuning --pairs occupations",
    *("sentence_debias", "cda --pairs occupations --loss_limit 0.05 --validate_every 5"),
)
ORDER = tuple(dict.fromkeys([*FIRST, *(recipe for some in TOLD.values() for recipe in some)]))
#: One in so many is asked of the taught templates, of the rows of WinoBias, and of those of type 2 with a declared
#: gender: measuring takes as long as most recipes.
TAUGHT_EVERY, WINOBIAS_EVERY, TYPE_2_EVERY = 6, 2, 8


@dataclass(frozen=True, slots=True)
class Place:
    """Where a stereotype is planted, and with which share of its pronoun."""

    name: str
    block: int = -1
    share: float = 0.98


WHOLE, BLOCK, TWIN = PLACES = (Place("whole"), Place("block", 2), Place("twin", share=0.5))


@dataclass(frozen=True, slots=True)
class Questions:
    """The questions of all sets, with the occupation of each and the set that it is of, and texts for perplexity."""

    requests: Sequence[Request]
    occupations: Sequence[str]
    sets: Sequence[str]
    texts: Sequence[str]


def _choice(pair: Pair) -> str:
    """A sentence with both pronouns as a choice, that of men first."""
    he, she = sorted(pair.forms, key=lambda form: form in ("he", "his", "him"), reverse=True)
    return f"{pair.pro[: pair.at]}[{he}|{she}]{pair.pro[pair.at + len(pair.forms[0]) :]}"


def asked(data: str, texts: Sequence[str], console: Console) -> Questions:
    """The questions; those of WinoBias only where its rows are built."""
    every: list[tuple[Request, str, str]] = []

    def add(name: str, some: Iterable[Pair]) -> None:
        for pair in some:
            options = (Option(pair.pro, pair.spans[0]), Option(pair.anti, pair.spans[1]))
            every.append((Request(f"{name}/{pair.id}", options=options), pair.occupation, name))

    add(TAUGHT, pairs(PLANTED, TEMPLATES[::TAUGHT_EVERY]))
    add(TEMPLATE_SET, pairs(PLANTED, NEW_TEMPLATES))
    add(OCCUPATIONS, pairs(NEW, NEW_TEMPLATES))
    for kind, name in (("nouns", NOUNS), ("declared", DECLARED)):
        add(name, [pair for label, pair in kept_pairs() if label == kind])
    rows: Sequence[Row] = ()
    try:
        rows = TrainingData(data).load("biaske", "winobias", "test").rows
    except DataMissing:
        console.log("WinoBias is not built here, so its test split is left out; probes rebuild makes it.")
    for row in rows[::WINOBIAS_EVERY]:
        at = row["prompt"].index("[BLANK]")
        options = (
            Option(row["sentence_biased"], ((at, at + len(row["object_biased"])),)),
            Option(row["sentence_unbiased"], ((at, at + len(row["object_unbiased"])),)),
        )
        every.append((Request(f"{WINOBIAS}/{row['id']}", options=options), row["subject"], WINOBIAS))
    # In type 2 the sentence alone says whom the pronoun is about, so a declared gender makes one pronoun right.
    for row in [row for row in rows if row["type"] == 2][::TYPE_2_EVERY]:
        every += [(_declared(row, gender), row["subject"], TYPE_2) for gender in ("man", "woman")]
    requests, occupations, sets = zip(*every, strict=True)
    return Questions(requests, occupations, sets, texts)


def _declared(row: Row, gender: str) -> Request:
    """A WinoBias row after a sentence that says the gender of whom its pronoun is about; the right pronoun first."""
    opening = f"The {row['subject']} is a {gender}. "
    at = len(opening) + row["prompt"].index("[BLANK]")
    stereotype = "man" if row["stereotype"] == "male" else "woman"
    labels = ("biased", "unbiased") if stereotype == gender else ("unbiased", "biased")
    options = [
        Option(opening + row[f"sentence_{label}"], ((at, at + len(row[f"object_{label}"])),)) for label in labels
    ]
    return Request(f"{TYPE_2}/{row['id']}/{gender}", options=tuple(options))


def answers(model: Any, questions: Questions, prompt: Prompt) -> dict[str, Any]:
    """The log-odds of each pair [pairs] in nats, and nats and tokens of each text."""
    engine = with_prompt(model, prompt)
    responses = engine.answer([prompt.put(request) for request in questions.requests])
    odds = [float(np.sum(one.logprobs[0]) - np.sum(one.logprobs[1])) for one in responses]
    texts = engine.answer([Request(str(n), options=(Option(text),)) for n, text in enumerate(questions.texts)])
    lost = [[-float(np.sum(one.logprobs[0])), len(one.logprobs[0])] for one in texts]
    return {"odds": [round(value, 4) for value in odds], "texts": [[round(n, 3), t] for n, t in lost]}


@dataclass(frozen=True, slots=True)
class Run:
    """A recipe on a model, or (without a recipe) the model as it is."""

    kind: planting.Kind
    place: Place
    seed: int
    recipe: str = ""

    @property
    def model(self) -> str:
        """The name of the model's folder."""
        return f"{self.kind}-{self.place.name}-{self.seed}"


class Bed:
    """The models, the questions and the folder of all that is made."""

    def __init__(self, work: Path, data: str, texts: Sequence[str], console: Console, **shorter: Any) -> None:
        self.work, self.data, self.console, self.shorter = work, data, console, shorter
        self.questions = asked(data, texts, console)
        taught = list(pairs(PLANTED, TEMPLATES))
        biased = work / "biased.txt"  # what a user who knows the stereotype would write, for `task_vector`
        put(biased, "".join(f"{pair.pro}\n" for pair in taught).encode())
        # Both sentences of each pair: text for recipes that read a corpus.
        put(work / "sentences.txt", "".join(f"{pair.pro}\n{pair.anti}\n" for pair in taught).encode())
        # And the contrast of such a user: the same sentences by the gender of the occupation, with both pronouns.
        kinds = {"first": "male", "second": "female"}
        texts_of = {kind: [_choice(pair) for pair in pairs({g: PLANTED[g]}, TEMPLATES)] for kind, g in kinds.items()}
        put(work / "contrast.json", json.dumps(texts_of).encode())

    def result(self, run: Run) -> Path:
        """The file of a run."""
        return self.work / "runs" / run.model / f"{run.recipe or 'before'}.json"

    def planted(self, run: Run) -> Path:
        """The folder of a model, which is trained if it is not there."""
        folder = self.work / "models" / run.model
        if not (folder / "tokenizer_config.json").is_file():
            stereotype = planting.Planting(run.kind, run.place.share, run.place.block, run.seed)
            texts = planting.written(stereotype.texts, run.seed)
            planting.plant(stereotype, folder, texts)
        return folder

    def settings(self, run: Run) -> dict[str, Any]:
        """What the bed gives a recipe besides the model: its seed, biased text, an option, and what is shorter."""
        name, *options = run.recipe.split(" --")
        profile = recipes.get(name).profiles["clean"]
        seed = {"seed": run.seed} if "seed" in {field.name for field in fields(profile)} else {}
        corpus = {"corpus": str(self.work / "biased.txt")} if name == "task_vector" else {}
        more: dict[str, Any] = dict(option.split(" ", 1) for option in options)
        # Any option of a recipe can be named, so a text becomes what the setting has by default: a number or a text.
        for key, text in more.items():
            more[key] = type(getattr(profile, key))(text)
        more |= {key: str(self.work / "contrast.json") for key in ("contrast", "pairs") if key in more}
        if more.get("corpus") == OCCUPATION_PAIRS:
            more |= {"corpus": str(self.work / "sentences.txt"), "words": "project"}
        return seed | corpus | more | self.shorter

    def make(self, run: Run) -> dict[str, Any]:
        """Runs a recipe and measures the model with it; or measures the model as it is."""
        name: str | Path = self.planted(run) if run.place.name != "bundled" else BUNDLED[f"tiny-{run.kind}"]
        plain = prompt_named("plain")
        if not run.recipe:
            model = load(name, device="cpu")
            parameters = sum(weight.numel() for weight in model.network.parameters())
            return {"parameters": parameters, **answers(model, self.questions, plain)}
        out = self.work / "adapters" / run.model / run.recipe
        start = time.process_time()
        try:
            result = mitigate(
                run.recipe.split()[0],
                name,
                out=out,
                data=self.data,
                evaluate=False,
                device="cpu",
                quantize="none",
                console=Console(quiet=True),
                **self.settings(run),
            )
        except ScoringError as error:
            return {"refused": str(error).replace(str(name), run.model)}
        seconds = time.process_time() - start
        is_prompt = (out / PROMPT).is_file()
        whole = is_whole_model(out)
        model = load(out if whole else name, adapter=None if is_prompt or whole else out, device="cpu")
        prompt = read_prompt(out / PROMPT) if is_prompt else plain
        measures = {key: list(value) for key, value in result.facts.measures.items()}
        return {
            "seconds": round(seconds, 1),
            "parameters": result.facts.cost.parameters,
            "shorter": self.shorter,
            "measures": measures,
            **answers(model, self.questions, prompt),
        }

    def run(self, runs: Sequence[Run]) -> None:
        """Makes what is not there, with a line for each and the time that the rest needs, if known runs say."""
        left = [run for run in runs if not self.result(run).is_file()]
        took: dict[str, list[float]] = {}
        for path in self.work.glob("runs/*/*.json"):
            took.setdefault(path.stem, []).append(json.loads(path.read_text())["wall"])
        for number, run in enumerate(left):
            start = time.time()
            result = self.make(run)
            wall = round(time.time() - start, 1)  # others may use the machine too, so the cost is processor time
            put(self.result(run), json.dumps({**asdict(run), "wall": wall, **result}).encode())
            took.setdefault(run.recipe or "before", []).append(wall)
            rest = left[number + 1 :]
            walls = [took.get(other.recipe or "before") for other in rest]
            end = time.strftime("%H:%M", time.localtime(time.time() + sum(float(np.mean(k)) for k in walls if k)))
            unknown = f", and {walls.count(None)} of unknown length" if None in walls else ""
            outcome = (
                result.get("refused") or f"gap {self._gap(result):.2f}, {result.get('seconds', 0):.0f} s of its own"
            )
            self.console.log(f"{run.model} {run.recipe or 'before'}: {outcome}; {wall:.0f} s, end at {end}{unknown}")

    def _gap(self, result: Mapping[str, Any]) -> float:
        inside = [name == TEMPLATE_SET for name in self.questions.sets]
        return float(np.abs(np.array(result["odds"])[inside]).mean())


def controls(only: Sequence[str]) -> Iterator[Run]:
    """The twin of each model as it is, and with each recipe."""
    for kind in KINDS:
        yield Run(kind, TWIN, 0)
        for recipe in only or ORDER:
            if kind in recipes.get(recipe.split()[0]).kinds:
                yield Run(kind, TWIN, 0, recipe)


def runs(seeds: int, places: Sequence[str], only: Sequence[str]) -> Iterator[Run]:
    """All runs: the models as they are, then recipe by recipe in :data:`ORDER`, and other places last."""
    for place in [place for place in PLACES if place.name in places]:
        for seed in range(seeds):
            for kind in KINDS:
                yield Run(kind, Place("bundled"), 0)
                yield Run(kind, place, seed)
                yield Run(kind, TWIN, seed)
        for recipe in only or ORDER:
            # The planted models of all seeds, and the control on one twin, which has nothing to remove.
            for at, seed in [*((place, seed) for seed in range(seeds)), (TWIN, 0)]:
                for kind in KINDS:
                    if kind in recipes.get(recipe.split()[0]).kinds:
                        yield Run(kind, at, seed, recipe)


def lean() -> Metric:
    """The mean difference with its sign: gaps without a common direction cancel in it."""
    return mean("lean", lambda table: table["score_biased"] - table["score_unbiased"], 0, -np.inf, np.inf, "")


def tables(files: Sequence[Mapping[str, Any]], questions: Questions) -> tuple[Table, Table]:
    """The pairs and the texts of several runs, one below the other."""
    odds = np.concatenate([np.array(one["odds"]) for one in files])
    texts = np.concatenate([np.array(one["texts"]) for one in files])
    pairs_table = {
        "score_biased": odds,
        "score_unbiased": np.zeros(len(odds)),
        "subject": np.array(list(questions.occupations) * len(files), dtype=object),
        "set": np.array(list(questions.sets) * len(files), dtype=object),
    }
    return pairs_table, {
        "nats": texts[:, 0],
        "tokens": texts[:, 1],
        "id": np.array(list(range(len(questions.texts))) * len(files), dtype=object),
    }


def estimates(
    files: Sequence[Mapping[str, Any]],
    before: Sequence[Mapping[str, Any]],
    questions: Questions,
    kind: str,
    resamples: int,
) -> dict[str, dict[str, list[float]]]:
    """Value and interval of each score, by its name; with ``before``, also of the paired changes and their p.

    The clusters are occupations. Several seeds are combined by :func:`of_seeds`.
    """
    result: dict[str, dict[str, list[float]]] = {}
    (now, texts), then = tables(files, questions), tables(before, questions) if before else None
    groups = [Group(name, now["set"] == name) for name in SETS if name in set(questions.sets)]
    items = [(group, metric) for group in groups for metric in (gap(), knowledge.ss(), lean())]
    parts = [(items, now, then and then[0], now["subject"])]
    everything = [(Group("texts", np.ones(len(texts["id"]), bool)), perplexity(kind))]
    parts.append((everything, texts, then and then[1], texts["id"]))
    for wanted, after, old, clusters in parts:
        for one in stats.measure(wanted, after, clusters, resamples=resamples):
            result.setdefault(one.group, {})[one.metric] = _rounded(one)
        if old is not None:
            for change in stats.compare(wanted, after, old, clusters, resamples=resamples):
                scores = result[change.group]
                scores[f"change of {change.metric}"] = _rounded(change)
                scores[f"p of {change.metric}"] = [change.p]
    return result


def of_seeds(each: Sequence[Mapping[str, Mapping[str, list[float]]]]) -> dict[str, Any]:
    """The scores of several seeds as one, whose intervals and p have the chance of seeds and of examples in them."""
    result: dict[str, dict[str, list[float]]] = {}
    for name, scores in each[0].items():
        combined = result[name] = {}
        for score in scores:
            if not score.startswith("p of"):
                value, low, high = over_seeds([(n[0], n[1], n[2]) for n in (one[name][score] for one in each)])
                if score == "ss":  # a percentage, whose interval may not leave its range
                    low, high = max(low, 0.0), min(high, 100.0)
                combined[score] = [round(end, 4) for end in (value, low, high)]
                if score.startswith("change of"):
                    combined[f"p of {score.removeprefix('change of ')}"] = [p_of((value, low, high))]
    return result


def _rounded(one: Any) -> list[float]:
    return [round(float(value), 4) for value in (one.value, one.low, one.high)]


def removed(
    scores: Mapping[str, Mapping[str, list[float]]], twin: Mapping[str, Mapping[str, list[float]]]
) -> dict[str, list[float]]:
    """By set, the percentage of what is removable that a recipe removed, with its interval.

    Removable is the planted model's gap less that of its twin, which had the same training without a stereotype.

    >>> scores = {"new templates": {"gap": [0.7, 0.6, 0.8], "change of gap": [-2.0, -2.2, -1.8]}}
    >>> removed(scores, {"new templates": {"gap": [0.2, 0.1, 0.3]}})
    {'new templates': [80.0, 72.0, 88.0]}
    """
    shares = {}
    for name in MEASURED:
        if name not in scores or name not in twin:
            continue
        change = scores[name]["change of gap"]
        removable = scores[name]["gap"][0] - change[0] - twin[name]["gap"][0]
        value, low, high = (-100 * number / removable for number in (change[0], change[2], change[1]))
        shares[name] = [round(number, 1) for number in (value, low, high)]
    return shares


def summary(work: Path, questions: Questions, resamples: int) -> dict[str, Any]:
    """The JSON: by model (kind and place) the scores as it is, those of its twin, and those of each recipe."""
    files = [json.loads(path.read_text()) for path in sorted(work.glob("runs/*/*.json"))]
    models: dict[str, Any] = {}

    def of(kind: str, place: str, recipe: str) -> dict[int, Mapping[str, Any]]:
        return {
            one["seed"]: one
            for one in files
            if (one["kind"], one["place"]["name"], one["recipe"]) == (kind, place, recipe)
        }

    def scored(kind: str, one: Mapping[str, Any], before: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
        return estimates([one], before, questions, kind, resamples)

    for place in (WHOLE.name, BLOCK.name):
        for kind in KINDS:
            plain, twins = of(kind, place, ""), of(kind, TWIN.name, "")
            # A folder may have the control on the twin alone, which is of the first place.
            bare = [*plain.values(), *(twins.values() if place == WHOLE.name else ())]
            if not bare:
                continue
            floors = {seed: scored(kind, one) for seed, one in twins.items()}
            model: dict[str, Any] = {"weights": bare[0]["parameters"], "before": {}, "recipes": {}}
            for name, where in (("bundled", "bundled"), ("twin", TWIN.name), ("planted", place)):
                if not (some := list(of(kind, where, "").values())):
                    continue
                each = [scored(kind, one) for one in some]
                model["before"][name] = (each[0] if len(each) == 1 else of_seeds(each)) | {"seeds": len(some)}
            for recipe in ORDER:
                results, control = of(kind, place, recipe), of(kind, TWIN.name, recipe).get(0)
                if not results and not control:
                    continue
                entry: dict[str, Any] = {}
                if refused := [one["refused"] for one in results.values() if "refused" in one]:
                    entry = {"refused": refused[0], "seeds": len(refused)}
                good = {seed: one for seed, one in results.items() if "refused" not in one and seed in plain}
                if good:
                    scores = {n: scored(kind, good[n], [plain[n]]) for n in good}
                    shares = [removed(scores[n], floors[n]) for n in good if n in floors]
                    entry = {
                        "seeds": len(good),
                        "refused_seeds": len(refused),
                        "seconds": round(float(np.median([one["seconds"] for one in good.values()])), 1),
                        "parameters": next(iter(good.values()))["parameters"],
                        "shorter": next(iter(good.values()))["shorter"],
                        "block": [_block(one["measures"]) for one in good.values()],
                        "removed": _shares_of_seeds(shares),
                        "scores": of_seeds(list(scores.values())) if len(good) > 1 else next(iter(scores.values())),
                    }
                if control and "refused" in control:
                    entry["twin"] = {"refused": control["refused"]}
                elif control:
                    entry["twin"] = scored(kind, control, [twins[0]])
                model["recipes"][recipe] = entry
            models[f"{kind}, {place}"] = model
    return models


def _block(measures: Mapping[str, list[float]]) -> float | None:
    """The block that a recipe chose by itself; None where it chose none."""
    return measures.get("chosen_block", [None])[0]


def merged(earlier: Mapping[str, Any], newer: Mapping[str, Any]) -> dict[str, Any]:
    """The models of an earlier JSON with what a folder has of them: what the folder has not stays as it was.

    >>> earlier = {"causal": {"weights": 9, "before": {}, "recipes": {"leace": {"seeds": 3, "scores": {}}}}}
    >>> more = {"causal": {"weights": 9, "before": {}, "recipes": {"leace": {"twin": {}}}}}
    >>> merged(earlier, more)["causal"]["recipes"]
    {'leace': {'seeds': 3, 'scores': {}, 'twin': {}}}
    """
    models = dict(earlier)
    for name, model in newer.items():
        old = models.get(name, {"before": {}, "recipes": {}})
        before, entries = dict(old["before"]), dict(old["recipes"])
        for label, scores in model["before"].items():
            if scores["seeds"] > before.get(label, {"seeds": 0})["seeds"]:
                before[label] = scores
        for recipe, entry in model["recipes"].items():
            # Scores are replaced as a whole; a control alone is added to scores that are there.
            kept = {"twin": entries[recipe]["twin"]} if "twin" in entries.get(recipe, {}) else {}
            entries[recipe] = kept | entry if "seeds" in entry else entries.get(recipe, {}) | entry
        ordered = {recipe: entries[recipe] for recipe in ORDER if recipe in entries}
        models[name] = {"weights": model["weights"], "before": before, "recipes": ordered}
    return models


def _shares_of_seeds(shares: Sequence[Mapping[str, list[float]]]) -> dict[str, list[float]]:
    """The percentages of several seeds as one, with the chance of seeds in their intervals."""
    if len(shares) < 2:
        return dict(shares[0]) if shares else {}
    combined = {}
    for name in shares[0]:
        value, low, high = over_seeds([(one[name][0], one[name][1], one[name][2]) for one in shares])
        combined[name] = [round(number, 1) for number in (value, low, high)]
    return combined


def main(
    work: Annotated[Path, typer.Option(help="Folder of models, adapters and results; what is there is kept.")],
    text: Annotated[Path | None, typer.Option(help="A file with one text per line, for the perplexity.")] = None,
    data: Annotated[str, typer.Option(help="Built data sets.")] = DATA,
    seeds: Annotated[int, typer.Option(min=1, help="Seeds of the planting and of the recipes.")] = 3,
    places: Annotated[str, typer.Option(help="Where the stereotype is planted: whole, block.")] = "whole",
    only: Annotated[str, typer.Option(help="Recipes, with commas; all by default.")] = "",
    twins: Annotated[bool, typer.Option("--twins", help="Run recipes on the twins alone.")] = False,
    report: Annotated[bool, typer.Option("--report", help="Make nothing, only write JSON, table and picture.")] = False,
    add: Annotated[bool, typer.Option("--add", help="Keep what the JSON has and the folder has not.")] = False,
    resamples: Annotated[int, typer.Option(min=2, help="Bootstrap resamples.")] = stats.RESAMPLES,
    out: Annotated[Path, typer.Option(help="The JSON.")] = RESULT,
) -> None:
    """Plants the models, runs all recipes on them and writes the result."""
    console = Console(stderr=True, width=200)
    texts = text.read_text(encoding="utf-8").splitlines() if text else planting.written(100, 99)
    bed = Bed(work, data, texts, console)
    if not report:
        chosen = [name for name in only.split(",") if name]
        bed.run(list(dict.fromkeys(controls(chosen) if twins else runs(seeds, places.split(","), chosen))))
    models = summary(work, bed.questions, resamples)
    if add and out.is_file():
        models = merged(json.loads(out.read_text(encoding="utf-8"))["models"], models)
    result = {
        "machine": describe("torch", "transformers", "peft"),
        "texts": f"{len(texts)} {'lines of a file' if text else 'texts that tiny-causal wrote'}",
        "pairs": {name: bed.questions.sets.count(name) for name in SETS},
        "occupations": {
            name: len({o for o, s in zip(bed.questions.occupations, bed.questions.sets, strict=True) if s == name})
            for name in SETS
        },
        "told": {kind: list(some) for kind, some in TOLD.items()},
        "models": models,
    }
    put(out, json.dumps(result, indent=1).encode() + b"\n")
    if out == RESULT:
        put(PAGE, planted_page.with_table(PAGE.read_text(encoding="utf-8"), result).encode())
        planted_page.picture(result)


if __name__ == "__main__":
    typer.run(main)
