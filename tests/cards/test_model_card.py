import json

import pytest
import yaml
from huggingface_hub import ModelCard

from cards.common.text import CardError
from cards.formats.evaluation import published_results
from cards.model_card import merged, section
from cards.results import read
from tests.cards.made import HEAD, PAIRS, PROBES, RUN, estimate, manifest, run

MANIFESTS = {name: manifest(name) for name in (PROBES, PAIRS)}


def made(folder, readme=None, manifests=MANIFESTS, **changes):
    """The README of a model after a run."""
    scored = read(run(folder, **changes))
    published, remarks = published_results(scored, "org", lambda name, _: (MANIFESTS[name], ""))
    text = section(scored, published, remarks, manifests, "images/scores.svg")
    return merged(readme, "model", text, scored, published)


def metadata(readme):
    return yaml.safe_load(readme.split("---\n")[1])


def test_a_section_has_scores_with_intervals_readings_plot_environment_and_validity(tmp_path):
    text = made(tmp_path)
    for fact in (
        f"| stsb | 0.25 \\[0.20, 0.31\\] | lower is better | gas | org/{PROBES} v1.2.0 | 40 |",
        "| neutral | stsb | gld | 0.12 \\[0.10, 0.15\\] | lower is better | 40 |",
        "- gld: How to read gld.",
        "![Scores with their intervals](images/scores.svg)",
        "| python | 3.11.0 |",
        f"What {PROBES} means \\| and does not.",
        f"- model: org/model, revision {HEAD[:12]}",
        "- prompt: plain",
        "probes score MODEL --benchmarks neutral,unstereo",
    ):
        assert fact in text, fact


def test_what_is_published_is_explained_first_and_the_rest_is_folded_away(tmp_path):
    shown, _, rest = made(tmp_path).partition("### How to read the metrics\n")[2].partition("<summary>The other")
    assert "- gas: How to read gas." in shown
    assert "gld" not in shown
    assert "- gld: How to read gld." in rest
    assert "- gas:" not in rest


def test_a_metric_that_benchmarks_read_in_other_ways_is_explained_for_each(tmp_path):
    ways = (
        estimate("biaske", "weat", "ss", 50, 40, 60, ideal=50.0, most=100, reading="Of the pairs."),
        estimate("stereoset", "intrasentence test", "ss", 50, 40, 60, ideal=50.0, most=100, reading="By term."),
        estimate("unstereo", "pronoun-pairs", "us_score", 55, 50, 60, ideal=100.0, most=100),
    )
    text = made(tmp_path, estimates=ways, data={f"{PAIRS}/pronoun-pairs/test": RUN.data[f"{PAIRS}/pronoun-pairs/test"]})
    assert "- ss (biaske): Of the pairs.\n- ss (stereoset): By term.\n" in text
    assert r"- us\_score: How to read us\_score." in text


def test_parts_of_groups_are_counted_and_not_listed(tmp_path):
    text = made(tmp_path)
    assert "templates hobby" not in text
    assert "1 more score, of parts of these groups, are in the report of the run." in text


def test_the_metadata_is_read_back_by_the_hubs_own_client(tmp_path):
    card = ModelCard(made(tmp_path, "---\nlicense: mit\ntags: [small]\n---\n# Mine\n\nWords.\n"))
    assert (card.data.license, card.data.tags, card.data.model_name) == ("mit", ["small"], "model")
    assert [(e.dataset_config, e.metric_type, e.metric_value) for e in card.data.eval_results] == [
        ("stsb", "gas", 0.25),
        ("templates", "gas", 0.25),
        ("pronoun-pairs", "us_score", 55.0),
    ]
    assert card.text.startswith("# Mine\n\nWords.\n")


def test_a_second_run_takes_the_place_of_the_first_and_nothing_else(tmp_path):
    once = made(tmp_path, "---\nlicense: mit\n---\n# Mine\n")
    again = made(tmp_path, once + "\nAfterwards.\n", estimates=(estimate(value=0.3),))
    assert again.count("## Bias") == 1
    assert "0.25 \\[" not in again
    assert again.rstrip().endswith("Afterwards.")
    values = {(r["dataset"]["config"], r["metrics"][0]["value"]) for r in metadata(again)["model-index"][0]["results"]}
    assert values == {("stsb", 0.3), ("templates", 0.25), ("pronoun-pairs", 55.0)}
    assert made(tmp_path, again, estimates=(estimate(value=0.3),)) == again


def test_a_prompt_has_a_section_beside_that_of_the_model(tmp_path):
    text = made(tmp_path, made(tmp_path), prompt="kind", estimates=(estimate(value=0.1, low=0.05),))
    assert text.count("## Bias") == 2
    assert "## Bias (prompt kind)" in text
    values = [m["value"] for r in metadata(text)["model-index"][0]["results"] for m in r["metrics"]]
    assert sorted(values) == [0.1, 0.25, 0.25, 55.0]


def test_results_of_others_stay_in_the_metadata(tmp_path):
    other = {"task": {"type": "text-generation"}, "dataset": {"type": "cais/hle", "name": "HLE"}}
    index = [{"name": "mine", "results": [other | {"metrics": [{"type": "accuracy", "value": 3}]}]}]
    text = made(tmp_path, f"---\n{yaml.safe_dump({'model-index': index})}---\n# Mine\n")
    (model,) = metadata(text)["model-index"]
    assert model["name"] == "mine"
    assert model["results"][0] == other | {"metrics": [{"type": "accuracy", "value": 3}]}


@pytest.mark.fault(50)
def test_hostile_names_stay_in_their_line_and_their_cell(tmp_path):
    hostile = "x|`y`\n\n# <script>alert(1)</script> <!-- gender-neutral-probes: model -->"
    bad = estimate(group="stsb", metric="gas", reading=hostile)
    text = made(tmp_path, model=hostile, prompt=hostile, environment={"python": hostile}, estimates=(bad,))
    body = text.split("---\n", 2)[2]
    assert "<script>" not in body
    assert "\n# \\<script" not in body
    assert body.count("<!-- ") == 2
    assert r"| python | x\|\`y\` \# \<script\>" in text
    assert metadata(text)["model-index"][0]["results"][0]["metrics"][0]["args"]["setting"] == f"prompt {hostile}"


@pytest.mark.fault(58)
def test_a_data_set_that_does_not_say_what_its_scores_mean_is_refused(tmp_path):
    with pytest.raises(CardError, match=r"unstereo .*rebuild"):
        made(tmp_path, manifests=MANIFESTS | {PAIRS: manifest(PAIRS, validity="")})


def test_a_readme_that_cannot_be_changed_safely_is_refused(tmp_path):
    with pytest.raises(CardError, match=r"README\.md"):
        made(tmp_path, "---\n[\n---\n# Mine\n")
    with pytest.raises(CardError, match=r"has '<!-- gender-neutral-probes: model -->' without"):
        made(tmp_path, "# Mine\n<!-- gender-neutral-probes: model -->\n")


def test_the_metadata_has_at_most_forty_lines_and_a_result_of_each_data_set(tmp_path):
    configs = [f"set-{number}" for number in range(60)]
    split = json.loads(manifest())["configs"]["stsb"]
    text = manifest(configs=dict.fromkeys(configs, split), benchmark={"framework": "x", "configs": configs})
    data = {f"{PROBES}/{config}/test": RUN.data[f"{PROBES}/stsb/test"] for config in configs} | RUN.data
    scores = [estimate(group=config) for config in configs]
    pairs = estimate("unstereo", "pronoun-pairs", "us_score", 55, 50, 60, ideal=100.0, most=100)
    scored = read(run(tmp_path, data=data, estimates=(*scores, pairs)))
    texts = {PROBES: text, PAIRS: manifest(PAIRS)}
    published, _ = published_results(scored, "org", lambda name, _: (texts[name], ""))
    readme = merged("---\nlicense: mit\n---\n# Mine\n", "model", "text", scored, published)
    assert len(published) == 61
    assert readme.split("---\n")[1].count("\n") <= 40
    kept = ModelCard(readme).data.eval_results
    assert {entry.dataset_type for entry in kept} == {f"org/{PROBES}", f"org/{PAIRS}"}
    assert len(kept) > 30


def test_a_partial_run_is_marked(tmp_path):
    part = RUN.data | {f"{PROBES}/stsb/test": f"{RUN.data[f'{PROBES}/stsb/test']}, 30 of 40 rows"}
    text = made(tmp_path, data=part, environment={"data lacking": ["biaske/weat/test"]})
    assert f"**This run is partial.** It lacks {PROBES}/stsb/test: 30 of 40 rows; biaske/weat/test: no data." in text
    assert "partial" not in made(tmp_path)
