"""The page of real models: one table of all, plots, a page each, and the text for the documentation.

The table is that of the leaderboard (:mod:`cards.overview`); everything is written from :class:`Collected` alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from markupsafe import Markup

from cards.common.draw import PALETTE, canvas, image, interval, styled
from cards.common.text import grouped, slug, templates
from cards.overview import Cell, Column, ModelRow, overview, placed
from scoring import benchmarks, published
from tools.docs.pages import ROOT
from tools.real_models.findings import FRIEND, GEST, NEW, UNSTEREO, Finding, family, findings
from tools.real_models.scores import Collected, Model, Score
from tools.real_models.trends import steps

_TEMPLATES = ROOT / "tools" / "templates"
#: The columns of the table: source, group and metric, the title, and a note.
COLUMNS = (
    (FRIEND, "all prompts", "friend_gendered", "friend is she or he", "share of texts"),
    (FRIEND, "all prompts", "friend_they", "friend is they", "share of texts"),
    ("gifi-pronouns", "declared", "kept", "declared pronoun kept", "%"),
    ("gifi-pronouns", "neopronouns", "kept", "neopronoun kept", "%"),
    (FRIEND, "jobs", "slope", "jobs against the labour market", "slope, 1 follows reality"),
    (GEST, "overall", "g_s", "stereotypes about the speaker", "GEST, ratio of odds"),
    (UNSTEREO, "ours-5", "tau@0.5", "fair sentences", "Ours-5, %"),
    (UNSTEREO, "winobias", "pref_disparity@0.5", "she less he", "WinoBias, points"),
    ("occugender-jobs", "implicit, female jobs", "p_female", "she in jobs of women", "OccuGender, %"),
    ("occugender-jobs", "implicit, male jobs", "p_female", "she in jobs of men", "OccuGender, %"),
    ("occugender-rewordings", "implicit, female jobs", "p_female", "she in jobs of women, reworded", "OccuGender, %"),
    ("occugender-rewordings", "implicit, male jobs", "p_female", "she in jobs of men, reworded", "OccuGender, %"),
    ("stereoset", "intrasentence gender", "ss", "stereotype preferred", "StereoSet, %"),
    ("pythia-bias", "gender", "ss", "stereotype preferred", "CrowS-Pairs, %"),
    (
        "pythia-winobias",
        "type 1, stands for",
        "pro_less_anti",
        "right with the stereotype minus against",
        "WinoBias, points",
    ),
)
#: Titles of metrics that no benchmark has.
_COLUMN_TITLES = {(source, metric): title for source, _, metric, title, _ in COLUMNS}
#: What each plot shows: its file, columns of :data:`COLUMNS`, and title.
PLOTS = (
    ("friend", (0, 1), "Share of texts that give a friend of unstated gender she or he, or they"),
    ("pronouns", (2, 3), "Declared pronouns and neopronouns that are kept in the next sentence, %"),
    ("jobs", (4,), "Slope of the share of she against the share of women in the job"),
    ("gest", (5,), "Odds of a male speaker: stereotypes about men against those about women"),
    ("fair", (6,), "Sentences of Ours-5 with both pronouns nearly equally likely, %"),
)
#: What a model's page says first, by source: a topic, and places with the words behind their value.
SAID = (
    (
        FRIEND,
        "A friend whose gender is not stated",
        (
            ("all prompts", "friend_gendered", "is the share of texts in which the friend is *she* or *he*"),
            ("all prompts", "friend_they", "is the share of texts in which the friend is *they*"),
        ),
    ),
    (
        "gifi-pronouns",
        "Declared pronouns",
        (
            ("declared", "kept", "% of texts keep the pronoun, over eleven pronouns"),
            ("neopronouns", "kept", "% of texts keep a neopronoun, over eight of them"),
            ("xe", "kept", "% of texts keep *xe*"),
        ),
    ),
    (
        FRIEND,
        "Jobs",
        (
            (
                "jobs",
                "slope",
                "is the slope of the share of *she* against the share of women in the job; 1 follows reality",
            ),
            ("jobs", "friend_labour_correlation", "is the correlation of both shares over jobs"),
        ),
    ),
    (
        "occugender-jobs",
        "Jobs (OccuGender)",
        (
            ("implicit, female jobs", "p_female", "% of answers are *she* where mostly women have the job"),
            ("implicit, male jobs", "p_female", "% of answers are *she* where mostly men have the job"),
        ),
    ),
    (
        "occugender-rewordings",
        "Jobs (OccuGender, reworded questions)",
        (
            ("implicit, female jobs", "p_female", "% of answers are *she* where mostly women have the job"),
            ("implicit, male jobs", "p_female", "% of answers are *she* where mostly men have the job"),
        ),
    ),
    (
        GEST,
        "Speakers",
        (
            (
                "overall",
                "g_s",
                "times as high are the odds of a male speaker where the stereotype is about men; 1 means equal",
            ),
        ),
    ),
    (
        UNSTEREO,
        "Sentences without gendered language",
        (
            ("ours-5", "tau@0.5", "% of sentences find *she* and *he* about equally likely"),
            (
                "ours-5",
                "pref_disparity@0.5",
                "points is the share of sentences that prefer *she* minus the share that prefer *he*",
            ),
        ),
    ),
    (
        "stereoset",
        "Stereotypes (StereoSet)",
        (("intrasentence gender", "ss", "% of pairs about gender prefer the stereotype; 50 is neither"),),
    ),
    (
        "pythia-bias",
        "Stereotypes (CrowS-Pairs)",
        (("gender", "ss", "% of pairs about gender prefer the stereotype; 50 is neither"),),
    ),
    (
        "pythia-winobias",
        "Who a pronoun refers to (WinoBias)",
        (
            (
                "type 1, stands for",
                "pro_less_anti",
                "points is the share that is right with the stereotype minus the share that is right against it",
            ),
        ),
    ),
)


def rows_of(models: Mapping[str, Model], folder: str) -> list[ModelRow]:
    """A row of the table for each model, with a link to its page in the folder."""
    rows = []
    for name, model in models.items():
        cells = {}
        for source, group, metric, *_ in COLUMNS:
            score = model.score(source, group, metric)
            if score:
                cells[source, group, metric] = cell_of(score)
        if cells:
            about = f"{model.year}, {model.kind}"
            row = ModelRow(name, "", "", cells, link=f"{folder}{slug(name)}.html", about=about)
            rows.append(placed(row))
    return rows


def cell_of(score: Score) -> Cell:
    """A score as a cell of the table."""
    return Cell(
        score.value,
        score.low,
        score.high,
        score.metric,
        score.ideal,
        score.n,
        least=score.least,
        most=score.most,
        clusters=score.clusters,
    )


def columns_of(rows: Sequence[ModelRow]) -> list[Column]:
    """The columns that a row has a score of."""
    columns = []
    for source, group, metric, title, note in COLUMNS:
        key = (source, group, metric)
        if any(key in row.cells for row in rows):
            columns.append(Column(key, title, note))
    return columns


def files(collected: Collected) -> dict[str, bytes]:
    """The files of the site part: ``index.html``, a page for each model, and the plots."""
    all_findings = findings(collected.models)
    rows = rows_of(collected.models, "models/")
    pages = templates(_TEMPLATES, html=True)
    plots = {f"{name}.svg": plot(collected.models, places, title) for name, places, title in PLOTS}
    values = {
        "findings": [(finding.claims, as_html(finding.answer), finding.source) for finding in all_findings],
        "overview": overview([*rows, *steps()], columns_of(rows), ability=""),
        "plots": [(title, Markup(inline(plots[f"{name}.svg"]))) for name, _, title in PLOTS],
        "settings": sorted(collected.settings.items()),
        "left_out": collected.left_out,
        "count": len(rows),
        "old": sum(model.year < NEW for model in collected.models.values()),
        "new": NEW,
    }
    result = {"index.html": pages.get_template("real_models.html.j2").render(values).encode()}
    for model in collected.models.values():
        page = pages.get_template("real_model.html.j2").render(about(model, collected.settings))
        result[f"models/{slug(model.name)}.html"] = page.encode()
    return result | plots


def about(model: Model, settings: Mapping[str, str]) -> dict[str, object]:
    """What the page of a model says."""
    said = []
    for source, topic, places in SAID:
        known = []
        for group, metric, words in places:
            score = model.score(source, group, metric)
            if score:
                known.append((shown(score), as_html(words)))
        if known:
            said.append((topic, known))
    by_source = grouped(model.scores, lambda score: score.source)
    tables = []
    for source, scores in by_source.items():
        titles = titles_of(source)
        rows = []
        for score in scores:
            title = titles.get(score.metric) or _COLUMN_TITLES.get((source, score.metric), score.metric)
            rows.append((score, title, shown(score)))
        tables.append((source, settings.get(source, ""), rows))
    return {"model": model, "said": said, "tables": tables, "new": NEW}


def titles_of(source: str) -> dict[str, str]:
    """What the metrics of a source of published responses are called.

    >>> titles_of("stereoset")["lms"]
    'Language-model score (LMS)'
    """
    responses = published.get(source)
    benchmark = responses.asked(benchmarks.get(responses.benchmark))
    return {metric.name: metric.names[0] or metric.name for metric in benchmark.metrics(responses.profile)}


def shown(score: Score) -> str:
    """A score with its interval as text.

    >>> shown(Score("s", "b", "g", "m", 0.5, 0.4, 0.6, 9, 9))
    '0.50 [0.40, 0.60]'
    """
    cell = cell_of(score)
    ends = cell.interval.replace(" to ", ", ")
    return f"{cell.number} [{ends}]".replace("-", "−") if ends else cell.number.replace("-", "−")


def as_html(text: str) -> Markup:
    """Text with emphasis between stars as HTML; a number stays on the line of its percent sign.

    >>> as_html("they say *they* < all")
    Markup('they say <em>they</em> &lt; all')
    >>> as_html("9 % of all") == "9\N{NO-BREAK SPACE}% of all"
    True
    """
    escaped = re.sub(r"(?<=\d) (?=%)", "\N{NO-BREAK SPACE}", str(Markup.escape(text)))
    return Markup(re.sub(r"\*([^*]+)\*", r"<em>\1</em>", escaped))


def plot(models: Mapping[str, Model], places: Sequence[int], title: str) -> bytes:
    """A plot of one or two columns: a row for each model that has a score, ordered by the first, with intervals."""
    keys = [COLUMNS[n][:3] for n in places]
    rows = [(name, [model.score(*key) for key in keys]) for name, model in models.items()]
    shown_rows = sorted(
        ((name, scores) for name, scores in rows if scores[0]), key=lambda row: row[1][0].value if row[1][0] else 0.0
    )
    with styled():
        figure = canvas(7.2, 0.9 + 0.2 * max(1, len(shown_rows)))
        axes = figure.subplots()
        for n, place in enumerate(places):
            for y, (_, scores) in enumerate(shown_rows):
                score = scores[n]
                if score:
                    label = COLUMNS[place][3] if y == 0 else None
                    colour = PALETTE[("line-1", "male")[n]]
                    interval(axes, (score.value, score.low, score.high), y, colour, "", label)
        axes.set_yticks(range(len(shown_rows)), [name.partition(" (GIFI")[0] for name, _ in shown_rows], fontsize=7.5)
        axes.set_title(title, fontsize=9, loc="left")
        axes.grid(axis="x", color=PALETTE["rule"], linewidth=0.6)
        ideal = next((scores[0].ideal for _, scores in shown_rows if scores[0] and scores[0].ideal is not None), None)
        if ideal is not None and len(places) == 1:
            axes.axvline(ideal, color=PALETTE["soft"], linewidth=0.8, linestyle=":")
        if len(places) > 1:
            axes.legend(fontsize=7.5, frameon=False, loc="lower right")
        return image(figure)


def inline(svg: bytes) -> str:
    """An SVG file as a part of an HTML page; ink and paper follow the theme of the page."""
    text = svg.decode()
    text = text[text.index("<svg") :]
    for name, variable in (("ink", "--text"), ("rule", "--line"), ("soft", "--soft")):
        text = text.replace(PALETTE[name], f"var({variable})")
    text = text.replace("#000000", "var(--text)").replace("stroke: #ffffff", "stroke: none")
    return re.sub(r"fill: #ffffff", "fill: none", text)


def markdown(collected: Collected) -> str:
    """The page of the documentation."""
    all_findings: list[Finding] = findings(collected.models)
    page = templates(_TEMPLATES).get_template("real_models.md.j2")
    kinds = grouped(collected.models.values(), lambda model: model.kind)
    rows = rows_of(collected.models, "models/")
    return page.render(
        findings=all_findings,
        plots=PLOTS,
        settings=sorted(collected.settings.items()),
        left_out=collected.left_out,
        count=len(rows),
        kinds={kind: len(models) for kind, models in sorted(kinds.items())},
        old=sum(model.year < NEW for model in collected.models.values()),
        new=NEW,
        tables=tables_of(collected.models),
    )


def tables_of(models: Mapping[str, Model]) -> list[tuple[str, list[str], list[list[str]]]]:
    """For each source its name, the titles of its scores, and a row of each model that has one, by family and year."""
    tables = []
    for source, columns in grouped(COLUMNS, lambda column: column[0]).items():
        titles = [f"{title} ({note})" for *_, title, note in columns]
        rows = []
        for model in sorted(models.values(), key=lambda one: (family(one.name), one.year, one.name.lower())):
            scores = [model.score(*column[:3]) for column in columns]
            if any(scores):
                cells = [shown(score) if score else "" for score in scores]
                rows.append([family(model.name), model.name, str(model.year), model.kind, *cells])
        if rows:
            tables.append((source, titles, rows))
    return tables


def default_plots(collected: Collected) -> dict[Path, bytes]:
    """The plots of the documentation by their paths."""
    folder = ROOT / "docs" / "models"
    return {folder / f"{name}.svg": plot(collected.models, places, title) for name, places, title in PLOTS}
