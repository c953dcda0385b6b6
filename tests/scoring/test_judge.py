"""Texts for people to judge: samples that say nothing, agreement, corrected scores and the errors of a reader."""

import itertools
import json
from collections import Counter

import numpy as np
import pandas as pd
import pytest

from scoring.judge import QUESTIONS, Key, Question, alpha, answers_of, counts_of, files, read, sample
from scoring.types import ScoringError
from tests.support.commands import run as command
from tests.support.helpers import mirror

#: Twelve texts and four judges with gaps (Krippendorff, 2011, example C), whose α for names is .743.
FOUR = """
1 2 3 3 2 1 4 1 2 . . .
1 2 3 3 2 2 4 1 2 5 . 3
. 3 3 3 2 3 4 2 2 5 1 .
1 2 3 3 2 4 4 1 2 5 1 .
"""


def judged(lines):
    return [[None if answer == "." else answer for answer in line.split()] for line in lines.strip().splitlines()]


def slow_alpha(answers):
    """α from all pairs of answers, one by one."""
    texts = [[answer for answer in column if answer is not None] for column in zip(*answers, strict=True)]
    texts = [text for text in texts if len(text) > 1]
    every = [answer for text in texts for answer in text]
    observed = sum(sum(a != b for a, b in itertools.permutations(text, 2)) / (len(text) - 1) for text in texts) / len(
        every
    )
    expected = sum(a != b for a, b in itertools.permutations(every, 2)) / (len(every) * (len(every) - 1))
    return 1 - observed / expected


def test_alpha_is_that_of_published_examples():
    value = alpha(counts_of(judged(FOUR), list("12345")))[0]
    assert value == pytest.approx(0.743, abs=5e-4)
    assert value == pytest.approx(slow_alpha(judged(FOUR)))


def test_alpha_is_1_for_full_agreement_0_for_chance_and_not_defined_for_one_answer():
    names = ["yes", "no"]
    assert alpha(counts_of([["yes", "no"]] * 3, names))[0] == 1
    assert np.isnan(alpha(counts_of([["yes", "yes"]] * 3, names))[0])
    assert np.isnan(alpha(counts_of([["yes", "no"]], names))[0])
    draw = np.random.default_rng(0)
    chance = [[names[place] for place in draw.integers(2, size=20_000)] for _ in range(3)]
    assert alpha(counts_of(chance, names))[0] == pytest.approx(0, abs=0.02)


def population(seed, sizes=(200, 600, 3200), wrong=(0.1, 0.4, 0.03)):
    """Texts with what they say and what a program says of them, which is wrong in a share of each class."""
    draw = np.random.default_rng(seed)
    names = ["female", "male", "neutral"]
    machine = np.repeat(names, sizes)
    changed = draw.random(len(machine)) < np.repeat(wrong, sizes)
    truth = np.where(changed, np.array(names)[draw.integers(3, size=len(machine))], machine)
    return pd.DataFrame({"text": [f"text {n}" for n in range(len(machine))], "machine": machine, "truth": truth})


def test_the_corrected_share_and_the_error_rate_are_those_of_all_texts():
    frame = population(1)
    _, key = sample(frame, "friend", "text", "machine", "machine", 150, 0)
    found = read([[frame["truth"][row] for row in key.rows]], key)
    shares = {share.name: share for share in found.shares}
    error = 100 * (frame["truth"] != frame["machine"]).mean()
    assert shares["error"].low < error < shares["error"].high
    for name in ("female", "male", "neutral"):
        assert shares[name].machine == pytest.approx(100 * (frame["machine"] == name).mean())
        assert shares[name].low < 100 * (frame["truth"] == name).mean() < shares[name].high
    # The program is wrong mostly in texts that it finds male, so its share of them is outside the interval.
    assert not shares["male"].low < shares["male"].machine < shares["male"].high


def test_intervals_hold_the_true_share_and_the_true_alpha(monkeypatch):
    monkeypatch.setattr("scoring.judge.RESAMPLES", 400)
    held, runs = Counter(), 150
    for seed in range(runs):
        frame = population(seed, sizes=(100, 300, 1600))
        _, key = sample(frame, "friend", "text", "machine", "machine", 40, seed)
        draw = np.random.default_rng(seed)
        truth = [frame["truth"][row] for row in key.rows]
        # Two judges who guess among three answers in a fifth of the texts, so α is .8².
        judges = []
        for _ in range(2):
            guesses = draw.choice(["female", "male", "neutral"], len(truth))
            judges.append(np.where(draw.random(len(truth)) < 0.2, guesses, truth).tolist())
        found = read([truth], key, seed)
        for share in found.shares[:2]:
            held[share.name] += share.low <= 100 * (frame["truth"] == share.name).mean() <= share.high
        agreed = read(judges, key, seed)
        held["alpha"] += agreed.low <= 0.64 <= agreed.high
    # Below the true coverage of 95 % by more than three standard errors.
    assert all(count > 0.88 * runs for count in (held["female"], held["male"], held["alpha"])), held


def test_no_error_in_a_sample_does_not_mean_that_there_is_none():
    key = Key("natural", "x", 0, list(range(50)), ["all"] * 50, ["yes"] * 50, {"all": 5000})
    found = {share.name: share for share in read([["yes"] * 50], key).shares}
    assert (found["error"].value, found["error"].low) == (0, 0)
    # The rule of three: 3 / 50, and a little more for an interval of two sides.
    assert 6 < found["error"].high < 8
    whole = Key("natural", "x", 0, list(range(50)), ["all"] * 50, ["yes"] * 50, {"all": 50})
    assert {share.name: share for share in read([["yes"] * 50], whole).shares}["error"].high == 0


def test_what_judges_get_says_nothing_of_strata_and_has_another_order():
    frame = population(0)
    texts, key = sample(frame, "friend", "text", "machine", "machine", 50, 3)
    assert Counter(key.strata) == {"female": 50, "male": 50, "neutral": 50}
    runs = [len(list(group)) for _, group in itertools.groupby(key.strata)]
    assert max(runs) < 20
    made = files(texts, key)
    shown = made["texts.csv"].decode() + made["judge.html"].decode()
    assert "stratum" not in shown
    assert "machine" not in shown
    assert texts == [frame["text"][row] for row in key.rows]
    again, _ = sample(frame, "friend", "text", "machine", "machine", 50, 3)
    assert again == texts


def test_a_page_escapes_texts_and_loads_nothing():
    texts, key = sample(pd.DataFrame({"text": ["<script>alert(1)</script> & {x}"]}), "natural", "text", "", "", 1, 0)
    page = files(texts, key)["judge.html"].decode()
    assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp; {x}" in page
    assert "http" not in page
    assert page.count("<fieldset>") == 1


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("number,answer\n1,maybe\n", "answers number 1 with 'maybe'; expected yes, no or nothing."),
        ("number,answer\n9,yes\n", "has the number '9'; expected 1 to 2, each once."),
        ("number,answer\n1,yes\n1,no\n", "has the number '1'; expected 1 to 2, each once."),
        ("text,answer\na,yes\n", "has the columns text, answer; expected number and answer."),
    ],
)
def test_a_wrong_file_of_answers_is_refused_in_a_sentence(tmp_path, content, said):
    key = Key("natural", "x", 0, [0, 1], ["all"] * 2, [None] * 2, {"all": 2})
    (tmp_path / "a.csv").write_text(content)
    with pytest.raises(ScoringError, match=said.replace(".", r"\.")):
        answers_of(tmp_path / "a.csv", key)


def test_the_two_commands_lead_from_texts_to_a_corrected_score(tmp_path):
    frame = population(2, sizes=(30, 40, 50))
    frame.to_csv(tmp_path / "texts.csv", index=False)
    options = ("--stratum", "machine", "--machine", "machine", "--each", 25)
    made = command("probes", "judge", "sample", tmp_path / "texts.csv", "--out", tmp_path / "judged", *options)
    assert made.returncode == 0, made.stderr
    assert "75 texts: 25 of 30 female, 25 of 40 male, 25 of 50 neutral." in made.stdout
    key = json.loads((tmp_path / "judged" / "key.json").read_text())
    for judge in ("a", "b"):
        # As Excel writes it in much of Europe.
        lines = [f"{number};{frame['truth'][row]}" for number, row in enumerate(key["rows"], 1)]
        (tmp_path / f"{judge}.csv").write_text("\ufeff" + "\n".join(["number;answer", *lines, ""]), encoding="utf-8")
    found = command("probes", "judge", "read", tmp_path / "judged", tmp_path / "a.csv", tmp_path / "b.csv")
    assert found.returncode == 0, found.stderr
    assert "2 judges answered 75 of 75 texts." in found.stdout
    assert "Krippendorff's α is 1.00 [1.00, 1.00]" in found.stdout
    assert json.loads((tmp_path / "judged" / "judgement.json").read_text())["alpha"] == 1
    nothing = command("probes", "judge", "read", tmp_path, tmp_path / "a.csv")
    assert nothing.returncode == 1
    assert "has no key.json" in nothing.stderr
    wrong = command("probes", "judge", "sample", tmp_path / "texts.csv", "--text", "txt", "--out", tmp_path / "x")
    assert "There is no column 'txt'; the columns are text, machine, truth." in wrong.stderr


def annotation_files(size):
    """The tables that the authors of UnStereoEval drew for people to read, by the number of texts of each set."""
    found = sorted(mirror().glob(f"raw.githubusercontent.com/PastelBelem8/*/*/notebooks/**/annotate_*_{size}each.csv"))
    assert len(found) == {50: 4, 300: 3}[size]
    return found


@pytest.mark.mirror
def test_the_samples_of_the_authors_are_read_and_drawn_again_by_the_same_command(tmp_path):
    for path in annotation_files(300):
        options = ("--question", "natural", "--text", "template", "--stratum", "dataset")
        made = command("probes", "judge", "sample", path, "--out", tmp_path / path.stem, *options)
        assert made.returncode == 0, made.stderr
        key = json.loads((tmp_path / path.stem / "key.json").read_text())
        # The authors took 50 of each of their three sets.
        assert Counter(key["strata"]) == {"Ours-5": 50, "Ours-10": 50, "Ours-20": 50}
        assert all(size >= 300 for size in key["sizes"].values())
        texts = pd.read_csv(tmp_path / path.stem / "texts.csv")["text"]
        assert not texts.str.contains(r"[{}\[\]]").any()
    for path in annotation_files(50):
        frame = pd.read_csv(path)
        texts, key = sample(frame, "natural", "template", "dataset", "", 50, 0)
        assert sorted(key.rows) == list(range(len(frame)))
        assert set(key.sizes.values()) == {50}


@pytest.mark.mirror
def test_the_annotators_of_stereoset_agree_as_a_loop_over_all_pairs_says(monkeypatch):
    """StereoSet has five labels for each sentence; the published label is read as that of a program."""
    path = next(mirror().glob("raw.githubusercontent.com/moinnadeem/StereoSet/*/data/dev.json"))
    clusters = json.loads(path.read_bytes())["data"]["intrasentence"]
    sentences = [s for cluster in clusters if cluster["bias_type"] == "gender" for s in cluster["sentences"]]
    names = sorted({label["label"] for s in sentences for label in s["labels"]})
    monkeypatch.setitem(QUESTIONS, "stereotype", Question("Which is it?", {name: name for name in names}))
    judges = [[s["labels"][place]["label"] for s in sentences] for place in range(5)]
    gold = [s["gold_label"] for s in sentences]
    key = Key("stereotype", "dev.json", 0, list(range(len(gold))), gold, gold, dict(Counter(gold)))
    found = read(judges, key)
    assert (found.texts, found.judges) == (765, 5)
    assert found.alpha == pytest.approx(slow_alpha(judges))
    assert found.low < found.alpha < found.high
    error = next(share for share in found.shares if share.name == "error")
    assert error.value == pytest.approx(
        100 * np.mean([a != b for judge in judges for a, b in zip(judge, gold, strict=True)])
    )
    assert (error.low, error.high) == (pytest.approx(error.value), pytest.approx(error.value))
