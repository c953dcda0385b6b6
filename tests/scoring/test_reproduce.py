"""Printed numbers of the papers beside ours: the data, where each number is, verdicts, plans and the command."""

import csv
import json
import math
import os
import re
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import builders
from builders.dataset import Alternative, Remote, Source
from builders.files.manifest import read_manifest
from builders.sources.fetch import git_blob
from cards.common.text import slug
from scoring import benchmarks
from scoring import published as runs
from scoring.commands import reproduce as command
from scoring.reproduce import Cell, Measured, bias_bench, cells, plan, printed_tables, published, templates
from scoring.reproduce.claims import claims, judge
from scoring.reproduce.measured import DATASETS, UnreachableError
from scoring.reproduce.plan import parameters, steps
from scoring.reproduce.printed import FOLDER, paper, rows_of
from scoring.responses import BrokenFileError, unstereo
from scoring.types import ScoringError
from tests.mitigation.test_fast import rows as biased_rows
from tests.scoring.made import data_set
from tests.support import commands
from tests.support.helpers import mirror, missing
from tools.docs import claims_page, tables_page

TABLES = printed_tables()
CELLS = [(table, cell) for table in TABLES for cell in table.cells]


def run(*arguments):
    return CliRunner().invoke(command.app, list(map(str, arguments)), env={"COLUMNS": "200"})


def test_sources_that_are_lacking_for_one_reason_are_named_once():
    lack = "scores/{} is not available: host/a/{}.csv is in neither the mirror nor the cache; run without --offline."
    reasons = [*[lack.format(name, name) for name in "abb"], "not possible: no seed is printed", "", "scores/c is old"]
    found = [Cell("p", "t", "row", "column", 1.0, None, None, None, "unreachable", reason) for reason in reasons]
    assert list(command.remarks(found)) == [
        "3 numbers: scores/a and 1 more are not available: host/a/a.csv is in neither the mirror nor the cache; run "
        "without --offline.",
        "1 number: not possible: no seed is printed",
        "1 number: scores/c is old",
    ]


# The data


def test_every_file_of_numbers_is_of_a_table_and_no_table_is_twice():
    ids = [table.id for table in TABLES]
    assert len(set(ids)) == len(ids)
    names = {path.stem for path in FOLDER.glob("*.csv")}
    assert names == {table.id.replace("/", "-") for table in TABLES if table.cells}


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.id)
def test_every_number_has_its_place_and_no_two_share_one(table):
    for cell in table.cells:
        assert math.isfinite(float(cell.text))
        place = cell.place
        if "reason" in place:
            continue
        assert place["group"], cell
        assert place["metric"], cell
        assert "source" in place or place.get("model") or table.id in ("disclosure/table-7", "disclosure/table-8"), cell
        assert not any("{" in value for value in place.values() if isinstance(value, str)), cell
        if cell.of_run:
            assert place["run"].partition("/")[0] in table.runs
    names = ("source", "model", "run", "group", "metric", "field", "label", "benchmark")
    placed = [c.place for c in table.cells if "reason" not in c.place]
    # The score of all domains stands in each domain.
    places = Counter(tuple(place.get(n) for n in names) for place in placed if place["group"] != "intrasentence test")
    assert not places or max(places.values()) == 1


@pytest.mark.parametrize(
    "name", ["neutral", "occugender", "stereoset", "crows_pairs", "crows_pairs_modified", "biaske"]
)
def test_metrics_of_places_are_those_of_profile_paper(name):
    known = {
        metric.name for metric in (*benchmarks.get(name).metrics("paper"), *benchmarks.get(name).agreements("paper"))
    }
    named = {
        cell.place["metric"]
        for _, cell in CELLS
        if cell.of_run and cell.place["benchmark"] == name and cell.place.get("reader") != "examples"
    }
    assert named <= known
    assert named or name == "crows_pairs"


@pytest.mark.mirror
def test_the_numbers_are_those_of_the_transcribed_tables():
    folder = mirror().parent / "expected"
    if not folder.is_dir():
        missing("needs the transcribed tables next to the mirror")
    names = {"unstereo-sizes": "unstereo_benchmark_sizes.csv"}
    compared = 0
    for table in TABLES:
        name = table.id.replace("/", "-")
        found = [
            *folder.glob(f"{name.replace('-table-', '_table')}.csv"),
            *folder.glob(f"{name.replace('-table-', '_table')}_*.csv"),
        ]
        path = folder / names[name] if name in names else found[0] if found else None
        if path and not name.startswith("disclosure-table-7"):
            with path.open(newline="") as file:
                assert list(csv.DictReader(file)) == rows_of(f"{name}.csv")
            compared += 1
    assert compared == 30


def test_an_unknown_table_is_refused():
    with pytest.raises(ScoringError, match="'page-3'"):
        printed_tables("page-3")
    with pytest.raises(ScoringError, match=r"'unsterio/table-5'.*'unstereo/table-5'"):
        printed_tables("unsterio/table-5")


# Published responses

#: Rows of FAST whose scores are of networks that others trained again, so they may have any state.
TRAINED_AGAIN = ("MABEL", "CDA", "Dropout", "INLP", "SelfDebias", "SentDebias")


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The folder of the data sets, built from the mirror."""
    mirror()
    found = Measured(tmp_path_factory.mktemp("data"), tmp_path_factory.mktemp("runs"), offline=True, resamples=200)
    found.build()
    return found


@pytest.mark.mirror
def test_every_verdict_on_a_claim_is_the_one_that_is_kept(built):
    assert [judge(claim, built) for claim in claims()] == claims_page.read()


@pytest.mark.mirror
def test_numbers_of_published_responses_replay_counts_and_jobs_are_equal(built):
    done = run("--published", "--json", "--offline", "--resamples", 200, "--data", built.data, "--runs", built.runs)
    assert done.exit_code == 0, done.output
    found = [Cell(**cell) for cell in json.loads(done.stdout)]
    assert len(found) == len(CELLS)
    within = [cell for cell in found if cell.verdict == "within"]
    (rounded,) = [cell for cell in within if cell.paper == "unstereo"]
    # The published scores of Llama-2 are not those of FAST to the last digit, and its CrowS-Pairs are others.
    llama = ("fast", "table-3", "Llama-2-7B, original")
    of_fast = {(cell.paper, cell.table, cell.row, cell.column) for cell in within if cell.paper == "fast"}
    assert {place for place in of_fast if place[2] not in TRAINED_AGAIN} == {(*llama, "LMS"), (*llama, "ICAT")}
    # Nobody published scores of FAST itself.
    assert not [cell for cell in found if cell.row in ("Ours", "FAST") and cell.measured is not None]
    # 335 of 4405, which is 7.60499, is printed as 7.61.
    assert (rounded.paper, rounded.row, rounded.column, rounded.printed) == (
        "unstereo",
        "Pythia 70M (D)",
        "Ours-5",
        7.61,
    )
    outside = {
        (cell.paper, cell.table, cell.row, cell.column)
        for cell in found
        if cell.verdict == "outside" and not (cell.paper == "fast" and cell.row in TRAINED_AGAIN)
    }
    known = {("unstereo", "table-4", "seed words", name) for name in ("Ours-10", "Ours-20")}
    known |= {("unstereo", "table-4", "most length", name) for name in ("Ours-5", "Ours-20")}
    known |= {("unstereo", "table-4", "most pronouns", "WG"), ("unstereo", "text", "words", "median δ")}
    known |= {("occugender", "shares", "jobs of women", f"{gender}_pct") for gender in ("male", "female")}
    known.add((*llama, "SS_CrowS"))
    # Of all models, which few mirrors have, τ changes by 6.83 and 11.84 points; the text says up to 6 and 10.
    claimed = {("unstereo", "changes", dataset, "largest change") for dataset in ("WB", "WG")}
    claimed |= {("unstereo", "unfair", "ours sets and WB", "least")}
    # Whatever was measured here has the state that is kept, from which the table in the README is made.
    states = "".join(tables_page.read().values())
    for cell, letter in zip(found, states, strict=True):
        if cell.measured is not None and (cell.paper, cell.table) != ("fast", "table-4"):
            assert tables_page.LETTERS[cell.state] == letter, cell
    assert outside - {("fast", "table-4", "StereoSet", "race")} - claimed == known
    here = [model for model, source in runs.sources("unstereo").items() if _is_here(source)]
    assert len(here) >= 8
    named = Counter(cell.row for cell in found if cell.paper == "unstereo" and cell.verdict == "equal")
    for label, term in paper("unstereo")["terms"].items():
        if term.get("model") in here:
            printed = [cell for table, cell in CELLS if table.paper == "unstereo" and cell.row == label]
            assert named[label] == len(printed) - (label == "Pythia 70M (D)")
    equal = Counter(f"{cell.paper}/{cell.table}" for cell in found if cell.verdict == "equal")
    whole = ["disclosure/table-4", "disclosure/table-6", "occugender/table-7", "stereoset/official", "unstereo/sizes"]
    whole.append("unstereo/pile-words")
    for name in (*whole, "unstereo/replay", "unstereo/table-2", "unstereo/table-3", "unstereo/seed-words"):
        assert equal[name] == len(printed_tables(name)[0].cells), name
    # The implicit cells of OccuGender, of which its authors published shares, are equal wherever a file has them.
    shares = [cell for cell in found if cell.paper == "occugender" and "implicit" in cell.column and cell.measured]
    assert len(shares) == 312
    assert {cell.verdict for cell in shares} == {"equal"}
    # A file without the first prompt has no mean over the two prompts of high abstraction.
    assert not [cell for cell in shares if (cell.table, cell.row) == ("table-8", "high, Avg")]
    assert not [cell for cell in found if cell.paper == "occugender" and "explicit" in cell.column and cell.measured]
    tau = next(cell for cell in found if (cell.table, cell.row, cell.column) == ("table-5", "GPT-J-6B", "Ours-5_orig"))
    assert tau.low < tau.measured < tau.high


@pytest.mark.mirror
def test_data_sets_that_were_built_without_their_sources_are_built_again(tmp_path, monkeypatch):
    folder = mirror()
    monkeypatch.delenv("PROBES_MIRROR", raising=False)
    monkeypatch.setenv("PROBES_CACHE", str(tmp_path / "cache"))
    builders.build("biaske", out=tmp_path, offline=True)
    lacking = read_manifest(tmp_path / "biaske").left_out
    monkeypatch.setenv("PROBES_MIRROR", str(folder))
    Measured(tmp_path, tmp_path / "runs", offline=True).build()
    assert lacking
    assert not read_manifest(tmp_path / "biaske").left_out


def _is_here(source):
    urls = [remote.url.partition("//")[2] for remote in source.alternatives[0].files]
    return all((Path(os.environ["PROBES_MIRROR"]) / url).is_file() for url in urls)


def test_what_is_not_there_is_unreachable_with_its_reason(tmp_path):
    found = Measured(tmp_path / "data", tmp_path / "runs", offline=True)
    done = cells("occugender/table-7", measured=found)
    assert {cell.verdict for cell in done} == {"unreachable"}
    assert done[0].reason.startswith("needs occugender/jobs-paper/test, not in ")
    (cell,) = [
        c
        for c in cells("unstereo/table-9", measured=replace(found, compute=False))
        if (c.row, c.column) == ("MPT 7B", "WB")
    ]
    assert cell.reason.startswith(
        "published responses, which need no model: probes reproduce --published. The caption "
    )


def made_source(folder, monkeypatch, words):
    """Published files of one model with the rows of a made data set, in a mirror."""
    files = []
    for number, own in enumerate(words):
        path = folder / "mirror" / "example.org" / f"{number}.csv"
        path.parent.mkdir(parents=True, exist_ok=True)
        logprobs = {"M_logprob": [-10.0] * len(own), "F_logprob": np.linspace(-10, -9, len(own))}
        pd.DataFrame({"word": own, **logprobs}).to_csv(path, index=False)
        files.append(Remote(f"https://example.org/{number}.csv", git_blob=git_blob(path)))
    source = Source("unstereo-scores/made", "MIT", "", (Alternative(tuple(files)),))
    monkeypatch.setattr(runs, "sources", lambda _: {OPT: source})
    monkeypatch.setattr(runs, "models", lambda _: (OPT,))
    monkeypatch.setenv("PROBES_MIRROR", str(folder / "mirror"))


def made_data(folder, words, deltas=(0.1, 0.1, 0.1, 0.1)):
    """The built rows of these words; ``deltas`` are those of each of the ours sets."""
    configs = {}
    for (config, split), own in zip(unstereo.PLACES, words, strict=True):
        rows = []
        for number, word in enumerate(own):
            texts = {
                f"sentence_{gender}": f"{pronoun} met {word}."
                for gender, pronoun in (("male", "he"), ("female", "she"))
            }
            natural = None if config.startswith("wino") else number != 0
            delta = 0.1 if config.startswith("wino") else deltas[number]
            facts = {"word": word, "natural": natural, "max_pmi_diff": delta}
            rows.append({"id": f"{config}-{split}-{number}", **texts, **facts})
        configs[config, split] = rows
    data_set(folder, "unstereo", configs)


OPT = "facebook/opt-125m"
WORDS = [["oak", "nan", "elm", "elm"]] * 6


def test_published_files_are_scored_once_and_tau_is_counted_without_unnatural_rows(tmp_path, monkeypatch):
    made_source(tmp_path, monkeypatch, WORDS)
    made_data(tmp_path / "data", WORDS)
    said = []
    found = Measured(tmp_path / "data", tmp_path / "runs", offline=True, resamples=20, say=said.append)
    tau = {c.column: c for c in cells("unstereo/table-5", model=OPT, measured=found)}
    # Differences of 1/3, 2/3 and 1 are left of ours-5, and 0, 1/3, 2/3 and 1, twice, are those of winobias.
    assert tau["Ours-5_orig"].measured == pytest.approx(100 / 3)
    assert tau["WB_orig"].measured == pytest.approx(50)
    assert tau["WB_orig"].verdict in ("within", "outside")
    assert tau["Ours-5_orig_sd"].low is None
    assert said == [f"scores of the published responses of {OPT}"]
    again = replace(found, say=said.append, compute=False)
    assert {c.column: c for c in cells("unstereo/table-5", model=OPT, measured=again)} == tau
    assert len(said) == 1


def test_numbers_in_the_text_are_of_the_printed_models_and_of_the_abstract_of_all(tmp_path, monkeypatch):
    made_source(tmp_path, monkeypatch, WORDS)
    monkeypatch.setattr(published, "printed_models", lambda: [OPT])
    made_data(tmp_path / "data", WORDS)
    found = Measured(tmp_path / "data", tmp_path / "runs", offline=True, resamples=20)
    of = {(cell.row, cell.column): cell for name in ("changes", "abstract") for cell in of_table(name, found)}
    # The one model has τ of 1/3 on each ours set, whatever the limit, because every sentence is within all.
    assert of["all ours sets", "lowest"].measured == of["all ours sets", "highest"].measured == pytest.approx(100 / 3)
    assert of["Ours-5", "largest change"].measured == 0
    made_data(tmp_path / "near", WORDS, (0.1, 0.9, 0.1, 0.1))
    again = Measured(tmp_path / "near", tmp_path / "runs", offline=True, resamples=20)
    of = {(cell.row, cell.column): cell for name in ("changes", "abstract") for cell in of_table(name, again)}
    # Without the sentence whose difference is 1/3, none of ours-5 is fair.
    assert of["Ours-5", "largest change"].measured == pytest.approx(100 / 3)
    assert of["all ours sets", "lowest"].measured == 0


def of_table(name, found):
    return cells(f"unstereo/{name}", measured=found)


def test_models_that_prefer_a_pronoun_of_a_sentence_are_counted(tmp_path, monkeypatch):
    made_source(tmp_path, monkeypatch, WORDS)
    made_data(tmp_path / "data", WORDS)
    found = Measured(tmp_path / "data", tmp_path / "runs", offline=True, resamples=20)
    # The differences of the four sentences of a file are 0, 1/3, 2/3 and 1; the first one is not natural.
    counts = {n: found._preferences(f"all ours-5-paper-test-{n}", "female") for n in range(1, 4)}
    assert counts == {1: 0, 2: 1, 3: 1}
    assert found._preferences("all ours-5-paper-test-1", "none") == 1
    assert found._preferences("all ours-5-paper-test-3", "male") == 0


def test_kept_examples_that_were_changed_are_not_read(tmp_path, monkeypatch):
    made_source(tmp_path, monkeypatch, WORDS)
    made_data(tmp_path / "data", WORDS)
    places = (tmp_path / "data", tmp_path / "runs")
    assert Measured(*places, offline=True, resamples=20)._preferences("all ours-5-paper-test-3", "female") == 1
    (file,) = (tmp_path / "runs").rglob("*.parquet")
    table = pq.read_table(file).to_pandas()
    table.assign(female_logprob=-20.0).to_parquet(file)
    with pytest.raises(UnreachableError, match="delete both"):
        Measured(*places, offline=True, resamples=20)._preferences("all ours-5-paper-test-3", "female")


def test_the_block_of_fast_is_the_one_with_the_largest_effect_of_a_sweep(tmp_path):
    path = tmp_path / "bert-base-uncased" / "sweep" / "sweep.json"
    path.parent.mkdir(parents=True)
    curves = {"subject": [[0, 0.1, None, None], [11, 0.3, None, None]], "all": [[0, 0.9, None, None]]}
    path.write_text(json.dumps({"effects": curves}))
    (cell,) = cells("fast/blocks", model="bert-base-uncased", measured=Measured(tmp_path, tmp_path))
    assert (cell.measured, cell.verdict) == (11, "equal")


def test_published_files_with_other_rows_than_the_data_set_are_not_scored(tmp_path, monkeypatch):
    made_source(tmp_path, monkeypatch, WORDS)
    made_data(tmp_path / "data", [*WORDS[:5], ["oak", "ash", "elm", "elm"]])
    found = Measured(tmp_path / "data", tmp_path / "runs", offline=True, resamples=20)
    reasons = {c.reason for c in cells("unstereo/table-5", model=OPT, measured=found)}
    assert len(reasons) == 1
    assert reasons.pop().endswith("5.csv has other rows than the built data set unstereo; build it again.")


# Runs


def results_of(folder, model, run_name, estimates, rows="1.0.0 sha256:aa"):
    """A results.json with the given values by benchmark, group and metric."""
    from scoring.report.__init__ import results
    from scoring.types import Estimate, Report

    made = tuple(
        Estimate(b, g, m, value, value - 1, value + 1, 0.5, 40, 20, reading="r", least=0, most=100)
        for (b, g, m), value in estimates.items()
    )
    report = Report(model, "r", "", "float32", "plain", "paper", {"occugender/explicit-paper/test": rows}, made, {})
    path = folder / slug(model) / run_name / "results.json"
    path.parent.mkdir(parents=True)
    path.write_text(results(report, {}))


def test_a_run_gives_its_numbers_with_interval_and_verdict(tmp_path):
    model = "mistralai/Mistral-7B-v0.3"
    places = {
        ("occugender", "explicit, female jobs", metric): value
        for metric, value in (("p_male", 26.204), ("p_female", 72.81), ("p_diverse", 50.0))
    }
    results_of(tmp_path, model, "occugender", places)
    measured = Measured(tmp_path, tmp_path, compute=False)  # without the shares that the authors published
    found = {c.column: c for c in cells("occugender/table-3", model=model, measured=measured)}
    of = {name: found[f"explicit_femdom_{name}"] for name in "MFD"}
    assert [c.verdict for c in of.values()] == ["equal", "within", "outside"]
    assert (of["M"].printed, of["M"].measured, of["M"].low) == (26.2, pytest.approx(26.204), pytest.approx(25.204))
    assert found["implicit_femdom_M"].verdict == "unreachable"


def test_numbers_of_a_part_of_the_rows_say_so(tmp_path):
    model = "mistralai/Mistral-7B-v0.3"
    results_of(
        tmp_path,
        model,
        "occugender",
        {("occugender", "explicit, female jobs", "p_male"): 26.2},
        "1 sha256:aa, 3 of 280 rows",
    )
    measured = Measured(tmp_path, tmp_path, compute=False)  # without the shares that the authors published
    found = cells("occugender/table-3", model=model, measured=measured)
    assert [c.reason for c in found if c.measured is not None] == ["Measured on a part of the rows."]


# Plans


def test_tables_share_commands_and_each_is_there_once(tmp_path):
    lines = [step.line for step in steps(TABLES, "meta-llama/Llama-2-7b-hf", tmp_path, Path("runs"))]
    assert len(set(lines)) == len(lines)
    assert lines[0] == f"probes build gender-neutral-probes occugender biaske unstereo gender-pmi --out {tmp_path}"
    assert [
        line.partition(" --dtype")[0] for line in lines if " --benchmarks neutral --dtype" in line and " score " in line
    ] == ["probes score meta-llama/Llama-2-7b-hf --profile paper --benchmarks neutral"] * 2
    assert sum(" --benchmarks occugender " in line for line in lines) == 1
    assert sum(" --benchmarks unstereo --dtype float16 " in line for line in lines) == 1


def test_a_plan_builds_only_the_data_that_its_benchmarks_read(tmp_path):
    tables = printed_tables("occugender/table-3")
    build, score = steps(tables, "meta-llama/Llama-2-7b-hf", tmp_path, Path("runs"))
    assert build.line == f"probes build occugender --out {tmp_path}"
    assert " --benchmarks occugender " in score.line
    (tmp_path / "occugender").mkdir()
    (tmp_path / "occugender" / "manifest.json").touch()
    assert build.done
    assert [step.line for step in steps(tables, "meta-llama/Llama-2-7b-hf", tmp_path, Path("runs"))] == [score.line]


def test_an_adapter_is_made_before_glue_measures_it(tmp_path):
    lines = [step.line for step in steps(printed_tables("fast/table-9"), "bert-base-uncased", tmp_path, Path("runs"))]
    of = "runs/bert-base-uncased"
    made = next(n for n, line in enumerate(lines) if line.endswith(f"--out {of}/methods"))
    measured = next(n for n, line in enumerate(lines) if f"--adapter {of}/methods/cda --out {of}/glue" in line)
    assert made < measured
    assert all("--data" not in line for line in lines if " glue " in line)
    assert len([line for line in lines if " glue " in line]) == 8


def test_a_figure_has_the_command_of_its_run_in_the_precision_of_the_model(tmp_path):
    for model, dtype in (("tiiuae/falcon-7b", "bfloat16"), ("facebook/opt-13b", "float16"), ("tiny-causal", "auto")):
        *_, step = steps(printed_tables("disclosure/figure-2"), model, tmp_path, Path("runs"))
        assert step.line.startswith(f"probes score {model} --profile paper --benchmarks neutral --dtype {dtype} ")


def test_a_table_without_runs_has_no_plan(tmp_path):
    with pytest.raises(ScoringError, match="occugender/table-7"):
        steps(printed_tables("occugender/table-7"), "gpt2", tmp_path, tmp_path)


@pytest.mark.parametrize("model", sorted({c.place["model"] for _, c in CELLS if c.of_run and "model" in c.place}))
def test_the_size_of_every_printed_model_is_known(model):
    assert parameters(model) > 6e7


@pytest.fixture(scope="module")
def few(tmp_path_factory):
    """The folder of data sets that come with the project, and of runs."""
    folder = tmp_path_factory.mktemp("few")
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("PROBES_MIRROR", raising=False)
        builders.build("gender-neutral-probes", "occugender", "biaske", "unstereo", out=folder / "data", offline=True)
    (folder / "data" / "gender-pmi").mkdir(exist_ok=True)
    (folder / "data" / "gender-pmi" / "manifest.json").touch()
    return folder


#: The smallest settings of the commands that have some, by their first words.
#: Settings of an edit of one step in the first block.
ONE_STEP = {"layer": 0, "units": 2, "passes": 1, "iterations": 1, "prefixes": 0}
SMALLEST = {
    "score tiny-causal --profile paper --benchmarks stereoset": ("--benchmarks", "stereoset"),
    "mitigate table fast tiny-causal --profile paper --domains gender --benchmarks stereoset,biaske --sweep": (
        *("--config", "{folder}/sweep.json", "--benchmarks", "stereoset"),
    ),
    "mitigate table fast": ("--config", "{folder}/fast.json", "--domains", "gender", "--benchmarks", "stereoset"),
    "mitigate table": ("--methods", "self_debias"),
    "mitigate debias_tuning": ("--steps", "2", "--rank", "2"),
    "mitigate decoding": ("--grids", "top_p", "--corpora", "stsb-paper"),
}


def in_process(monkeypatch, folder=""):
    """Has a plan run its commands in this process, which has imported what they need, with the smallest settings."""

    def run_here(words, **_):
        assert words[:3] == [sys.executable, "-m", "probes"]
        line = " ".join(words[3:])
        more = next((more for first, more in SMALLEST.items() if line.startswith(first)), ())
        words = list(words)
        # A list that is given twice is both lists, so that of the plan goes.
        for option in [word for word in more if word.startswith("--") and word in words]:
            place = words.index(option)
            del words[place : place + 2]
        return commands.run("probes", *words[3:], *(word.format(folder=folder) for word in more))

    monkeypatch.setattr(plan, "subprocess", SimpleNamespace(run=run_here))


@pytest.mark.parametrize(
    ("target", "measured"),
    [
        ("occugender/table-5", {("explicit, female jobs", "p_male")}),
        ("disclosure/table-10", {("templates", "gas_gap")}),
    ],
)
def test_a_plan_runs_whole_on_a_bundled_model_and_is_not_run_again(few, monkeypatch, target, measured):
    in_process(monkeypatch)
    arguments = (target, "--model", "tiny-causal", "--limit", 60, "--resamples", 10, "--data", few / "data")
    arguments += ("--runs", few / "runs")
    done = run(*arguments, "--json")
    assert done.exit_code == 0, done.output
    found = {(cell["row"], cell["column"]): cell for cell in json.loads(done.stdout)}
    assert measured <= found.keys()
    for key in measured:
        assert found[key]["measured"] is not None, (found[key]["reason"], done.stderr)
        assert (found[key]["printed"], found[key]["verdict"]) == (None, "")
        assert found[key]["reason"].startswith("Measured on a part of the rows.")
    (step,) = steps(printed_tables(target), "tiny-causal", few / "data", few / "runs")
    assert step.done
    assert "done before: probes score tiny-causal " in run(*arguments).output


def test_a_trial_of_an_edit_takes_rows_enough_for_pairs_of_one_domain():
    found = {}
    for target in ("fast/figure-7", "fast/table-1", "occugender/table-5"):
        for step in steps(printed_tables(target), "tiny-causal", Path("data"), Path("runs"), {"--limit": "20"}):
            found[step.last.parent.name] = (
                step.words[step.words.index("--limit") + 1] if "--limit" in step.words else ""
            )
    assert (found["sweep"], found["fast"]) == ("300", "300")
    assert (found["stereoset"], found["occugender"]) == ("20", "20")


@pytest.fixture(scope="module")
def pairs(few):
    """The folder with few pairs of biased knowledge, of which the sources do not come with the project."""
    texts = ("context", "example_id", "sentence_id_biased", "sentence_id_unbiased", "sentence_id_irrelevant")
    made = [row | dict.fromkeys(texts, "") for row in biased_rows()]
    data_set(few / "made", "biaske", {("stereoset", "test"): made})
    statements = pq.read_table(few / "data" / "gender-neutral-probes" / "data" / "templates" / "test.parquet")
    rows = {name: statements.slice(8 * n, 8).to_pylist() for n, name in enumerate(("train", "validation", "test"))}
    configs = {(f"{config}-paper", name): own for config in ("stsb", "snli") for name, own in rows.items()}
    data_set(few / "made", "gender-neutral-probes", configs)
    for name in ("occugender", "unstereo", "gender-pmi"):
        (few / "made" / name).symlink_to(few / "data" / name)
    (few / "fast.json").write_text(json.dumps(ONE_STEP))
    # A sweep searches the block itself.
    (few / "sweep.json").write_text(json.dumps({name: value for name, value in ONE_STEP.items() if name != "layer"}))
    return few


@pytest.mark.parametrize(
    ("target", "measured"),
    [
        ("disclosure/table-1", {"neutral", "neutral-instruction", "drawn-stsb", "drawn-snli", "tuned"}),
        ("disclosure/figure-2", {"neutral"}),
        ("disclosure/table-3", {f"tuned-without-l-{loss}" for loss in "lgd"} | {"tuned"}),
        ("predecessor/figure-1", {"neutral-complete"}),
        ("occugender/by-group-of-jobs", {"occugender"}),
        ("disclosure/figure-6", {"drawn-stsb"}),
        ("fast/table-2", {"stereoset", "fast", "methods"}),
        ("fast/blocks", {"sweep"}),
    ],
)
def test_plans_of_every_kind_run_whole_with_the_smallest_settings(pairs, monkeypatch, target, measured):
    in_process(monkeypatch, pairs)
    data, runs = pairs / "made", pairs / "made-runs"
    arguments = (target, "--model", "tiny-causal", "--limit", 4, "--resamples", 10, "--data", data, "--runs", runs)
    done = run(*arguments, "--out", pairs / "page", "--json")
    assert done.exit_code == 0, done.output[-1500:]
    planned = steps(printed_tables(target), "tiny-causal", data, runs)
    assert {step.last.parent.name for step in planned} == measured
    assert all(step.done for step in planned)
    if printed_tables(target)[0].panels:
        assert (pairs / "page" / f"{printed_tables(target)[0].id.replace('/', '-')}.svg").is_file()
    else:
        assert any(cell["measured"] is not None for cell in json.loads(done.stdout))


@pytest.mark.mirror
def test_the_plan_of_unstereo_runs_whole_on_its_rows(built, monkeypatch, tmp_path):
    in_process(monkeypatch)
    arguments = ("unstereo/table-5", "--model", "tiny-causal", "--limit", 20, "--resamples", 10, "--data", built.data)
    done = run(*arguments, "--runs", tmp_path, "--json")
    assert done.exit_code == 0, done.output[-1500:]
    found = {(cell["row"], cell["column"]): cell["measured"] for cell in json.loads(done.stdout)}
    groups = {f"{name}{own}" for name in ("ours-5", "winobias", "winogender") for own in ("", " eps<=0.65")}
    assert found.keys() == {(group, f"tau@0.5{sd}") for group in groups for sd in ("", " (sd)")}
    assert None not in found.values()


@pytest.mark.mirror
def test_the_plan_of_facts_and_further_sets_runs_whole_on_their_rows(built, monkeypatch, tmp_path):
    (tmp_path / "fast.json").write_text(json.dumps(ONE_STEP))
    monkeypatch.setitem(SMALLEST, "mitigate table fast", SMALLEST["mitigate table fast"][:4])
    in_process(monkeypatch, tmp_path)
    arguments = ("fast/table-8", "--model", "tiny-causal", "--limit", 4, "--resamples", 10, "--data", built.data)
    done = run(*arguments, "--runs", tmp_path / "runs", "--json")
    assert done.exit_code == 0, done.output[-1500:]
    measured = {cell["row"] for cell in json.loads(done.stdout) if cell["measured"] is not None}
    assert len(measured) == 2


@pytest.mark.mirror
def test_the_plan_of_glue_runs_whole_on_real_rows(built, monkeypatch, tmp_path):
    people = (f"{who} saw the house number {n}." for who in ("He", "She", "A dog") for n in range(30))
    (tmp_path / "text.txt").write_text("\n".join(people))
    text = {"corpus": str(tmp_path / "text.txt"), "words": "project"}
    one = {"steps": 1, "batch_size": 4}
    (tmp_path / "prompts.txt").write_text("the person is\n")
    few = {"prompts": str(tmp_path / "prompts.txt"), "batch_size": 64, "measured": 8}
    six = {"cda": one, "dropout": one, "auto_debias": few}
    six |= {"mabel": {"pairs": 20, "epochs": 1}, "sentence_debias": text, "inlp": text | {"classifiers": 2}}
    (tmp_path / "six.json").write_text(json.dumps(six))
    (tmp_path / "fast.json").write_text(json.dumps(ONE_STEP))
    glue = ("--tasks", "wnli", "--limit", "8", "--epochs", "1", "--seeds", "1", "--length", "16")
    monkeypatch.setitem(SMALLEST, "mitigate glue", glue)
    chosen = ("--methods", ",".join(six), "--config", "{folder}/six.json", "--benchmarks", "stereoset")
    monkeypatch.setitem(SMALLEST, "mitigate table", chosen)
    in_process(monkeypatch, tmp_path)
    arguments = ("fast/table-9", "--model", "tiny-masked", "--limit", 4, "--resamples", 10, "--data", built.data)
    done = run(*arguments, "--runs", tmp_path / "runs", "--json")
    assert done.exit_code == 0, done.output[-1500:]
    measured = [(cell["row"], cell["column"]) for cell in json.loads(done.stdout) if cell["measured"] is not None]
    # One task and the average, of the model, of five methods and of the stamp; the paper prints neither of MABEL.
    assert len(measured) == 2 * 7


def test_a_command_that_fails_is_named_and_the_others_go_on(few, monkeypatch, tmp_path):
    called = []

    def fails(words, **_):
        called.append(words)
        return commands.Done(len(called) == 1, "", "")

    monkeypatch.setattr(plan, "subprocess", SimpleNamespace(run=fails))
    done = run("disclosure/table-1", "--model", "tiny-causal", "--data", few / "data", "--runs", tmp_path)
    assert done.exit_code == 1
    # Row Hyperparameter takes a run for each of the two lists.
    assert len(called) == 5
    failed = [line for line in done.output.splitlines() if line.startswith("failed: ")]
    assert [line.partition(" --dtype")[0] for line in failed] == [
        "failed: probes score tiny-causal --profile paper --benchmarks neutral"
    ]


def test_a_dry_run_prints_commands_with_requests_memory_and_hours(few):
    done = run("occugender/table-10", "--model", "meta-llama/Llama-2-7b-hf", "--dry-run", "--data", few / "data")
    (line,) = done.stdout.splitlines()
    assert line.startswith("probes score meta-llama/Llama-2-7b-hf --profile paper --benchmarks occugender --groups all")
    # 280 explicit and 840 implicit prompts.
    assert re.search(r"# 1,120 requests, about 16\.8 GB of GPU memory and less than 0\.01 hours$", line)


def test_the_list_has_every_table_and_the_page_every_number(few):
    places = ("--data", few / "data", "--runs", few / "none", "--offline")
    done = run(*places)
    assert done.exit_code == 0, done.output
    assert all(table.id in done.output for table in TABLES)
    done = run("occugender", "--published", "--out", few / "page", *places)
    html = (few / "page" / "reproduce.html").read_text()
    numbered = [table for table in printed_tables("occugender") if table.cells]
    # A row for each number, for the one paper, and for the heads of the tables.
    assert html.count("<tr>") == sum(len(table.cells) for table in numbered) + 1 + len(numbered) + 1
    assert "crane operator" in html
    assert len(json.loads((few / "page" / "reproduce.json").read_text())) == 879


def test_the_list_asks_no_network_without_offline_too(few, monkeypatch):
    asked = []
    monkeypatch.delenv("PROBES_MIRROR", raising=False)
    monkeypatch.setattr("socket.getaddrinfo", lambda *where, **_: asked.append(where))
    monkeypatch.setattr("socket.socket.connect", lambda _, where: asked.append(where))
    done = run("--data", few / "data", "--runs", few / "none")
    assert done.exit_code == 0, done.output
    assert asked == []


def test_what_cannot_be_asked_is_refused_in_one_sentence(few, tmp_path):
    for arguments, sentence in (
        (("fast/table-99",), "error: There is no table 'fast/table-99' (did you mean "),
        (("fast", "--dry-run"), "error: --dry-run needs a model; name it with --model."),
        (("occugender/table-7", "--model", "gpt2"), "error: No number of occugender/table-7 is of a run of a model."),
    ):
        done = run(*arguments, "--data", few / "data", "--runs", tmp_path)
        assert done.exit_code == 1
        assert done.output.startswith(sentence)


def test_every_data_set_with_a_printed_number_is_built_for_it():
    counted = [cell for table in TABLES for cell in table.cells if cell.place.get("source") == "data"]
    needed = {cell.place["group"].split("/")[0] for cell in counted if "group" in cell.place}
    assert needed
    assert needed <= set(DATASETS), "a data set is missing in DATASETS of scoring/reproduce/measured.py"


# What forks of bias-bench print


def notebook(path, *texts):
    cells = [{"outputs": [{"text": text.splitlines(keepends=True)}]} for text in texts]
    path.write_text(json.dumps({"cells": cells}))
    return path


def test_scores_of_a_notebook_are_those_of_the_model_and_the_domain(tmp_path):
    def of_file(name, score):
        domains = "".join(
            f"\t{domain}\n\t\tCount: 3.0\n\t\tLM Score: {score}\n\t\tSS Score: {score + 1}\n"
            for domain in ("race", "overall")
        )
        return (
            f" - predictions_file: ../a/stereoset_m-A_c-{name}_s-4.json\nintrasentence\n{domains}overall\n\tCount: 3\n"
        )

    path = notebook(tmp_path / "a.ipynb", of_file("org_one", 60.5), of_file("two", 70.5))
    found = {place: numbers["value"] for place, numbers in bias_bench.stereoset(path, "org/one").items()}
    assert found == {
        ("intrasentence test race", "lms"): 60.5,
        ("intrasentence test race", "ss"): 61.5,
        ("intrasentence test", "lms"): 60.5,
        ("intrasentence test", "ss"): 61.5,
    }
    assert bias_bench.stereoset(path, "one") == {}


def test_pairs_in_the_stereotypical_direction_are_a_group_of_their_own(tmp_path):
    text = " - model_name_or_path: one\r\n - bias_type: gender\r\nMetric score: 57.25\r\nStereotype score: 57.86\r\n"
    path = notebook(tmp_path / "a.ipynb", text, text.replace("57.", "9.").replace("one", "two"))
    found = {place: numbers["value"] for place, numbers in bias_bench.crows(path, "one").items()}
    assert found == {("gender", "metric_score"): 57.25, ("gender stereo", "stereotype_score"): 57.86}
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"race-color": {"Metric score": 60.0, "Stereotype score": None}}))
    assert set(bias_bench.crows(path, "one")) == {("race", "metric_score")}


def test_a_file_of_checkpoints_gives_the_one_that_is_named(tmp_path):
    path = tmp_path / "a.json"
    path.write_text(json.dumps({step: {"gender": {"Metric score": int(step) / 100}} for step in ("100", "2000")}))
    assert bias_bench.crows(path, "one", "2000")["gender", "metric_score"]["value"] == 20


def test_a_readme_has_the_scores_that_it_prints_first(tmp_path):
    path = tmp_path / "README.md"
    lines = ["LM Score: 84.5", "SS Score: 56.2", "ICAT Score: 73.9", "Metric score: 50.7", "Stereotype score: 51.5"]
    path.write_text("\n".join(["```", *lines, "```", "SS Score: 1.0"]))
    found = {place: numbers["value"] for place, numbers in bias_bench.readme(path).items()}
    assert found["intrasentence test gender", "ss"] == 56.2
    assert found["gender", "metric_score"] == 50.7
    assert found["gender stereo", "stereotype_score"] == 51.5
    path.write_text("\n".join(lines[1:]))
    with pytest.raises(BrokenFileError, match=r"README\.md has no LM Score"):
        bias_bench.readme(path)


# Statistics of sentences


def test_properties_of_sentences_are_counted_as_the_authors_do():
    frame = pd.DataFrame(
        {
            "template": ["{nominative} saw the well-known dog.", "A dog saw it, and {nominative}'s {reflexive}!"],
            "word": ["dog", "someone"],
        }
    )
    found = templates.statistics(frame, pd.Series({"dog": -0.5}))
    assert (found["seed words"], found["median δ"], found["most δ"]) == (1, -0.5, 0.5)
    assert (found["median pronouns"], found["most pronouns"]) == (1.5, 2)
    assert (found["most first place"], found["most last place"]) == (5, 7)
    # saw the well-known dog . / a dog saw it , and 's !
    assert (found["median length"], found["most length"]) == (6.5, 8)


def test_shares_of_words_are_read_from_the_tables_that_a_notebook_shows(tmp_path, monkeypatch):
    shown = "       pmi__he      pmi__she  \ncount  30.000000  20.000000  \n"
    document = {
        "cells": [
            {"outputs": [{"text": ["50\n"]}, {"data": {"text/plain": shown.splitlines(keepends=True)}}]},
            {"outputs": [{"text": ["('she', 'he') pmi-defined words: 10\n"]}]},
        ]
    }
    path = tmp_path / "notebook.ipynb"
    path.write_text(json.dumps(document))
    measured = Measured(tmp_path, tmp_path)
    monkeypatch.setattr(type(measured), "fetcher", SimpleNamespace(get=lambda _: SimpleNamespace(paths=[path])))
    found = {cell.row: cell.measured for cell in cells("unstereo/pile-words", measured=measured)}
    assert found == {"he": 60, "she": 40, "both": 20}
    path.write_text(json.dumps({"cells": []}))
    measured = Measured(tmp_path, tmp_path)
    (reason,) = {cell.reason.partition(" does")[0] for cell in cells("unstereo/pile-words", measured=measured)}
    assert reason == "notebook.ipynb"


def test_a_file_that_is_no_notebook_is_named(tmp_path):
    path = tmp_path / "a.ipynb"
    for text in ("x", "[]", "{}"):
        path.write_text(text)
        with pytest.raises(BrokenFileError, match=r"a\.ipynb is no notebook"):
            bias_bench.stereoset(path, "one")


@pytest.mark.mirror
def test_the_rows_of_bert_and_gpt2_in_fast_are_equal_to_published_scores(tmp_path):
    builders.build("biaske", out=tmp_path / "output", offline=True)
    measured = Measured(data=tmp_path / "output", runs=tmp_path / "runs", offline=True, resamples=20)
    equal = Counter()
    for number in (1, 2, 6, 7):
        for cell in cells(f"fast/table-{number}", measured=measured):
            if cell.row in ("BERT", "GPT2") and cell.verdict != "unreachable":
                assert cell.verdict == "equal", cell
                equal[cell.row] += 1
    assert equal == {"BERT": 10, "GPT2": 12}
