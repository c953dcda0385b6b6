"""What commands and pages say of drawn runs, by a label, and for each sentence a label with it and one without."""

import io
import json
import math
import re
from dataclasses import replace
from html import unescape
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

from cards import leaderboard
from cards.adapter_card import RecipeFacts, adapter_card
from cards.common.sentences import SENTENCES, say
from cards.common.text import CardError
from cards.formats.evaluation import published_results
from cards.leaderboard import Collected, Entry, left_out
from cards.model_card import section
from cards.results import UNPUBLISHED, Language, Upload
from mitigation.methods.comparison import Method, to_remove
from mitigation.methods.comparison_page import page as methods_page
from scoring import benchmarks
from scoring.asking import rank_agreement
from scoring.commands.compare import show_comparison
from scoring.commands.power import app as power
from scoring.commands.score import show_run
from scoring.inputs.corpus_counts import Leans
from scoring.report import summary, terminal
from scoring.report.comparison import comparison_page
from scoring.report.conditions import failing, holding, parsed
from scoring.report.context import next_steps
from scoring.report.headlines import answer_of, headline_scores
from scoring.report.page import page
from scoring.report.plots import figures
from scoring.report.plots.corpus import follows
from scoring.responses import gifi_friend
from scoring.types import BY_OTHERS
from scoring.uploads import DECLARATIONS
from tests.cards.made import DIGEST, PROBES, RUN, manifest
from tests.mitigation.made_methods import METHODS, table_of
from tests.mitigation.made_methods import adapter as methods_made
from tests.scoring.made_runs import made_comparison, made_run, score

SPEAKS, AT_CHANCE = Language(40, 5.0, 7.0, 1e-9, 0.95, 1e-9), Language(40, 7.9, 5.2, 1.0, 0.525, 0.4)
#: Runs by the step that each is offered last.
STEPS = {
    "next.other": {"environment": {"engine": BY_OTHERS, "source": "gest"}},
    "next.real": {"model": "tiny-causal"},
    "next.base": {"adapter": "org/tuned"},
    "next.mitigate": {},
    "next.beside": {"headlines": {}},
}
LACKING = {"data lacking": ["unstereo/ours-5/test"]}
PART = {"biaske/winobias/test": "1.1.0 sha256:aa, 20 of 40 rows"}


def printed(*parts):
    """What a wide terminal shows of tables and lines."""
    file = io.StringIO()
    console = Console(file=file, width=400, color_system=None)
    for part in parts:
        console.print(part)
    return " ".join(file.getvalue().split())


def words(html):
    """The text of a page, commands between backticks."""
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", re.sub(r"</?code>", "`", html))).split())


def rows(run):
    return " ".join(row.sentence for row in headline_scores(run))


def sides(run):
    return "; ".join(row.leaning for row in headline_scores(run))


def reasons(run):
    return "; ".join(row.why for row in headline_scores(run))


def all_with(run, **changes):
    """A run whose scores all have these values."""
    return replace(run, estimates=tuple(replace(e, **changes) for e in run.estimates))


def without_answers(run):
    """A run of a model that gives the answer words 1.5 % of the probability."""
    low = {"value": 1.5, "low": 1.0, "high": 2.0}
    estimates = [replace(e, **low) if e.metric == "answer_mass" else e for e in run.estimates]
    return replace(run, estimates=tuple(estimates))


def of(run, *names):
    """A run with these benchmarks alone."""
    return replace(run, estimates=tuple(e for e in run.estimates if e.benchmark in names))


def unanswered(run, name, **shares):
    """A run with percentages of answers of a benchmark that name no option."""
    added = []
    for e in of(run, name).estimates[:1]:
        for kind, share in shares.items():
            added.append(replace(e, metric=kind, value=share, ideal=None, group=run.headlines[name].shown or e.group))
    return replace(run, estimates=(*run.estimates, *added))


def only(compared, name, metric):
    """A comparison of one metric."""
    differences = tuple(d for d in compared.differences if (d.benchmark, d.metric) == (name, metric))
    return replace(compared, differences=differences, run=of(compared.run, name), base=of(compared.base, name))


def changed(compared, **changes):
    return replace(compared, differences=tuple(replace(d, **changes) for d in compared.differences))


def verdicts(compared):
    """The verdicts in words of the page of a comparison, without its notes."""
    return "; ".join(re.findall(r'<span class="verdict[^"]*">([^<]*)</span>', comparison_page(compared)))


def benchmarks_that_say(text):
    """The benchmarks whose rows have a sentence."""
    names = set()
    for name in benchmarks.names():
        headline = benchmarks.get(name).headline
        if headline and text in (headline.sentence, headline.unclear, headline.side):
            names.add(name)
    return names


def of_rows():
    """What rows of reports say: far from the ideal, at the ideal, undefined, and without each benchmark."""
    far, middle = made_run(0.3), made_run(0.5)
    asked = gifi_friend.asked(benchmarks.get("neutral"))
    of_friends = tuple(score("neutral", asked.headline.shown, metric, 0.3) for metric in asked.metrics("clean"))
    without_ideal = next(e for e in far.estimates if e.ideal is None)
    best = next(e for e in far.estimates if e.ideal == e.most)
    undefined = tuple(replace(e, value=math.nan, why="no rows") for e in far.estimates)
    texts = {
        "rows": rows(far),
        "rows at the ideal": rows(middle),
        "rows of friends": rows(replace(far, estimates=of_friends, headlines={"neutral": asked.headline})),
        "rows without an ideal": rows(replace(far, estimates=(without_ideal,), headlines={})),
        "rows of crows_pairs": rows(of(far, "crows_pairs")),
        "rows undefined": rows(replace(far, estimates=undefined)),
        "rows with a p": rows(all_with(far, p=1e-9)),
        "rows of a best value": rows(replace(far, estimates=(best,), headlines={})),
        "rows with refusals": rows(unanswered(far, "crows_pairs", refused=20.0)),
        "silent rows": rows(unanswered(far, "crows_pairs", empty=60.0)),
        "silent sides": sides(unanswered(far, "crows_pairs", empty=60.0)),
        "answer of a silent run": answer_of(unanswered(far, "crows_pairs", empty=60.0)),
        "answer": answer_of(far),
        "rows without answers": rows(without_answers(far)),
        "reasons": reasons(far),
        "reasons at the ideal": reasons(middle),
        "reasons without answers": reasons(without_answers(far)),
        "reasons without the group": reasons(
            replace(far, estimates=tuple(e for e in far.estimates if e.group == "others"))
        ),
        "reasons of few clusters": reasons(all_with(far, clusters=5)),
        "reasons without intervals": reasons(all_with(far, low=math.nan, high=math.nan)),
        "reasons of many rows": reasons(all_with(far, p=0.04)),
        "sides": sides(far),
        "sides at the ideal": sides(middle),
        "sides at chance": sides(replace(far, language=AT_CHANCE)),
    }
    for name in SENTENCES:
        if name.startswith("row."):
            named = benchmarks_that_say(SENTENCES[name].text)
            texts[f"without {name}"] = rows(of(far, *(set(benchmarks.names()) - named)))
    return texts


def of_reports(folder):
    """What the page of a run and the terminal say."""
    run, empty = made_run(), made_run(estimates=(), headlines={})
    detected = replace(run, estimates=tuple(replace(e, detectable=0.2, icc=0.1) for e in run.estimates))
    lone = replace(run, data=PART, estimates=tuple(replace(e, clusters=1) for e in run.estimates))
    pairs = {"score_biased": [1.0], "score_unbiased": [0.0], "sentence_biased": ["a b"], "sentence_unbiased": ["a c"]}
    about = {"config": ["winobias"], "domain": ["gender"], "subject": ["cook"], "id": ["x"]}
    table = {name: np.array(values) for name, values in {**pairs, **about}.items()}
    speed = {"load_seconds": 1.0, "tokens_per_second": 900.0, "seconds": 2.0, "padding_share": 0.1, "shared_share": 0.2}
    used, stored = replace(run, speed=speed), replace(run, speed=speed | {"tokens_per_second": 0.0})
    shown = io.StringIO()
    few = {"gender_class": np.array(["female"] * 3), "text": np.array(["she sings"] * 3, dtype=object)}
    many = {"gender_class": np.array(["female"] * 2), "text": np.array(["she sings", "she cooks"], dtype=object)}
    result = SimpleNamespace(report=used, remarks=[], validity={}, tables={"neutral": few})
    show_run(result, folder, Console(file=shown, width=400))
    causal = {"response key": {"kind": "causal"}}
    placed = made_run(prompt="plain", adapter="", profile="paper", environment=causal)
    same = tuple(replace(score, n=7130) for score in placed.estimates if score.benchmark == "gest")
    texts = {
        "page": words(page(run, {}, {})),
        "empty page": words(page(empty, {}, {})),
        "page among real models": words(page(placed, {}, {})),
        "page of the question of real models": words(page(replace(placed, estimates=same), {}, {})),
        "page that lacks data": words(page(made_run(environment=LACKING), {}, {})),
        "page of a part": words(page(made_run(data=PART), {}, {})),
        "page of lone clusters": words(page(lone, {}, {})),
        "page of a prompt": words(page(made_run(prompt="instruction"), {}, {})),
        "page beside another": words(page(run, {}, {}, (), [made_run(model="org/other")])),
        "page with examples": words(page(run, {"biaske": table}, {})),
        "page of few texts": words(page(of(run, "neutral"), {"neutral": few}, {})),
        "page of many texts": words(page(of(run, "neutral"), {"neutral": many}, {})),
        "page of one text": words(page(run, {}, {"stereoset": "Means.", "crows_pairs": "Means."})),
        "page of two texts": words(page(run, {}, {"stereoset": "Means.", "crows_pairs": "Means more."})),
        "page with effects": words(page(detected, {}, {})),
        "page of a model that speaks": words(page(made_run(language=SPEAKS), {}, {})),
        "page of a model at chance": words(page(made_run(language=AT_CHANCE), {}, {})),
        "steps": " ".join(next_steps(run, "folder")),
        "terminal": printed(terminal.summary(run, 400)),
        "summary": summary.markdown(run),
        "summary of no side": summary.markdown(of(run, "crows_pairs_modified")),
        "table for a paper": summary.latex(run, {}),
        "terminal at the ideal": printed(terminal.summary(made_run(0.5), 400)),
        "terminal without answers": printed(terminal.summary(without_answers(run), 400)),
        "terminal of sides": printed(terminal.summary(of(run, "stereoset"), 400)),
        "terminal with effects": printed(terminal.summary(detected, 400)),
        "details with effects": printed(terminal.details("stereoset", detected)),
        "data": " ".join(terminal.want(["unstereo/ours-5/test"], "output")),
        "all data": " ".join(terminal.want([], "output")),
        "speed": terminal.speed(used),
        "speed of stored responses": terminal.speed(stored),
        "command of a run": " ".join(shown.getvalue().split()),
    }
    for name, changes in STEPS.items():
        texts[name] = words(page(made_run(**changes), {}, {}))
    return texts


def of_comparisons(folder):
    """What the page of a comparison and the terminal say."""
    made = made_comparison()
    bare, untested = replace(made, differences=()), changed(made, p=math.nan)
    identical = changed(made, method="identical", value=0.0, p=1.0)
    effects = changed(made, error=0.5, freedom=59.0)
    few = replace(made, differences=tuple(d for d in made.differences if not d.ability))
    chance = replace(made, base=replace(made.base, language=AT_CHANCE))
    pairs = only(made_comparison(0.3, 0.45), "crows_pairs", "ss")
    back = only(made_comparison(0.45, 0.3), "crows_pairs", "ss")
    ability, loss = (only(made_comparison(*ends), "stereoset", "lms") for ends in ((0.3, 0.45), (0.45, 0.3)))
    file = io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("scoring.api.compare", lambda *_: made)
        show_comparison(folder, folder, folder, 1, Console(file=file, width=400), verbose=False)
    limits = made.run
    (pair,) = [e for e in limits.estimates if (e.benchmark, e.group, e.metric) == ("crows_pairs", "all", "ss")]
    ways = replace(limits, estimates=tuple(replace(pair, metric=f"{way}_side") for way in ("likelihood", "choice")))
    undefined = tuple(replace(e, value=math.nan) for e in limits.estimates)
    return {
        "comparison": words(comparison_page(made)),
        "bare comparison": words(comparison_page(bare)),
        "untested comparison": words(comparison_page(untested)),
        "two runs": printed(*terminal.comparison(made)),
        "two runs verbose": printed(*terminal.comparison(made, verbose=True)),
        "two runs identical": printed(*terminal.comparison(identical)),
        "two runs with effects": printed(*terminal.comparison(effects)),
        "two runs without ability": printed(*terminal.comparison(few)),
        "two runs, one at chance": printed(*terminal.comparison(chance)),
        "command of two runs": " ".join(file.getvalue().split()),
        "nearer": verdicts(changed(pairs, p=1e-9, p_side=0.0)),
        "further": verdicts(changed(back, p=1e-9, p_side=0.0)),
        "changed": verdicts(changed(pairs, p=1e-9, p_side=0.9)),
        "unclear": verdicts(changed(pairs, p=0.9)),
        "identical": verdicts(changed(pairs, method="identical", value=0.0, low=0.0, high=0.0, p=1.0)),
        "without a verdict": verdicts(changed(pairs, ideal=None)),
        "ability kept": verdicts(ability),
        "ability lost": verdicts(loss),
        "condition": " ".join(holding([parsed("occugender.gap > -100")], limits)),
        "condition that does not hold": " ".join(holding([parsed("occugender.gap > 100")], limits)),
        "condition undefined": " ".join(holding([parsed("occugender.gap > 1")], replace(limits, estimates=undefined))),
        "failing": " ".join(failing(changed(pairs, p=1e-9, p_side=0.0), frozenset({"nearer"}))),
        "not failing": " ".join(failing(changed(pairs, p=1e-9, p_side=0.0), frozenset({"further"}))),
        "two models by one way": str(rank_agreement.order_table([limits, limits])),
        "two models by two ways": str(rank_agreement.order_table([ways, ways])),
        "power": " ".join(CliRunner().invoke(power, ["crows_pairs", "--n", "100"]).output.split()),
        "no power": " ".join(CliRunner().invoke(power, ["gest", "--n", "100"]).output.split()),
    }


def of_leaderboards():
    """What a leaderboard says, on its page and on the terminal."""
    cell = {"value": 60.0, "low": 55.0, "high": 65.0, "metric": "ss", "ideal": 50.0, "n": 99}
    usual = Entry(**cell, model="a", dataset="d", task="t")
    sizes = ((70, 60.0), (160, 52.0))
    family = [
        replace(usual, model=f"org/pythia-{size}m", value=value, low=value - 1, high=value + 1) for size, value in sizes
    ]

    def board(*entries):
        return words(leaderboard.page(leaderboard.task_tables(entries)))

    def refusing():
        raise CardError("it cannot be read.")
        yield

    refused, added = Collected(DECLARATIONS), Collected(DECLARATIONS)
    refused.add("runs/a", refusing())
    added.add("runs/a", iter([usual]))
    other = replace(RUN, estimates=tuple(replace(e, benchmark="other") for e in RUN.estimates))
    empty = replace(RUN, estimates=tuple(replace(e, value=math.nan) for e in RUN.estimates))
    path = Path("runs/a")
    return {
        "leaderboard": board(usual),
        "leaderboard with one at chance": board(replace(usual, inconclusive=say("lean.chance"))),
        "leaderboard of a family": board(*family),
        "refused": " ".join(refused.sentences),
        "added": " ".join(added.sentences),
        "left out": " ".join(left_out(path, empty)),
        "no headline": " ".join(left_out(path, other)),
        "nothing left out": " ".join(left_out(path, RUN)),
        "unknown": " ".join(Upload(RUN, unknown=frozenset({"mine"})).sentences("runs/a")),
        "other values": " ".join(Upload(RUN, changed=frozenset({"neutral"})).sentences("runs/a")),
        "known": " ".join(Upload(RUN).sentences("runs/a")),
    }


def of_cards():
    """What the cards of models, adapters and prompts say."""

    def card(run):
        return section(run, [], [], {}, None)

    def remarks(run, **benchmark):
        facts = json.loads(manifest())
        facts["benchmark"] |= benchmark
        return " ".join(published_results(run, "org", lambda *_: (json.dumps(facts), ""))[1])

    def of_rows(version):
        return replace(RUN, data={f"{PROBES}/stsb/test": f"1.2.0 {version}"})

    change = {"benchmark": "neutral", "group": "stsb", "metric": "gas", "n": 9}
    change |= {"before": [0.5, 0.4, 0.6], "after": [0.2, 0.1, 0.3], "difference": [-0.3, -0.4, -0.2]}
    facts = {"base": "org/base", "package": "0.3.0", "revision": "1", "dtype": "float32", "settings": {}}
    facts |= {"cost": {"parameters": 1, "seconds": 1.0, "memory": 1, "device": "cpu"}}
    recipe = RecipeFacts("made", "Made.", "nowhere", {"a": "@misc{a}"})

    def adapter(changes, measures):
        content = facts | {"changes": changes, "measures": measures}
        return adapter_card(content, "org/x", "mit", recipe, [], config=None, prompt=None)

    def changed_scores(**changes):
        run = of(RUN, "neutral")
        return replace(run, estimates=tuple(replace(e, **changes) for e in run.estimates))

    part = replace(RUN, data={name: f"{text}, 20 of 40 rows" for name, text in RUN.data.items()})
    groups = [e for e in RUN.estimates if e.group in ("stsb", "pronoun-pairs", "templates")]
    unknown = replace(RUN, headlines={})
    unpublished = replace(RUN, data=dict.fromkeys(RUN.data, UNPUBLISHED))
    headline = replace(RUN.headlines["neutral"], mass="gld")
    mass = [replace(e, group="stsb", metric="gld", value=1.5, low=1.0, high=2.0) for e in RUN.estimates[:1]]
    few_words = replace(of(RUN, "neutral"), headlines={"neutral": headline}, estimates=(*RUN.estimates[:1], *mass))
    other = replace(RUN, estimates=tuple(replace(e, metric="gas_plain") for e in RUN.estimates if e.metric == "gas"))
    return {
        "card": card(RUN),
        "card of a part": card(part),
        "card of whole groups": card(replace(RUN, estimates=tuple(groups))),
        "remarks": remarks(of(RUN, "neutral")),
        "remarks without a task": remarks(unknown),
        "remarks without rows": remarks(unpublished),
        "remarks without the metric": remarks(other),
        "remarks of no task": remarks(of(RUN, "neutral"), configs=["templates"]),
        "remarks of another framework": remarks(of(RUN, "neutral"), framework="x", alone=True),
        "remarks of other rows": remarks(of_rows(f"sha256:{'cd' * 32}")),
        "remarks of some rows": remarks(of_rows(f"sha256:{DIGEST}, 30 of 40 rows")),
        "remarks of undefined scores": remarks(changed_scores(value=math.nan, why="no rows")),
        "remarks of a model at chance": remarks(replace(of(RUN, "neutral"), language=AT_CHANCE)),
        "remarks of few answer words": remarks(few_words),
        "remarks of endless scores": remarks(changed_scores(value=5.5, low=5.0, high=6.0, most=math.inf)),
        "remarks of another metric": remarks(of(RUN, "neutral"), framework="x", metric="share_neutral"),
        "remarks of a run without examples": " ".join(Upload(RUN, reported=frozenset({"neutral"})).remarks()),
        "remarks of other values": " ".join(Upload(RUN, changed=frozenset({"neutral"})).remarks()),
        "adapter": adapter([change], {}),
        "adapter without scores": adapter([], {}),
        "adapter that leaks": adapter([change], {"leaked training rows": [3, None, None]}),
    }


def of_plots():
    """The captions of the plots of a table, of scores, and of a corpus."""

    def captions(columns, estimates=()):
        table = {name: np.array(values) for name, values in columns.items()}
        return " ".join(figure.caption for figure in figures(table, estimates))

    pronouns = {"id": ["x", "y"], "female_logprob": [-3.0, -2.0], "male_logprob": [-2.0, -2.0]}
    jobs = {"id": ["x"], "job": ["cook"], "female_share": [40.0], "template": ["friend-1"], "debiasing": ["none"]}
    jobs |= {"p_male": [0.3], "p_female": [0.2], "p_diverse": [0.1]}
    pairs = {"id": ["x", "y"], "score_biased": [1.0, 0.0], "score_unbiased": [0.0, 2.0]}
    labelled = [replace(e, label=e.short) for e in made_run().estimates if e.benchmark == "stereoset"]
    without_ss = [e for e in labelled if e.metric != "ss"]

    def beside(count):
        lean, names = np.linspace(-1.0, 1.0, count), np.full(count, "ours-5")
        leans = Leans([*map(str, range(count))], names, names, lean, lean, np.ones(count), lean, lean[:0])
        return follows(leans, "log p(she) / p(he)").caption

    return {
        "plots of pronouns": captions(pronouns),
        "plots of texts": captions({"id": ["x"], "gender_class": ["female"]}),
        "plots of jobs": captions(jobs),
        "plots of pairs": captions(pairs),
        "plots of scores": captions({}, labelled),
        "plots of scores without SS": captions({}, without_ss),
        "plot of a corpus": beside(20),
        "plot of a large corpus": beside(200),
    }


def of_methods():
    """What a recipe had to remove, and the page of many methods."""
    table, quiet = table_of(METHODS), [Method("cda", methods_made("cda", 59.9, 90.0))]
    worse = Method("dropout", methods_made("dropout", 64.0, 90.0))
    untested = replace(table, frame=table.frame.assign(p=math.nan))
    unprinted = replace(table, frame=table.measured)
    plain = replace(table, frame=table.measured[table.measured.column != "LMS"])
    return {
        "removed": to_remove("SS", (60.0, 58.0, 62.0), 50.0),
        "removed at the ideal": to_remove("SS", (50.5, 48.0, 53.0), 50.0),
        "methods": words(methods_page("m", [table], {})),
        "methods that do nothing": words(methods_page("m", [table_of([*quiet, worse])], {})),
        "one method that does nothing": words(methods_page("m", [table_of(quiet)], {})),
        "untested methods": words(methods_page("m", [untested], {})),
        "methods of no paper": words(methods_page("m", [unprinted], {})),
        "methods without LMS": words(methods_page("m", [plain], {})),
    }


def drawn(folder):
    """All texts by their label."""
    of_runs = {**of_rows(), **of_reports(folder), **of_comparisons(folder)}
    return {**of_runs, **of_leaderboards(), **of_cards(), **of_plots(), **of_methods()}


#: For each sentence the label of a text that must have it, and of one that must not.
CASES = {
    **{name: ("rows", f"without {name}") for name in SENTENCES if name.startswith("row.")},
    "row.neutral.friend_gendered": ("rows of friends", "rows"),
    "row.occugender.labour_correlation": ("rows", "rows at the ideal"),
    "row.occugender.labour_correlation.unclear": ("rows at the ideal", "rows"),
    "row.winogenerated.labour_correlation_jobs": ("rows", "rows at the ideal"),
    "row.winogenerated.labour_correlation_jobs.unclear": ("rows at the ideal", "rows"),
    "row.ideal": ("rows", "rows without an ideal"),
    "row.plain": ("rows without an ideal", "rows of crows_pairs"),
    "row.p": ("rows with a p", "rows"),
    "row.best": ("rows of a best value", "rows"),
    "row.unanswered": ("rows with refusals", "rows"),
    "row.silent": ("silent rows", "rows"),
    "row.undefined": ("rows undefined", "rows"),
    "row.mass": ("rows without answers", "rows"),
    "lean.unclear": ("sides at the ideal", "sides"),
    "lean.mass": ("terminal without answers", "terminal"),
    "why.mass": ("reasons without answers", "reasons"),
    "why.group": ("reasons without the group", "reasons"),
    "why.few": ("reasons of few clusters", "reasons"),
    "why.interval": ("reasons without intervals", "reasons"),
    "why.ideal": ("reasons at the ideal", "reasons without intervals"),
    "why.tests": ("reasons of many rows", "reasons"),
    "lean.chance": ("sides at chance", "sides"),
    "lean.silent": ("silent sides", "sides"),
    "lean.nothing": ("answer of a silent run", "answer"),
    "lean.shown": ("terminal", "terminal at the ideal"),
    "lean.open": ("terminal at the ideal", "terminal"),
    "lean.none": ("terminal", "terminal of sides"),
    "power.score": ("page with effects", "page"),
    "power.head": ("details with effects", "terminal"),
    "power.change": ("two runs with effects", "two runs"),
    "power.note": ("page", "empty page"),
    "power.note.change": ("comparison", "bare comparison"),
    "power.planned": ("power", "no power"),
    "compare.identical": ("two runs identical", "two runs"),
    "compare.count": ("two runs", "two runs identical"),
    "compare.ability": ("two runs", "two runs without ability"),
    "compare.more": ("two runs", "two runs verbose"),
    "verdict.nearer": ("nearer", "further"),
    "verdict.further": ("further", "nearer"),
    "verdict.changed": ("changed", "nearer"),
    "verdict.unclear": ("unclear", "nearer"),
    "verdict.identical": ("identical", "unclear"),
    "verdict.kept": ("ability kept", "ability lost"),
    "verdict.lost": ("ability lost", "ability kept"),
    "verdict.": ("without a verdict", "unclear"),
    "next.data": ("page that lacks data", "page"),
    "next.rows": ("page of a part", "page"),
    "next.other": ("next.other", "next.real"),
    "next.real": ("next.real", "next.other"),
    "next.base": ("next.base", "next.mitigate"),
    "next.mitigate": ("next.mitigate", "next.beside"),
    "next.beside": ("next.beside", "next.mitigate"),
    "report.rows": ("page that lacks data", "page"),
    "report.settings": ("page of a prompt", "page"),
    "report.beside": ("page beside another", "page"),
    "report.scale": ("page", "empty page"),
    "among": ("page among real models", "page"),
    "among.other": ("page among real models", "page of the question of real models"),
    "report.only": ("page", "empty page"),
    "report.names": ("page", "empty page"),
    "report.details": ("page", "empty page"),
    "report.decided": ("page with examples", "page"),
    "report.largest": ("page with examples", "page"),
    "report.same": ("page of one text", "page of two texts"),
    "report.printed": ("page", "comparison"),
    "report.files": ("page", "comparison"),
    "compare.scale": ("comparison", "bare comparison"),
    "compare.rule": ("comparison", "bare comparison"),
    "compare.tests": ("comparison", "untested comparison"),
    "compare.difference": ("comparison", "page"),
    "compare.names": ("comparison", "bare comparison"),
    "compare.printed": ("comparison", "page"),
    "compare.files": ("comparison", "page"),
    "compare.no_ways": ("two models by one way", "two models by two ways"),
    "compare.few_models": ("two models by two ways", "two models by one way"),
    "compare.written": ("command of two runs", "command of a run"),
    "compare.chance": ("two runs, one at chance", "two runs"),
    "fail.score": ("condition", "condition that does not hold"),
    "fail.undefined": ("condition undefined", "condition"),
    "fail.verdict": ("failing", "not failing"),
    "leaderboard.head": ("leaderboard", "page"),
    "leaderboard.chance": ("leaderboard with one at chance", "leaderboard"),
    "leaderboard.hub": ("leaderboard", "page"),
    "leaderboard.rule": ("leaderboard", "page"),
    "leaderboard.plots": ("leaderboard", "page"),
    "leaderboard.intervals": ("leaderboard", "page"),
    "leaderboard.left": ("left out", "nothing left out"),
    "leaderboard.no_headline": ("no headline", "left out"),
    "leaderboard.refused": ("refused", "added"),
    "leaderboard.unknown": ("unknown", "known"),
    "leaderboard.changed": ("other values", "known"),
    "card.reported": ("remarks of a run without examples", "remarks"),
    "card.changed": ("remarks of other values", "remarks"),
    "trend.changes": ("leaderboard of a family", "leaderboard"),
    "trend.lines": ("leaderboard of a family", "leaderboard"),
    "card.partial": ("card of a part", "card"),
    "card.intervals": ("card", "adapter"),
    "card.more": ("card", "card of whole groups"),
    "card.no_task": ("remarks without a task", "remarks"),
    "card.no_rows": ("remarks without rows", "remarks"),
    "card.no_metric": ("remarks without the metric", "remarks"),
    "card.no_config": ("remarks of no task", "remarks"),
    "card.other_framework": ("remarks of another framework", "remarks"),
    "card.other_rows": ("remarks of other rows", "remarks of some rows"),
    "card.some_rows": ("remarks of some rows", "remarks of other rows"),
    "card.undefined": ("remarks of undefined scores", "remarks"),
    "card.inconclusive": ("remarks of a model at chance", "remarks"),
    "card.mass": ("remarks of few answer words", "remarks"),
    "card.endless": ("remarks of endless scores", "remarks"),
    "card.other_metric": ("remarks of another metric", "remarks"),
    "adapter.paired": ("adapter", "adapter without scores"),
    "adapter.none": ("adapter without scores", "adapter"),
    "adapter.leaked": ("adapter that leaks", "adapter"),
    "adapter.limits": ("adapter", "card"),
    "adapter.ability": ("adapter", "card"),
    "adapter.model": ("adapter", "card"),
    "adapter.use": ("adapter", "card"),
    "plot.scores": ("plots of scores", "plots of pairs"),
    "plot.scores.ss": ("plots of scores", "plots of scores without SS"),
    "plot.strengths": ("plots of pairs", "plots of scores"),
    "plot.fairness": ("plots of pronouns", "plots of pairs"),
    "plot.preference": ("plots of pronouns", "plots of pairs"),
    "plot.topics": ("plots of texts", "plots of jobs"),
    "plot.jobs": ("plots of jobs", "plots of texts"),
    "plot.corpus": ("plot of a corpus", "plots of pronouns"),
    "plot.corpus.dots": ("plot of a corpus", "plot of a large corpus"),
    "plot.corpus.parts": ("plot of a large corpus", "plot of a corpus"),
    "remove.shown": ("removed", "removed at the ideal"),
    "remove.noise": ("removed at the ideal", "removed"),
    "methods.nearer": ("methods", "methods that do nothing"),
    "methods.none": ("methods that do nothing", "methods"),
    "methods.none.one": ("one method that does nothing", "methods that do nothing"),
    "methods.further": ("methods that do nothing", "methods"),
    "methods.others": ("methods", "methods that do nothing"),
    "methods.plot": ("methods", "methods without LMS"),
    "methods.tests": ("methods", "untested methods"),
    "methods.printed": ("methods", "methods of no paper"),
    "methods.not_measured": ("methods", "methods of no paper"),
    "methods.rule": ("methods", "comparison"),
    "methods.seeds": ("methods", "comparison"),
    "methods.files": ("methods", "comparison"),
    "summary.none": ("summary of no side", "summary"),
    "summary.caption": ("table for a paper", "summary"),
    "run.part": ("page of a part", "page"),
    "run.few": ("page of lone clusters", "page of a part"),
    "run.texts": ("page of few texts", "page of many texts"),
    "run.bundled": ("next.real", "page"),
    "run.lacking": ("data", "all data"),
    "run.speed": ("speed", "speed of stored responses"),
    "run.stored": ("speed of stored responses", "speed"),
    "run.written": ("command of a run", "command of two runs"),
    "run.intervals": ("page", "empty page"),
    "run.icc": ("page with effects", "page"),
    "run.speaks": ("page of a model that speaks", "page of a model at chance"),
    "run.chance": ("page of a model at chance", "page of a model that speaks"),
}
