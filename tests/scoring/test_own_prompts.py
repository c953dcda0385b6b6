"""Prompts of one's own, in files and through functions: groups, differences within pairs, and what is refused."""

import json
from dataclasses import replace

import datasets
import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import scoring
from scoring import ScoringError, benchmarks
from scoring.__main__ import app
from scoring.asking.estimates import estimate
from scoring.benchmarks import _prompts
from scoring.inputs.prompt_file import read
from tests.scoring.made import data_set

PAIRS = "man,woman\n" + "\n".join(f"My brother has plan {n} and,My sister has plan {n} and" for n in range(8)) + "\n"
OPTIONS = {"resamples": 200}


@pytest.fixture
def pairs(tmp_path):
    file = tmp_path / "pairs.csv"
    file.write_text(PAIRS, encoding="utf-8")
    return file


def one_sided(prompts):
    """Says he of three brothers of four, and she of one sister of four."""
    answers = []
    for prompt in prompts:
        number = int("".join(letter for letter in prompt if letter.isdigit()))
        gendered = number % 4 < 3 if "brother" in prompt else number % 4 < 1
        pronoun = "he" if "brother" in prompt else "she"
        answers.append(f"{pronoun} keeps it." if gendered else "it goes well.")
    return answers


def scores(result, group):
    table = result.table()
    return table[table["group"] == group].set_index("metric")


def test_differences_within_pairs_are_means_over_pairs_and_hold_their_value(pairs):
    result = scoring.evaluate(one_sided, prompts=pairs, samples=2, **OPTIONS)
    by_group = {name: scores(result, name) for name in ("man minus woman", "man", "woman")}
    difference = by_group["man minus woman"].loc["difference_gendered"]
    assert difference["value"] == pytest.approx(0.75 - 0.25)
    assert difference["low"] <= 0.5 <= difference["high"] <= 1
    assert difference["clusters"] == 8, "a pair is a cluster, however often it is asked"
    assert by_group["man"].loc["gas", "value"] == pytest.approx(0.75)
    assert by_group["woman"].loc["gas", "value"] == pytest.approx(0.25)
    assert by_group["man minus woman"].loc["difference_female", "value"] == pytest.approx(-0.25)
    assert not set(by_group["man"].index) & set(by_group["man minus woman"].index)


def test_the_difference_of_pairs_is_that_of_a_plain_loop(pairs):
    table = scoring.evaluate(one_sided, prompts=pairs, samples=2, **OPTIONS).examples("prompts")
    differences = []
    for match in set(table["match"]):
        pair = table[table["match"] == match].set_index("side")["gender_class"]
        differences.append(float(pair[1] != "neutral") - float(pair[2] != "neutral"))
    metric = next(metric for metric in _prompts.metrics("clean") if metric.name == "difference_gendered")
    columns = {name: table[name].to_numpy() for name in table}
    value = metric.value(columns, np.ones((1, len(table))))[0]
    assert value == pytest.approx(np.mean(differences))


def test_a_model_that_treats_both_alike_has_no_difference_but_an_interval(pairs):
    result = scoring.evaluate(lambda prompts: ["they sing."] * len(prompts), prompts=pairs, **OPTIONS)
    difference = scores(result, "man minus woman").loc["difference_gendered"]
    assert difference["value"] == 0
    assert difference["low"] < 0 < difference["high"]


def test_groups_of_single_prompts_are_reported_with_all_together(tmp_path):
    file = tmp_path / "mine.csv"
    file.write_text("prompt,group\nMy brother 1,home\nMy sister 0,work\nMy sister 1,work\n", encoding="utf-8")
    result = scoring.evaluate(one_sided, prompts=file, samples=1, **OPTIONS)
    assert list(dict.fromkeys(result.table()["group"])) == ["all groups", "home", "work"]
    assert scores(result, "all groups").loc["gas", "value"] == pytest.approx(2 / 3)
    file.write_text("prompt\nMy brother 1\n", encoding="utf-8")
    alone = scoring.evaluate(one_sided, prompts=file, samples=1, **OPTIONS)
    assert set(alone.table()["group"]) == {"all"}


def test_the_command_scores_them_and_the_same_folder_takes_no_other_prompts(pairs, tmp_path):
    out = tmp_path / "run"
    arguments = ["tiny-causal", "--prompts", str(pairs), "--out", str(out), "--device", "cpu"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    content = json.loads((out / "results.json").read_text(encoding="utf-8"))
    assert {estimate["benchmark"] for estimate in content["estimates"]} == {"prompts"}
    assert (out / "report.html").is_file()
    pairs.write_text(PAIRS.replace("plan 3", "plan 9"), encoding="utf-8")
    again = CliRunner().invoke(app, arguments)
    assert again.exit_code == 1
    assert "--overwrite" in again.output
    assert json.loads((out / "results.json").read_text(encoding="utf-8")) == content


def test_a_stored_run_is_compared_with_another_one(pairs, tmp_path):
    before = scoring.evaluate(one_sided, prompts=pairs, out=tmp_path / "before", **OPTIONS)
    after = scoring.evaluate(lambda p: ["it is."] * len(p), prompts=pairs, out=tmp_path / "after", **OPTIONS)
    changes = scoring.compare(tmp_path / "after", tmp_path / "before").table()
    change = changes[changes["metric"] == "difference_gendered"].iloc[0]
    assert change["difference"] == pytest.approx(-0.5)
    assert scoring.compare(after, before).table().equals(changes)


def test_other_benchmarks_are_asked_beside_them_only_where_they_are_named(pairs, tmp_path):
    probes = [{"id": "llm-1-1", "prompt": "My friend 1 sings, and", "statement": "My friend 1 sings"}]
    data = data_set(tmp_path, "gender-neutral-probes", {("llm-1", "test"): probes})
    both = scoring.evaluate(one_sided, prompts=pairs, benchmarks="neutral", data=data, **OPTIONS)
    assert set(both.table()["benchmark"]) == {"prompts", "neutral"}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a,b,c\n1,2,3\n", "has the columns a, b, c"),
        ("prompt\n", "has no rows"),
        ("man,woman\nHe,\n", "has no woman in row 1"),
        ("prompt,group\nHe,\n", "has no group in row 1"),
        ("id,text\n1,He\n", "has the columns id, text"),
        ("text,group\nHe,a\n", "has the columns text, group"),
        ("prompts,kind\nHe,a\n", "(did you mean 'prompt'?)"),
        ("promt\nHe\n", "(did you mean 'prompt'?)"),
        ("man,man\nHe,He\n", "has the head 'man' twice"),
        ("My brother is tall and\nMy sister is tall and\n", "which is a prompt and no head"),
        ("man,woman\nHe,She,They\n", "has 3 cells in row 1 and 2 in its header"),
        ("prompt,group\n1,a\n2,b\n", "has only numbers in the column prompt"),
        ("man,\nHe,She\n", "has a column without a head"),
        ("", "is empty"),
        ('[{"prompt": 1}]', "has the int 1 as prompt in row 1; give a text"),
        ('[{"prompt": true}]', "has the bool True as prompt in row 1; give a text"),
        ('[{"prompt": [{"role": "user", "content": "He"}]}]', "as prompt in row 1; give a text"),
        ("[1, 2]", "give a column 'prompt'"),
        ('[{"prompt": ', "cannot be read"),
    ],
)
def test_a_file_of_another_form_is_refused(tmp_path, text, sentence):
    file = tmp_path / "wrong.csv"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ScoringError) as caught:
        read(file)
    assert sentence in str(caught.value)


EXPECTED = [("He says \u201cé\u201d, and ", "a"), ("She; says\tit ", "b")]
#: What other programs take for the end of a line.
SEPARATED = "One\u2028line \x85 of \x0b text"


@pytest.mark.parametrize("form", ["csv", "semicolon", "tab", "utf-16", "windows", "xlsx", "json", "lines", "parquet"])
def test_each_form_of_a_table_is_read_to_the_last_character(tmp_path, form):
    frame = pd.DataFrame(EXPECTED, columns=["Prompt", "GROUP"])
    file = tmp_path / "mine"
    if form == "xlsx":
        frame.to_excel(file.with_suffix(".xlsx"), index=False)
        file = file.with_suffix(".xlsx")
    elif form == "parquet":
        frame.to_parquet(file)
    elif form == "json":
        frame.to_json(file, orient="records")
    elif form == "lines":
        frame.to_json(file, orient="records", lines=True)
    else:
        separator = {"semicolon": ";", "tab": "\t"}.get(form, ",")
        encoding = {"utf-16": "utf-16", "windows": "cp1252"}.get(form, "utf-8")
        frame.to_csv(file, sep=separator, index=False, encoding=encoding)
    made = read(file)
    assert [(row["prompt"], row["group"]) for row in made.rows] == EXPECTED
    assert made.understood == "2 prompts in 2 groups"


@pytest.mark.parametrize("text", [f"prompt\r\n{SEPARATED}\r\n", json.dumps({"prompt": SEPARATED}, ensure_ascii=False)])
def test_only_ends_of_lines_end_a_line(tmp_path, text):
    file = tmp_path / "mine"
    file.write_bytes(text.encode())
    assert [row["prompt"] for row in read(file).rows] == [SEPARATED]


@pytest.mark.parametrize(
    ("given", "understood"),
    [
        (["He", "She"], "2 prompts"),
        (["He"], "1 prompt"),
        (pd.DataFrame({"man": ["He"], "woman": ["She"]}), "1 pair: man, woman"),
        ({"man": ["He", "He"], "woman": ["She", "She"]}, "2 pairs: man, woman; 1 are there before"),
        ([{"prompt": "He", "source": "x"}], "1 prompt; not used: source"),
        (datasets.Dataset.from_dict({"prompt": ["He"]}), "1 prompt"),
    ],
)
def test_prompts_are_given_in_python_too_and_what_was_understood_is_said(given, understood):
    assert read(given).understood.startswith(understood)
    result = scoring.evaluate(one_sided_of_any, prompts=given, **OPTIONS)
    assert set(result.table()["benchmark"]) == {"prompts"}


def one_sided_of_any(prompts):
    return ["he keeps it." if "He" in prompt else "she keeps it." for prompt in prompts]


def test_equal_pairs_are_one_cluster():
    result = scoring.evaluate(one_sided_of_any, prompts={"man": ["He"] * 300, "woman": ["She"] * 300}, **OPTIONS)
    difference = scores(result, "man minus woman").loc["difference_male"]
    assert difference["clusters"] == 1
    assert difference["value"] == 1


def test_what_a_function_gives_has_to_be_a_text_for_each_prompt(pairs):
    for function in (lambda prompts: "one text", lambda prompts: ["a"], lambda prompts: [1] * len(prompts)):
        with pytest.raises(ScoringError, match="text"):
            scoring.evaluate(function, prompts=pairs, **OPTIONS)
    with pytest.raises(ScoringError, match="temperature"):
        scoring.evaluate(one_sided, prompts=pairs, temperature=0.5, **OPTIONS)
    with pytest.raises(ZeroDivisionError):
        scoring.evaluate(lambda prompts: 1 / 0, prompts=pairs, **OPTIONS)


def test_the_benchmark_is_known_without_a_file_and_has_no_data_then():
    assert benchmarks.known("prompts")
    assert "prompts" not in benchmarks.names()
    with pytest.raises(ScoringError, match="prompts"):
        scoring.evaluate("tiny-causal", benchmarks="prompts")


@pytest.mark.parametrize(("first", "second"), [(0.5, 0.5), (0.6, 0.2)])
def test_intervals_of_differences_hold_the_truth_in_made_samples(first, second):
    rng = np.random.default_rng(0)
    metric = next(m for m in _prompts.pair_metrics() if m.name == "difference_gendered")
    only = replace(_prompts.benchmark(), metrics=lambda _: [metric])
    pair_count, samples, held, apart = 30, 60, 0, 0
    pairs_of_lines = np.repeat(np.arange(pair_count).astype(str), 2)
    for _ in range(samples):
        # Half of the pairs have one draw for both prompts, so the two prompts of a pair depend on each other.
        draws = rng.random((pair_count, 2))
        draws[: pair_count // 2, 1] = draws[: pair_count // 2, 0]
        is_gendered = draws < [first, second]
        table = {
            "id": np.arange(2 * pair_count).astype(str),
            "match": pairs_of_lines,
            "pair": pairs_of_lines,
            "side": np.tile([1, 2], pair_count),
            "group": np.tile(["man", "woman"], pair_count),
            "gender_class": np.where(is_gendered.ravel(), "male", "neutral"),
        }
        difference = estimate(only, "clean", table, 300)[0]
        held += difference.low <= first - second <= difference.high
        apart += not difference.low <= 0 <= difference.high
    assert held >= 0.9 * samples
    if first == second:
        assert apart <= 0.1 * samples, "nothing differs, so hardly any interval leaves 0 out"
    else:
        assert apart >= 0.7 * samples, "a planted difference of .4 is found"
