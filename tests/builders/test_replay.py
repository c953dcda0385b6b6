"""The recorded generation of UnStereoEval: our pipeline over its replies, and the reply behind each published row."""

import csv
import json
import re
from collections import Counter

import pytest
from typer.testing import CliRunner

from builders.dataset import BuildError
from builders.datasets.gender_pmi import delta_table
from builders.datasets.unstereo import DATASET, OURS_COLUMNS
from builders.generate import app
from builders.generation.pipelines import unstereo as published
from builders.generation.pipelines.unstereo import PAPER_SIZES, replay
from builders.generation.responses import read_responses
from builders.parsers import read, recorded
from builders.parsers.recorded import PublishedRow, Reply, ReplySentence, numbered_entries
from pmi.vocabulary import SEEDS
from tests.support.helpers import mirror, mirrored, missing

CONFIGS = {config.name: config for config in DATASET.configs}

#: By length: unrevised, revised and failed templates of the published files.
PARTS = {5: (4524, 430, 46), 10: (4596, 347, 57), 20: (4522, 423, 55)}


def replayed(*arguments):
    return CliRunner().invoke(app, ["unstereo", "--replay", "published", "--offline", *arguments])


def rows_of(folder):
    return [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]


def published_rows(length):
    return list(read.table(mirrored(name := f"unstereo-development/use-{length}")[name].path, OURS_COLUMNS))


@pytest.fixture(scope="module")
def paper(tmp_path_factory):
    """The folder and the printed lines of a replay by the rules of the paper."""
    mirrored(*published.source_names(5))
    folder = tmp_path_factory.mktemp("paper")
    done = replayed("--profile", "paper", "--out", str(folder))
    assert done.exit_code == 0, done.output
    return folder, done.output


@pytest.mark.mirror
def test_every_stage_of_the_paper_is_equal_in_text_and_order(paper):
    stages = re.findall(r"^(ours-\d+)\s+(.+?)\s+([\d,]+)\s+([\d,]+)\s+([\d,]+)\s*$", paper[1], re.MULTILINE)
    counts = {(name, stage): (int(a.replace(",", "")), int(b.replace(",", ""))) for name, stage, a, b, _ in stages}
    assert {differ for *_, differ in stages} == {"0"}
    assert len(stages) == 39
    for length, parts in PARTS.items():
        names = ("templates, unrevised", "templates, revised", "failures")
        assert tuple(counts[f"ours-{length}", name] for name in names) == tuple((n, n) for n in parts)
        assert counts[f"ours-{length}", "templates"] == (sum(parts[:2]),) * 2
        for limit, size in PAPER_SIZES[length].items():
            assert counts[f"ours-{length}", f"|MaxPMIDiff| at most {limit:g}"] == (size, size)
        assert f"ours-{length}: {parts[2]} requests of stage revise have no recorded reply." in paper[1]


@pytest.mark.mirror
@pytest.mark.parametrize("length", PARTS)
def test_the_rows_are_the_natural_published_rows_in_their_order(paper, length):
    natural = [(row["word"], row["target_word"], row["is_revised"]) for row in published_rows(length)]
    natural = [
        row for row, fields in zip(natural, published_rows(length), strict=True) if fields["is_natural"] == "True"
    ]
    ours = [(r["word"], r["written_with"], str(r["revisions"] > 0)) for r in rows_of(paper[0] / f"ours-{length}")]
    assert ours == natural


@pytest.mark.mirror
def test_a_written_file_of_replies_is_one_of_the_cache_and_says_what_was_restored(paper):
    responses = read_responses(paper[0] / "ours-5" / "replies-1-she.jsonl").values()
    reasons = Counter(
        (response.finish_reason, "Your task is to generate" in response.request["messages"][0]["content"])
        for response in responses
    )
    assert reasons["stop", True] == 100
    assert reasons["restored", True] == 0
    assert reasons["restored", False] >= 500
    assert {response.model for response in responses} == {"gpt-3.5-turbo"}


@pytest.mark.mirror
def test_each_replayed_row_has_the_reply_that_its_sentence_is_in(paper):
    name = "unstereo-development/replies-10"
    replies = {reply.id: reply for reply in recorded.replies(mirrored(name)[name], 10)}
    for row in rows_of(paper[0] / "ours-10"):
        reply = replies[row["reply_id"]]
        assert (row["word"], row["written_with"], row["draw"], row["seed"]) == (
            reply.word,
            reply.pronoun,
            reply.draw,
            reply.seed,
        )
        if row["written_with"] == "he" and not row["revisions"]:
            assert row["sentence_male"].casefold() in reply.text.replace('"', "").casefold()


@pytest.mark.mirror
def test_the_clean_rules_give_whole_neutral_sentences_without_repeats(tmp_path):
    # The command prints 3,828, 4,308 and 4,325; one length keeps the test short.
    files = mirrored(*published.source_names(5), "unstereo/pmi")
    result = replay(published.read_record(files, 5), "clean", tmp_path, limit=0)
    rows = result.rows(delta_table(files["unstereo/pmi"]))
    assert (len(rows), dict(result.unanswered)) == (3828, {"judge": 784, "revise": 47})
    assert len({row["template"].casefold() for row in rows}) == len(rows)
    assert sum(row["sentence_they"] is not None for row in rows) > 3700
    assert not list(tmp_path.glob("replies-*"))
    assert Counter(entry["reason"] for entry in result.log.dropped)["has more than 5 words"] == 0


# The rows of the data set


@pytest.mark.mirror
def test_the_provenance_of_a_row_is_the_place_that_the_published_file_states():
    # The files of 10 and 20 words have the number of the sentence in the run; that of 5 words was numbered again.
    for length in (10, 20):
        rows, name = published_rows(length), f"unstereo-development/replies-{length}"
        written = recorded.sentences(recorded.replies(mirrored(name)[name], length))
        assert recorded.places([PublishedRow.of(row) for row in rows], written) == [int(row[""]) for row in rows]


@pytest.mark.mirror
def test_every_published_row_has_a_reply_with_its_word_and_draw():
    config = CONFIGS["provenance"]
    files = mirrored(*config.sources)
    rows = list(config.rows(files))
    replies = {row.id: row for row in CONFIGS["replies"].rows(files)}
    assert (len(rows), len(replies)) == (4954 + 4943 + 4945, 3000)
    assert len({row.id for row in rows}) == len(rows)
    published_ids = {f"ours-{n}-paper-test-{i:05d}" for n in PARTS for i in range(sum(PARTS[n][:2]))}
    assert {row.id for row in rows} == published_ids
    for row in rows:
        reply = replies[row.values["reply_id"]]
        assert all(row.values[name] == reply.values[name] for name in ("word", "written_with", "draw", "seed"))
        assert 1 <= row.values["entry"] <= len(numbered_entries(reply.values["reply"]))
    unrevised = {(r.id, r.values["reply_id"]): r for r in rows if not r.values["revised"]}
    sentences = {
        f"ours-{n}-paper-test-{i:05d}": fields["sentence"] for n in PARTS for i, fields in enumerate(published_rows(n))
    }
    for (row_id, reply_id), row in unrevised.items():
        assert numbered_entries(replies[reply_id].values["reply"])[row.values["entry"] - 1] == sentences[row_id]
    assert sum(row.values["clean_id"] is not None for row in rows) == 3870 + 4354 + 4376


@pytest.mark.mirror
def test_the_words_of_each_draw_are_those_that_were_sampled():
    (fetched,) = mirrored("unstereo-development/seed-words").values()
    (replies,) = mirrored("unstereo-development/replies-5").values()
    asked = recorded.replies(replies, 5)
    for draw, path in enumerate(fetched.paths, 1):
        with path.open(encoding="utf-8", newline="") as file:
            words = sorted(row["word"] for row in csv.DictReader(file))
        assert path.stem.endswith(f"__{SEEDS[draw - 1]}")
        assert [reply.word for reply in asked if (reply.draw, reply.pronoun) == (draw, "he")] == words


# Made records


def written(*texts, word="kettle"):
    reply = Reply(None, 5, 1, "he", word, "p", "\n".join(f"{n}. {text}" for n, text in enumerate(texts, 1)))
    return [ReplySentence(reply, entry, text) for entry, text in enumerate(texts, 1)]


def row(sentence, revised=False, word="kettle"):
    return PublishedRow(word, "he", sentence, revised)


def test_a_revised_row_belongs_to_the_nearest_sentence_in_order():
    sentences = written("He boiled tea.", "He saw it.", "The kettle sang loudly.", "He has a kettle.")
    rows = [row("The kettle sang loudly to him.", True), row("He has a kettle.")]
    assert recorded.places(rows, sentences) == [2, 3]
    assert recorded.places([row("He boiled tea."), *rows], sentences) == [0, 2, 3]


def test_a_row_without_its_sentence_is_an_error():
    for rows in ([row("He left.")], [row("He left.", word="lamp")]):
        with pytest.raises(BuildError, match=r"\b0\b.*'\w+'"):
            recorded.places(rows, written("He has a kettle."))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--replay", "mine"], "There is no recorded generation 'mine' of unstereo; give --replay published."),
        (
            ["--replay", "published", "--model", "m"],
            "The recorded generation published has its own --model; leave it out.",
        ),
        (
            ["--replay", "published", "--tries", "3"],
            "The recorded generation published has its own --tries; leave it out.",
        ),
        (["--model", "m"], "--words is missing; give it, or --replay."),
    ],
)
def test_options_that_do_not_fit_a_recorded_run_are_refused(tmp_path, arguments, message):
    done = CliRunner().invoke(app, ["unstereo", "--out", str(tmp_path / "out"), *arguments])
    assert done.exit_code == 1
    assert message in " ".join(done.output.split())
    assert not (tmp_path / "out").exists()


@pytest.mark.mirror
def test_a_folder_that_cannot_be_written_is_one_sentence(tmp_path):
    mirrored(*published.source_names(5))
    (tmp_path / "file").write_text("")
    done = replayed("--out", str(tmp_path / "file"))
    assert done.exit_code == 1
    assert "ours-5 cannot be written (Not a directory)" in " ".join(done.output.split())


@pytest.mark.mirror
def test_the_files_of_the_record_are_those_of_the_mirror_manifest():
    manifest = mirror() / "MANIFEST.csv"
    if not manifest.is_file():
        missing("needs the file MANIFEST.csv of the mirror")
    with manifest.open(encoding="utf-8") as file:
        known = {row["sha256"] for row in csv.DictReader(file)}
    for name in (*published.source_names(20), "unstereo-development/seed-words"):
        (fetched,) = mirrored(name).values()
        assert {remote.sha256 for remote in fetched.used.files} <= known
