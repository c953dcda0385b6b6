"""Claims of the papers: the rules of verdicts by simulation, the sentences, the kept file, the page, the command."""

import json
import math
import zlib

import numpy as np
import pytest
from typer.testing import CliRunner

from builders.sources.catalogue import catalogue
from scoring.commands import reproduce as command
from scoring.reproduce import Measured, drawing, verdicts
from scoring.reproduce.claims import as_json, claims, judge
from scoring.reproduce.printed import rows_of
from scoring.types import ScoringError
from tests.support.helpers import mirrored
from tools.docs import claims_page

RUNS = 4000
#: 2.5 % and three standard errors of a simulation of that size.
MOST = 0.025 + 3 * math.sqrt(0.025 * 0.975 / RUNS)


def rates(finding):
    """How often a rule says holds and fails, of samples by a seeded generator."""
    random = np.random.default_rng(5)
    found = [finding(random).verdict for _ in range(RUNS)]
    return found.count("holds") / RUNS, found.count("fails") / RUNS


def share_of(random, rate, n):
    return verdicts.share(random.binomial(n, rate) / n, n)


@pytest.mark.parametrize("count", [2, 4, 23])
def test_a_mean_at_its_limit_is_rarely_judged(count):
    found = rates(lambda random: verdicts.mean("v", "models", random.normal(0, 1, count)))
    assert max(found) <= MOST
    # With an effect of three standard deviations 23 units always show it.
    assert rates(lambda random: verdicts.mean("v", "models", random.normal(3, 1, 23)))[0] == 1


def test_every_unit_is_judged_rightly():
    def at_limit(random):
        return verdicts.every("v", "prompts", [share_of(random, 0.5, 300) for _ in range(8)], 50)

    def one_below(random):
        units = [share_of(random, 0.8, 300) for _ in range(7)]
        return verdicts.every("v", "prompts", [*units, share_of(random, 0.5, 300)], 50)

    def all_above(random):
        return verdicts.every("v", "prompts", [share_of(random, 0.7, 300) for _ in range(8)], 50)

    # Shares are whole numbers of prompts, so the score interval has one percent more at most.
    assert max(rates(at_limit)) <= MOST + 0.01
    assert max(rates(one_below)) <= MOST + 0.01
    assert rates(all_above)[0] > 0.99


def test_no_trend_needs_both_signs_beyond_chance():
    def changes(random, *moves):
        units = []
        for move in moves:
            units.append(verdicts.change(share_of(random, 0.4, 800), share_of(random, 0.4 + move, 800)))
        return verdicts.no_trend("v", "pairs", units)

    assert max(rates(lambda random: changes(random, 0, 0, 0))) <= MOST
    assert rates(lambda random: changes(random, 0.2, -0.2, 0))[0] > 0.99
    assert rates(lambda random: changes(random, 0.2, 0.2, 0.2))[1] > 0.99


def test_most_is_of_half_and_equal_values_show_nothing():
    assert max(rates(lambda random: verdicts.most("v", "models", list(random.random(10) < 0.5)))) <= MOST
    assert verdicts.mean("v", "models", [1.0, 1.0, 1.0]).verdict == "not shown"
    assert verdicts.mean("v", "models", [1.0]).verdict == "not shown"


def test_a_change_is_covered():
    random = np.random.default_rng(7)
    inside = 0
    for _ in range(RUNS):
        _, low, high = verdicts.change(share_of(random, 0.3, 300), share_of(random, 0.45, 300))(1.96)
        inside += low <= 15 <= high
    assert 0.94 <= inside / RUNS <= 0.965


# The sentences


def test_each_paper_has_about_ten_sentences_and_every_one_is_kept():
    kept = [(claim.paper, claim.says, claim.where, claim.source) for claim in claims_page.read()]
    assert kept == [(claim.paper, claim.says, claim.where, claim.source) for claim in claims()]
    assert len(set(kept)) == len(kept)
    for paper in ("disclosure", "predecessor", "occugender", "fast", "unstereo"):
        assert len(claims(paper)) >= 10
    with pytest.raises(ScoringError, match="did you mean 'fast'"):
        claims("fats")


def test_verdicts_of_printed_tables_are_those_that_are_kept(tmp_path):
    measured = Measured(tmp_path, tmp_path, offline=True)
    printed = [claim for claim in claims() if claim.source.startswith(("printed", "Table", "none"))]
    kept = [claim for claim in claims_page.read() if claim.source.startswith(("printed", "Table", "none"))]
    assert [judge(claim, measured) for claim in printed] == kept
    # Each verdict says by what: numbers, or a reason.
    assert all(bool(claim.numbers) != bool(claim.reason) for claim in kept)
    assert {claim.verdict for claim in kept} == set(verdicts.VERDICTS)


def test_the_page_is_made_from_the_kept_verdicts():
    assert claims_page.PAGE.read_text("utf-8") == claims_page.page(claims_page.read()), (
        "run python -m tools.docs.claims_page"
    )


def test_a_claim_without_its_files_is_not_shown_and_says_why(tmp_path):
    measured = Measured(tmp_path, tmp_path, offline=True)
    (lost,) = [claim for claim in claims("unstereo") if claim.source == "built data sets"]
    found = judge(lost, measured)
    assert found.verdict == "not shown"
    assert "probes build unstereo" in found.reason
    assert found.numbers == found.units == ""


# The drawing of Figure 7


@pytest.mark.mirror
def test_the_drawing_has_the_printed_numbers_at_half_a_nat():
    source = mirrored("unstereo-development/figure-7")["unstereo-development/figure-7"]
    curves = drawing.curves(source.path)
    printed = {}
    for number, columns in ((5, ("Ours-5", "WB", "WG")), (6, ("Ours-10", "Ours-20"))):
        for row in rows_of(f"unstereo-table-{number}.csv"):
            for column in columns:
                printed[column, row["model"]] = float(row[f"{column}_orig"])
    names = dict(zip(drawing.SETS, ("Ours-5", "WB", "WG", "Ours-10", "Ours-20"), strict=True))
    for (name, model), curve in curves.items():
        size, _, kind = model.removeprefix("EleutherAI/pythia-").partition("-")
        label = f"Pythia {size.upper()}{' (D)' * bool(kind)}"
        assert drawing.at(curve, 0.5) == pytest.approx(printed[names[name], label], abs=1)
        assert list(curve.values()) == sorted(curve.values())


def test_a_file_without_the_lines_is_refused(tmp_path):
    path = tmp_path / "other.pdf"
    path.write_bytes(b"stream\n" + zlib.compress(b"q 0 0 1 1 re W n 0 0 m\nQ") + b"\nendstream")
    with pytest.raises(ScoringError, match="has 0 lines; expected 30"):
        drawing.curves(path)
    assert "unstereo-development/figure-7" in catalogue().sources


# The command


def test_the_command_prints_the_claims_of_a_paper(tmp_path, monkeypatch):
    monkeypatch.setattr(Measured, "build", lambda self: None)
    place = ["--offline", "--data", str(tmp_path), "--runs", str(tmp_path)]
    result = CliRunner().invoke(command.app, ["fast/claims", *place], env={"COLUMNS": "200"})
    assert result.exit_code == 0
    assert "FAST lowers the SS of larger models too." in result.output
    assert "6 holds, 3 fails, 6 not shown" in result.output
    result = CliRunner().invoke(command.app, ["fast/claims", "--json", *place])
    kept = [claim for claim in claims_page.read() if claim.paper == "fast"]
    assert json.loads(result.stdout) == json.loads(as_json(kept))


@pytest.mark.parametrize("option", [["--model", "gpt2"], ["--out", "folder"], ["--dry-run"]])
def test_claims_refuse_options_of_figures_and_models(option, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(command.app, ["fast/claims", *option])
    assert result.exit_code != 0
    assert "leave out --model, --out and --dry-run" in result.output
