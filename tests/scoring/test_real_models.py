"""The page of real models: findings with something planted and with nothing, the kept scores, and the pages."""

import math
import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from scoring.asking.result import RunResult
from tests.scoring.test_pages import browse
from tools.docs.pages import ROOT
from tools.real_models import published
from tools.real_models.findings import (
    beyond,
    deduplicated,
    findings,
    follows_jobs,
    larger,
    same_order,
    stereotypes,
    tuned,
    uses_they,
)
from tools.real_models.page import about, files, markdown
from tools.real_models.scores import (
    EXAMPLES,
    Collected,
    Model,
    Score,
    examples_of,
    facts,
    read,
    read_examples,
    slope_over_jobs,
    write,
    write_examples,
)


def score(source, group, metric, value, half=0.01):
    return Score(
        source, "made", group, metric, value, value - half, value + half, 200, 100, None, 0, 1, "how to read it"
    )


def asked_of_a_friend(they_of_new, they_of_old, families="abcd"):
    """Models of two years and of these families with these shares of they; the other share is .3."""
    models = {}
    for year, shares in ((2024, they_of_new), (2023, they_of_old)):
        for n, they in enumerate(shares):
            model = Model(f"org/{families[n]}-{year}-{n}", year, "chat")
            model.scores.append(score("gifi-friend", "all prompts", "friend_they", they))
            model.scores.append(score("gifi-friend", "all prompts", "friend_gendered", 0.3 + n / 100))
            models[model.name] = model
    return models


def test_new_models_that_say_they_more_often_are_found_and_equal_ones_are_not():
    planted = uses_they(asked_of_a_friend([0.5, 0.6, 0.7, 0.8], [0.01, 0.02, 0.03, 0.04]))
    assert "Beyond chance: *they* (Holm" in planted.answer
    assert "+62 [42, 83]" in planted.answer
    nothing = uses_they(asked_of_a_friend([0.1, 0.3, 0.5, 0.7], [0.2, 0.4, 0.6, 0.8]))
    assert "Neither is beyond chance" in nothing.answer
    # Models of one family are one unit.
    assert uses_they(asked_of_a_friend([0.5, 0.6, 0.7, 0.8], [0.01, 0.02, 0.03, 0.04], "aaab")) is None
    assert uses_they(asked_of_a_friend([0.1, 0.2], [0.1, 0.2, 0.3])) is None


def table_of_jobs(slope, jobs=19, draws=40):
    """Texts on jobs whose share of she is .5 + slope * (share of women - .5)."""
    rows, friends, percents = [], [], []
    for n, women in enumerate(np.linspace(0.1, 0.9, jobs)):
        she = round(draws * float(np.clip(0.5 + slope * (women - 0.5), 0, 1)))
        rows += [f"job-{n}"] * draws
        friends += ["female"] * she + ["male"] * (draws - she)
        percents += [100 * women] * draws
    return {"row": np.array(rows), "friend": np.array(friends), "female_share": np.array(percents)}


@pytest.mark.parametrize("slope", [0.0, 0.5, 1.2])
def test_a_planted_slope_over_jobs_is_found_inside_its_interval(slope):
    found = slope_over_jobs("made", table_of_jobs(slope))
    assert found.value == pytest.approx(slope, abs=0.03)
    assert found.low - 0.03 <= slope <= found.high + 0.03
    assert found.n == 19


def test_a_slope_needs_jobs_and_steeper_than_reality_needs_the_whole_interval():
    assert math.isnan(slope_over_jobs("made", table_of_jobs(1.0, jobs=2)).value)
    steep, flat = Model("a", 2024, "chat"), Model("b", 2023, "base")
    steep.scores.append(replace(slope_over_jobs("gifi-friend", table_of_jobs(1.2)), group="jobs"))
    flat.scores.append(slope_over_jobs("gifi-friend", table_of_jobs(0.0)))
    finding = follows_jobs({"a": steep, "b": flat})
    assert "for 1 of 2 models" in finding.answer


def test_a_slope_says_its_ceiling_and_does_not_claim_more_than_it():
    """Answers of all or nothing have the steepest slope that jobs in two clumps allow."""
    table = table_of_jobs(1.0)
    women = table["female_share"] > 50
    table["friend"] = np.where(women, "female", "male")
    found = slope_over_jobs("gifi-friend", table)
    assert found.value == pytest.approx(found.most) == pytest.approx(found.high)
    # 19 jobs that all agree do not show that a slope is at its ceiling.
    assert found.low < 0.85 * found.most
    model = Model("a", 2024, "chat", [found])
    assert f"has {found.most:.2f}: no slope can be steeper" in follows_jobs({"a": model}).answer


def test_counts_of_models_beyond_a_value_are_corrected_over_the_models():
    alone = score("gest", "overall", "g_s", 1.0115)
    assert beyond({"a": alone}, 1) == (0, 1)
    others = {str(n): score("gest", "overall", "g_s", 1.0) for n in range(20)}
    assert beyond({"a": alone, **others}, 1) == (0, 0)


def test_planted_effects_of_size_tuning_and_deduplication_are_found_and_none_is_not():
    sizes = ("70m", "160m", "410m", "1b")

    def fair(effect):
        models = {}
        for one, noise in zip(("pythia", "opt", "olmo"), (0.0, 0.2, -0.2), strict=True):
            for n, size in enumerate(sizes):
                model = Model(f"org/{one}-{size}", 2023, "base")
                model.scores.append(score("unstereo", "ours-5", "tau@0.5", 20 + effect * n * (1 + noise) + noise))
                models[model.name] = model
        return models

    assert "That is beyond chance" in larger(fair(3)).answer
    unrelated = {name: replace_score(model, number) for number, (name, model) in enumerate(fair(0).items())}
    assert "no direction beyond chance" in larger(unrelated).answer
    pairs = {}
    for n, size in enumerate(sizes):
        for end, more in (("", 0.0), ("-deduped", 5.0 + n / 10)):
            name = f"org/pythia-{size}{end}"
            pairs[name] = Model(name, 2023, "base", [score("unstereo", "ours-5", "tau@0.5", 20 + more)])
    assert "4 are fairer and 0 less fair" in deduplicated(pairs).answer
    assert "beyond chance" in deduplicated(pairs).answer
    chats = {}
    for n, base in enumerate(("llama-7b", "mistral-7b", "gemma-7b")):
        for name, ratio in ((base, 1.5), (f"{base}-it", 1.2 + n / 100)):
            chats[name] = Model(name, 2024, "chat", [score("gest", "overall", "g_s", ratio)])
    assert "times that of its base: beyond chance" in tuned(chats).answer
    assert "3 families (gemma, llama, mistral)" in tuned(chats).answer


def replace_score(model, number):
    """The model with a score that goes up and down with its place."""
    model.scores[0] = replace(model.scores[0], value=20 + (-1) ** number * (1 + number % 5))
    return model


def ordered(ratios, tau):
    models = {}
    for n, (ratio, share) in enumerate(zip(ratios, tau, strict=True)):
        model = Model(f"org/m{n}", 2023, "base")
        model.scores.append(score("gest", "overall", "g_s", ratio))
        model.scores += [score("unstereo", name, "tau@0.5", share) for name in ("ours-5", "ours-10", "ours-20")]
        models[model.name] = model
    return models


def test_benchmarks_that_order_models_alike_are_found_and_unrelated_ones_are_not():
    ratios = [1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7, 1.8, 1.9, 2.0]
    alike = same_order(ordered(ratios, [10 + 2 * n for n in range(10)]))
    assert "1.00 [1.00, 1.00]" in alike.answer
    assert "3 of 3 correlations are beyond chance" in alike.answer
    other = same_order(ordered(ratios, [20, 12, 25, 14, 18, 22, 11, 24, 13, 19]))
    assert "no correlation is beyond chance" in other.answer
    assert same_order(ordered(ratios[:4], [1, 2, 3, 4])) is None


def test_models_without_the_stereotype_are_not_counted_as_having_it():
    finding = stereotypes(ordered([1.0, 1.005, 1.5, 0.9], [1, 2, 3, 4]))
    assert "above 1 for 1 of 4 models" in finding.answer


def test_scores_are_kept_without_texts(tmp_path):
    model = Model(
        "org/m", 2024, "chat", [score("gest", "overall", "g_s", 1.23456789)], ["a remark"], ["a text of others"]
    )
    write(Collected({"org/m": model}, {"gest": "how"}, ["left out"]), tmp_path / "scores.json")
    assert "a text of others" not in (tmp_path / "scores.json").read_text()
    again = read(tmp_path / "scores.json")
    assert again.models["org/m"].scores[0].value == 1.2346
    assert (again.settings, again.left_out) == ({"gest": "how"}, ["left out"])


def run_of(licence, table):
    report = SimpleNamespace(environment={"licence": licence})
    return RunResult(report, {"made": {name: np.array(column) for name, column in table.items()}}, {}, ())


def test_texts_are_shown_where_the_licence_allows_it_alone():
    texts = [f"she goes to town {n}" for n in range(6)]
    table = {"friend": ["female"] * 6, "prompt": ["My friend is a cook, and"] * 6, "text": texts}
    assert examples_of(run_of("MIT", table))[0] == "My friend is a cook, and → she goes to town 0"
    assert len(examples_of(run_of("MIT", table))) == 3
    assert examples_of(run_of("LicenseRef-None-Stated", table)) == []


def test_examples_of_declared_pronouns_and_of_sentences_say_what_the_model_did():
    table = {"declared": ["she", "xe"], "before": ["She is here.", "Xe is here."], "text": ["She came.", " Xe\n left."]}
    assert examples_of(run_of("MIT", table)) == ["Xe is here. → Xe left.", "She is here. → She came."]
    table = {
        "item": ["a", "a", "b"],
        "text": ['"I cry.", …', '"I cry.", the …', '"I lift.", …'],
        "wording": ["he-last", "man-last", "he-last"],
        "log_ratio": [-math.log(4), -math.log(2), math.log(3)],
    }
    assert examples_of(run_of("MIT", table)) == [
        '"I cry.", … → she, 4 times as likely as he',
        '"I lift.", … → he, 3 times as likely as she',
    ]


def test_kept_texts_of_others_are_in_a_file_that_git_ignores(tmp_path):
    collected = Collected({"org/m": Model("org/m", 2024, "chat", [], [], ["a text"])}, {}, [])
    write_examples(collected, tmp_path / "examples.json")
    again = Collected({"org/m": Model("org/m", 2024, "chat")}, {}, [])
    read_examples(again, tmp_path / "examples.json")
    assert again.models["org/m"].examples == ["a text"]
    read_examples(again, tmp_path / "none.json")
    assert again.models["org/m"].examples == []
    assert f"/{EXAMPLES.relative_to(ROOT).as_posix()}" in (ROOT / ".gitignore").read_text("utf-8").splitlines()


# The page of the documentation, from the scores that are kept


def test_the_page_of_the_documentation_is_made_from_the_kept_scores():
    assert (ROOT / "docs" / "MODELS.md").read_text("utf-8") == markdown(read())


def test_the_page_of_published_responses_is_made_from_the_kept_scores():
    content = published.page(read())
    assert published.PAGE.read_text("utf-8") == content
    # Without the scores the tables are empty, so they are not texts of the page.
    empty = published.page(Collected({name: Model(name, 2023, "base") for name in read().models}, {}, []))
    for cell in ("| gpt-4o | ", "| 350m | gender | ", "| 410m | type 1"):
        assert cell in content
        assert cell not in empty


@pytest.mark.parametrize("finding", findings(read().models), ids=lambda finding: finding.claims[:60])
def test_a_finding_names_its_unit_its_correction_and_its_ceiling(finding):
    for words in (r"[Uu]nit|as units", "correction", r"ceiling|ends at|steeper"):
        assert re.search(words, finding.answer), words


def test_every_model_has_a_page_that_the_table_links_to_and_all_findings_are_there():
    kept = read()
    written = files(kept)
    index = written["index.html"].decode()
    assert len(findings(kept.models)) == 8
    assert len(written) == 1 + len(kept.models) + 5
    for name in kept.models:
        (page,) = (path for path, text in written.items() if f"<h1>{name}</h1>".encode() in text)
        assert any(score.source.startswith("occugender") for score in kept.models[name].scores) or page in index


def test_every_page_of_a_model_says_what_its_scores_mean_before_the_table():
    kept = read()
    for model in kept.models.values():
        page = about(model, kept.settings)
        assert page["said"], model.name
        titles = [title for _, _, rows in page["tables"] for _, title, _ in rows]
        assert not [title for title in titles if "_less_" in title]


@pytest.mark.system
def test_all_columns_of_a_models_page_are_on_the_screen_of_a_phone(tmp_path):
    pages = [text for path, text in files(read()).items() if path.startswith("models/")]
    for n, text in enumerate(pages):
        (tmp_path / f"{n}.html").write_bytes(text)
    frames = "".join(f'<iframe src="{n}.html" style="width:390px"></iframe>' for n in range(len(pages)))
    script = """onload = () => document.body.append("result: " + [...document.querySelectorAll("iframe")].map(frame =>
      [...frame.contentDocument.querySelectorAll(".scroll")].every(e => e.scrollWidth <= e.clientWidth)).join(" "))"""
    (tmp_path / "outer.html").write_text(f"<!doctype html><body>{frames}<script>{script}</script></body>")
    document, _ = browse(tmp_path, (tmp_path / "outer.html").as_uri())
    assert re.search(r"result: ((?:true|false)[a-z ]*)", document)[1].split() == ["true"] * len(pages)


def test_the_page_draws_scores_along_steps_and_sizes():
    index = files(read())["index.html"].decode()
    keys = " ".join(re.findall(r'<p class="keys">(.*?)</p>', index))
    for family in ("training of pythia-deduped 6.9B", "EleutherAI/pythia", "facebook/opt"):
        assert f"</svg>{family}</span>" in keys
    assert "Scores by step of training" in index
    assert "<small>2023, base</small>" in index, "year and kind stand below the name"


def test_every_model_of_a_source_has_a_year_and_a_kind():
    for model in read().models.values():
        assert 2018 <= model.year <= 2026
        assert model.name in facts()
