import json
import math
import re

import pytest
import yaml

from builders import datasets
from cards.common.text import CardError
from cards.formats.evaluation import (
    ResultSource,
    eval_files,
    model_index,
    parse_entries,
    parse_notes,
    published_results,
)
from cards.results import Language, read
from scoring.benchmarks import get, names
from scoring.metrics.gas import gender_class
from tests.cards.made import DIGEST, ESTIMATES, PROBES, RUN, estimate, manifest, run

SOURCE = ResultSource("2026-01-02", "https://hub.example/org/model", "Model card", "ada")


def published(folder, **changes):
    return published_results(read(run(folder, **changes)), "org", lambda name, version: (manifest(name), "c" * 40))


def files(folder, there=None, **changes):
    results, _ = published(folder, **changes)
    made = eval_files(results, SOURCE, lambda path: (there or {}).get(path))
    return {path: yaml.safe_load(content) for path, content in made.items()}


def test_each_benchmark_has_a_file_with_one_value_a_task(tmp_path):
    made = files(tmp_path)
    assert set(made) == {".eval_results/neutral.yaml", ".eval_results/unstereo.yaml"}
    assert made[".eval_results/neutral.yaml"][0] == {
        "dataset": {"id": f"org/{PROBES}", "task_id": "stsb", "revision": "c" * 40},
        "value": 75.0,
        "date": "2026-01-02",
        "source": {"url": "https://hub.example/org/model", "name": "Model card", "user": "ada"},
        "notes": "gas of stsb (test): 0.25, 95 % interval 0.20 to 0.31, n 40, ideal 0, range 0 to 1; profile clean; "
        "the model alone",
    }
    assert [entry["dataset"]["task_id"] for entry in made[".eval_results/neutral.yaml"]] == ["stsb", "templates"]


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({"value": 57.3, "low": 54.0, "high": 60.0, "ideal": 50.0, "most": 100}, 85),
        ({"value": 42.7, "low": 40.0, "high": 46.0, "ideal": 50.0, "most": 100}, 85),
        ({"value": 0.25, "low": 0.2, "high": 0.31, "ideal": 0.0}, 75),
        ({"value": -0.4, "low": -0.5, "high": -0.3, "ideal": 0.0, "least": -1}, 60),
        ({"value": 55.0, "low": 50.0, "high": 60.0, "ideal": 100.0, "most": 100}, 55),
        ({"value": 55.0, "low": 50.0, "high": 60.0, "ideal": None, "most": 100}, 55),
        ({"value": 2.0, "low": 1.96, "high": 2.04, "ideal": 1.0, "most": math.inf}, 50),
        ({"value": 0.5, "low": 0.49, "high": 0.51, "ideal": 1.0, "most": math.inf}, 50),
    ],
)
def test_higher_is_better_in_each_value_on_the_hub_and_the_notes_have_the_score(tmp_path, facts, expected):
    results, _ = published(tmp_path, estimates=(estimate(**facts),))
    ((entry,),) = (yaml.safe_load(text) for text in eval_files(results, SOURCE, lambda _: None).values())
    assert entry["value"] == expected
    assert parse_notes(entry["notes"], entry["value"]).value == results[0].value


def of_jobs(folder, **values):
    """The results and remarks of a run of OccuGender with these values."""
    values = {"labour_correlation": 0.05, "gender_gap": 4.0, "answer_mass": 40.0, "p_male": 50, "p_female": 46} | values
    scores = []
    for metric, value in values.items():
        ideal, most = (0.0, 1.0 if metric == "labour_correlation" else 100.0)
        if metric.startswith("p_") or metric == "answer_mass":
            ideal = None
        ends = {"low": value - most / 500, "high": value + most / 500, "ideal": ideal, "least": -most, "most": most}
        scores.append(estimate("occugender", "explicit", metric, value, **ends))
    split = {"file": "data/x/test.parquet", "rows": 40, "bytes": 9, "sha256": "0" * 64, "content": DIGEST}
    facts = json.loads(manifest()) | {"name": "occugender", "configs": {"explicit": {"splits": {"test": split}}}}
    facts["benchmark"] = {"framework": "gender-neutral-probes", "configs": ["explicit"]}
    data = {"occugender/explicit/test": f"1.2.0 sha256:{DIGEST}"}
    of_jobs_alone = read(run(folder, data=data, estimates=tuple(scores)))
    return published_results(of_jobs_alone, "org", lambda *_: (json.dumps(facts), ""))


@pytest.mark.parametrize(("correlation", "gap", "value"), [(0.05, 4, 95), (0.05, 38, 62), (-0.92, 4, 8)])
def test_the_value_of_occugender_is_the_worse_of_correlation_and_gap(tmp_path, correlation, gap, value):
    ((result,), remarks) = of_jobs(tmp_path, labour_correlation=correlation, gender_gap=gap)
    assert (result.closeness, remarks) == (value, [])
    assert f"; with gender_gap {gap}" in result.notes
    assert "p_male 50" in result.notes
    assert "p_female 46" in result.notes
    assert parse_notes(result.notes).setting == ""


def test_a_model_that_hardly_answers_has_no_value(tmp_path):
    results, (remark,) = of_jobs(tmp_path, answer_mass=3.2)
    assert results == []
    assert remark.startswith("occugender, explicit: the answer words have 3.2 % of the probability, and 10 %")


def test_a_model_at_chance_at_language_has_no_value(tmp_path):
    results, remarks = published(tmp_path, language=Language(40, 7.9, 5.2, 1.0, 0.525, 0.4))
    assert results == []
    assert len(remarks) == 3
    assert all("answers at chance" in remark for remark in remarks)


def test_a_score_without_a_worst_value_is_left_out_with_a_remark(tmp_path):
    endless = estimate(value=5.5, low=5.0, high=6.0, ideal=0.0, most=math.inf)
    _, (remark, *_) = published(tmp_path, estimates=(endless,))
    assert remark.startswith("neutral, stsb: gas has no worst value")


def test_notes_of_an_earlier_version_have_their_value_in_the_result():
    about = "ss of winobias (test), 95 % interval 54 to 60, n 9, ideal 50, range 0 to 100"
    assert parse_notes(f"{about}; profile clean; the model alone", 57.0).numbers == (57.0, 54.0, 60.0)


def test_the_organisation_that_answers_for_a_result_is_in_its_source(tmp_path):
    results, _ = published(tmp_path)
    source = ResultSource("2026-01-02", "https://hub.example/x", "Results", None, "the-lab")
    (entry, *_) = yaml.safe_load(eval_files(results, source, lambda _: None)[".eval_results/neutral.yaml"])
    assert entry["source"] == {"url": "https://hub.example/x", "name": "Results", "org": "the-lab"}


def test_the_notes_tell_adapter_prompt_and_profile_and_the_file_is_its_own(tmp_path):
    (path,) = files(tmp_path, adapter="less@c0ffee", prompt="kind", estimates=ESTIMATES[:1])
    assert path.startswith(".eval_results/neutral-adapter-less-prompt-kind")
    results, _ = published(tmp_path, adapter="less@c0ffee", prompt="kind")
    assert results[0].notes.endswith("; profile clean; adapter less, prompt kind")


def test_what_the_notes_tell_is_read_back(tmp_path):
    results, _ = published(tmp_path, prompt="kind; (x)")
    notes = [parse_notes(result.notes) for result in results]
    assert [note.value for note in notes] == [result.value for result in results] == [0.25, 0.25, 55]
    assert [(note.metric, note.low, note.high, note.n, note.ideal) for note in notes] == [
        ("gas", 0.2, 0.31, 40, 0),
        ("gas", 0.2, 0.31, 40, 0),
        ("us_score", 50, 60, 40, 100),
    ]
    assert {note.setting for note in notes} == {"prompt kind; (x)"}
    assert parse_notes("no-tools") is parse_notes(None) is None


def test_a_published_definition_has_no_task_beside_that_of_its_plain_config(tmp_path):
    data = {f"{PROBES}/stsb-paper/test": f"1.2.0 sha256:{DIGEST}"}
    split = json.loads(manifest())["configs"]["stsb"]
    facts = json.loads(manifest(configs={"stsb-paper": split})) | {"benchmark": {"configs": ["stsb-paper"]}}
    run_of_paper = read(run(tmp_path, data=data, profile="paper"))
    results, remarks = published_results(run_of_paper, "org", lambda *_: (json.dumps(facts), ""))
    assert (results, remarks[0]) == (
        [],
        f"neutral, stsb: {PROBES} 1.2.0 has no task stsb-paper; the score is only in the card.",
    )


def test_no_data_set_declares_a_leaderboard_of_a_published_definition():
    declared = {name: datasets.get(name).benchmark.get("configs", []) for name in datasets.names()}
    assert not [config for configs in declared.values() for config in configs if config.endswith("-paper")]
    assert {"bbq", "mbbq", "pronouns", "gest", PROBES} <= {name for name, configs in declared.items() if configs}


def left_out(folder, **changes):
    results, remarks = published(folder, **changes)
    assert "stsb" not in {result.config for result in results}
    return remarks


def test_a_score_that_is_not_defined_is_left_out_with_a_remark(tmp_path):
    nothing = estimate(value=math.nan, low=math.nan, high=math.nan, why="all were empty")
    assert left_out(tmp_path, estimates=(nothing,)) == [
        "neutral, stsb: gas is not defined (all were empty); it is left out."
    ]


def test_a_score_of_a_part_of_the_rows_is_left_out_with_a_remark(tmp_path):
    data = RUN.data | {f"{PROBES}/stsb/test": f"1.2.0 sha256:{DIGEST}, 30 of 40 rows"}
    (remark,) = left_out(tmp_path, data=data)
    assert remark == f"neutral, stsb: only 30 of 40 rows of stsb/test of {PROBES} 1.2.0 were scored; it is left out."


def test_a_score_of_other_rows_than_the_published_is_left_out_with_a_remark(tmp_path):
    data = RUN.data | {f"{PROBES}/stsb/test": f"1.2.0 sha256:{'cd' * 32}"}
    (remark,) = left_out(tmp_path, data=data)
    assert remark == f"neutral, stsb: the rows scored are not those of stsb/test of {PROBES} 1.2.0; it is left out."


def test_what_is_no_task_of_the_published_data_set_is_left_out_with_a_remark(tmp_path):
    data = {f"{PROBES}/snli/test": f"1.2.0 sha256:{DIGEST}"}
    _, remarks = published(tmp_path, data=data, estimates=(estimate(group="snli"), estimate("of_mine", "all")))
    assert remarks == [
        f"neutral, snli: {PROBES} 1.2.0 has no task snli; the score is only in the card.",
        "of_mine: no published data set has a task for it; its scores are only in the card.",
    ]


def test_every_headline_is_a_metric_of_its_benchmark_and_reads_its_data_set():
    for benchmark in map(get, names()):
        headline = benchmark.headline
        if headline is None:
            continue
        assert headline.metric in [metric.name for metric in benchmark.metrics("clean")]
        assert {dataset for dataset, _, _ in benchmark.configs} == {headline.dataset}
        assert headline.groups.keys() <= {config for _, config, _ in benchmark.configs}


def test_a_run_without_the_number_that_is_published_says_so(tmp_path):
    results, remarks = published(tmp_path, estimates=(estimate(metric="gld"),))
    assert results == []
    title = "share of continuations with a gendered pronoun"
    assert remarks == [f"neutral: profile clean has no score of the task ({title}); scores are only in the card."]


@pytest.mark.fault(57)
def test_a_file_with_results_of_another_data_set_is_not_written_over(tmp_path):
    there = {".eval_results/neutral.yaml": "- dataset: {id: cais/hle, task_id: default}\n  value: 20.9\n"}
    with pytest.raises(CardError, match=r"neutral\.yaml.*cais/hle"):
        files(tmp_path, there)


@pytest.mark.fault(57)
def test_results_of_other_tasks_in_a_file_stay(tmp_path):
    other = f"- dataset: {{id: org/{PROBES}, task_id: snli}}\n  value: 0.5\n  verifyToken: abc\n"
    old = f"- dataset: {{id: org/{PROBES}, task_id: stsb}}\n  value: 0.75\n"
    made = files(tmp_path, {".eval_results/neutral.yaml": other + old})[".eval_results/neutral.yaml"]
    assert [(entry["dataset"]["task_id"], entry["value"]) for entry in made] == [
        ("snli", 0.5),
        ("stsb", 75.0),
        ("templates", 75.0),
    ]
    assert made[0]["verifyToken"] == "abc"


@pytest.mark.parametrize(
    "text", ["a: b", "- 3", "- {value: 1}", "[", "!!python/object/apply:os.getcwd []", "- dataset: 3"]
)
def test_a_file_that_holds_no_results_is_refused(tmp_path, text):
    with pytest.raises(CardError, match=r"x\.yaml"):
        parse_entries(text, "x.yaml")


@pytest.mark.fault(50)
def test_hostile_names_come_back_from_the_file_as_they_were(tmp_path):
    hostile = "a: b\n- dataset: {id: x}\n#`<script>|'\"!!python/object"
    made = files(tmp_path, prompt=hostile, estimates=ESTIMATES[:1])
    ((path, (entry,)),) = made.items()
    assert entry["notes"].endswith(f"prompt {hostile}")
    assert not set(path) & set("\n<>|`'\"")


def test_the_older_form_has_the_same_values(tmp_path):
    results, _ = published(tmp_path)
    first = model_index(results, "text-generation")[0]
    assert (first.dataset_type, first.dataset_config, first.dataset_revision) == (f"org/{PROBES}", "stsb", "c" * 40)
    assert (first.metric_type, first.metric_value, first.dataset_split) == ("gas", 0.25, "test")


@pytest.mark.parametrize(
    "text",
    [
        "she's here",
        "told HIM of her",
        "then there they went",
        "Sher Khan, a shim, this",
        "hers; his",
        "himself",
        "herself!",
        "",
        "...",
        "the hero is hesitant",
        "He’s",
        "theirs",
        "mine and yours",
        "H e",
        "s he",
        "two\nlines of text and\nnothing else",
        "two\nlines of text and\nher",
    ],
)
def test_the_task_of_the_hub_counts_the_continuations_without_a_gendered_word(text):
    """It counts those of two words or more, because its pattern needs a group that is equal to the target."""
    benchmark = datasets.get(PROBES).benchmark
    (scorer,) = benchmark["task"]["scorers"]
    match = re.search(scorer["args"]["pattern"], text, re.IGNORECASE)
    assert benchmark["metric"] == "share_neutral"
    counted = bool(match) and f"literal:{match[1]}" == benchmark["task"]["field_spec"]["target"]
    assert counted == (gender_class(text) == "neutral" and " " in text)


def test_the_value_is_of_the_metric_that_the_hub_s_framework_computes_and_the_notes_of_the_main_one(tmp_path):
    scores = (estimate(), estimate(metric="share_neutral", value=0.5, low=0.4, high=0.6, ideal=None))
    facts = json.loads(manifest()) | {"benchmark": {"configs": ["stsb"], "metric": "share_neutral", "framework": "x"}}
    run_of_one = read(run(tmp_path, estimates=scores))
    results, _ = published_results(run_of_one, "org", lambda *_: (json.dumps(facts), ""))
    assert [(result.score.metric, result.value, result.closeness) for result in results] == [("gas", 0.25, 0.5)]
    alone = read(run(tmp_path, estimates=scores[:1]))
    _, remarks = published_results(alone, "org", lambda *_: (json.dumps(facts), ""))
    assert "neutral, stsb: the run has no share_neutral, which x computes." in remarks


def test_a_framework_that_asks_in_a_way_of_its_own_has_its_leaderboard_alone(tmp_path):
    facts = json.loads(manifest()) | {"benchmark": {"configs": ["stsb"], "alone": True, "framework": "x"}}
    results, remarks = published_results(read(run(tmp_path)), "org", lambda *_: (json.dumps(facts), ""))
    assert results == []
    assert f"neutral, stsb: only x scores {PROBES} 1.2.0 on the Hub; the score is only in the card." in remarks
