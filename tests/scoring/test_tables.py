"""Reading built data sets: what is there, what is not, and what is not as it was."""

from collections import Counter

import datasets
import numpy as np
import pyarrow.parquet as pq
import pytest

from scoring import benchmarks
from scoring.asking import run
from scoring.benchmarks import _prompts
from scoring.inputs import prompt_file, tables
from scoring.types import ScoringError
from tests.scoring.made import data_set

ROWS = [{"id": f"r{n}", "text": f"text {n}"} for n in range(10)]


@pytest.fixture
def folder(tmp_path):
    return str(data_set(tmp_path, "made", {("one", "test"): ROWS}))


def test_rows_come_with_their_config_split_and_version(folder):
    loaded = tables.load(folder, "made", "one", "test")
    assert loaded.name == "made/one/test"
    assert loaded.version.startswith("1.2.3 sha256:")
    assert loaded.rows[0] == {"id": "r0", "text": "text 0", "config": "one", "split": "test"}


def test_a_limit_takes_the_same_rows_every_time_and_says_so(folder):
    loaded = tables.load(folder, "made", "one", "test", limit=4)
    ids = [row["id"] for row in loaded.rows]
    assert ids == sorted(set(ids))
    assert len(ids) == 4
    assert loaded.rows == tables.load(folder, "made", "one", "test", limit=4).rows
    assert loaded.version.endswith(", 4 of 10 rows")


def jobs_asked():
    """Two templates of eight jobs of women and four of men, each without and with two debiasing prompts."""
    for number in range(12):
        for template in ("implicit-a", "implicit-b"):
            for debiasing in ("none", "1", "2"):
                about = {"job": f"job {number}", "group": "male" if number % 3 == 2 else "female"}
                about |= {"template": template, "debiasing": debiasing, "female_percent": 50.0, "level": "none"}
                options = {f"options_{gender}": [f" {gender}"] for gender in ("male", "female", "diverse")}
                yield {"id": f"{template}-{debiasing}-{number}", "prompt": "A", **about, **options}


@pytest.fixture
def jobs(tmp_path):
    return str(data_set(tmp_path, "occugender", {("implicit", "test"): list(jobs_asked())}))


def asked(folder, limit=None, groups="headline"):
    (part,) = run.read([benchmarks.get("occugender")], folder, "clean", limit, groups=groups)
    (split,) = part.splits
    return list(split.rows), split.version


def test_rows_beyond_the_headline_are_asked_on_request_alone(jobs):
    plain, version = asked(jobs)
    assert (len(plain), {row["debiasing"] for row in plain}) == (24, {"none"})
    every, whole = asked(jobs, groups="all")
    assert len(every) == 72
    # All rows of the headline are there, so neither run is partial and both are of the same data.
    assert version == whole
    assert "," not in version


@pytest.mark.parametrize("limit", [3, 6, 9])
def test_a_limit_takes_as_many_clusters_of_the_headline_and_strata_in_their_proportions(jobs, limit):
    rows, version = asked(jobs, limit)
    assert len({row["job"] for row in rows}) == len(rows) == limit
    assert {row["debiasing"] for row in rows} == {"none"}
    # Two of three jobs are those of women.
    assert Counter(row["group"] for row in rows) == {"female": 2 * limit // 3, "male": limit // 3}
    assert version.endswith(f", {limit} of 72 rows")
    assert rows == asked(jobs, limit)[0]


def test_a_limit_above_the_number_of_clusters_takes_second_rows(jobs):
    rows, _ = asked(jobs, 20)
    assert sorted(Counter(row["job"] for row in rows).values()) == [1] * 4 + [2] * 8


def test_a_limit_never_tears_the_prompts_of_a_pair(tmp_path):
    file = tmp_path / "mine.csv"
    file.write_text("man,woman\n" + "".join(f"He {n},She {n}\n" for n in range(20)), encoding="utf-8")
    chosen = _prompts.benchmark(prompt_file.read(file))
    for limit, count in ((1, 2), (2, 2), (7, 6), (39, 38)):
        (part,) = run.read([chosen], "nowhere", "clean", limit)
        pairs = Counter(row["pair"] for row in part.splits[0].rows)
        assert set(pairs.values()) == {2}, limit
        assert sum(pairs.values()) == count
    groups = tmp_path / "groups.csv"
    lines = "".join(f"A {n},{'abc'[n % 3]}\n" for n in range(30))
    groups.write_text(f"prompt,group\n{lines}", encoding="utf-8")
    (part,) = run.read([_prompts.benchmark(prompt_file.read(groups))], "nowhere", "clean", 6)
    assert Counter(row["group"] for row in part.splits[0].rows) == {"a": 2, "b": 2, "c": 2}


def test_a_missing_data_set_names_the_command_that_builds_it(tmp_path):
    with pytest.raises(tables.DataMissing) as error:
        tables.load(str(tmp_path), "unstereo", "ours-5", "test")
    assert str(error.value) == (
        f"There is no built data set unstereo in {tmp_path}; run probes build unstereo --out {tmp_path}, "
        "or give --data another folder or hub:ORG."
    )


def test_a_missing_default_folder_is_no_organisation_of_the_hub():
    with pytest.raises(tables.DataMissing, match="nothing-of-the-kind in output"):
        tables.load("output", "nothing-of-the-kind", "one", "test")


def test_a_folder_that_is_not_there_is_said_without_asking_the_hub(monkeypatch):
    monkeypatch.setattr(datasets, "load_dataset", lambda *_, **__: pytest.fail("the Hub was asked"))
    with pytest.raises(tables.DataMissing, match="build made --out nowhere"):
        tables.load("nowhere", "made", "one", "test")


def test_a_config_that_was_left_out_tells_why(folder):
    with pytest.raises(tables.DataMissing, match="left/test"):
        tables.load(folder, "made", "left", "test")


def test_a_missing_split_is_told(folder):
    with pytest.raises(tables.DataMissing, match="one/train"):
        tables.load(folder, "made", "one", "train")


def test_an_altered_file_is_refused(folder, tmp_path):
    with (tmp_path / "made" / "data" / "one" / "test.parquet").open("ab") as file:
        file.write(b" ")
    with pytest.raises(ScoringError, match=r"test\.parquet"):
        tables.load(folder, "made", "one", "test")


def test_a_broken_manifest_is_told(folder, tmp_path):
    (tmp_path / "made" / "manifest.json").write_text("{}")
    with pytest.raises(ScoringError, match="is not a manifest of this version"):
        tables.load(folder, "made", "one", "test")


def test_an_organisation_of_the_hub_is_asked_for_the_config_split_and_revision(monkeypatch, folder):
    asked = []

    def load_dataset(name, config, split, revision):
        asked.append((name, config, split, revision))
        return datasets.Dataset.from_list(ROWS)

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    loaded = tables.load("hub:some-org@v1.0.0", "made", "one", "test")
    assert asked == [("some-org/made", "one", "test", "v1.0.0")]
    local = tables.load(folder, "made", "one", "test")
    assert loaded.rows == local.rows
    assert loaded.version == local.version.replace("1.2.3", "v1.0.0")


def test_text_that_is_not_on_the_hub_is_restored_and_its_licence_named(monkeypatch, folder):
    whole = pq.read_table(tables.load(folder, "made", "one", "test").whole.path)
    hashed = datasets.Dataset.from_list([{"id": row["id"], "statement_sha256": "0"} for row in ROWS])
    monkeypatch.setattr(datasets, "load_dataset", lambda *_, **__: hashed)
    monkeypatch.setattr(tables, "restored", lambda table, name, config: whole)
    loaded = tables.load("hub:some-org", "gender-neutral-probes", "stsb", "test")
    assert [row["id"] for row in loaded.rows] == [row["id"] for row in ROWS]
    assert loaded.note == (
        "The text of gender-neutral-probes/stsb is not on the Hub, because of its licence (LicenseRef-STS-Benchmark), "
        "and was read from its source; do not publish it."
    )


def test_what_the_hub_does_not_have_is_one_sentence(monkeypatch):
    def load_dataset(*_, **__):
        raise FileNotFoundError("secret")

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    with pytest.raises(tables.DataMissing) as error:
        tables.load("hub:some-org", "made", "one", "test")
    assert str(error.value) == (
        "some-org/made with one/test could not be downloaded from the Hub (FileNotFoundError); give --data another "
        "organisation, or a folder that probes build wrote."
    )


@pytest.mark.fault(15)
@pytest.mark.parametrize("source", ["../no-such-x", "a|b", "a\0b"])
def test_a_hostile_source_is_a_folder_that_is_not_there(source):
    with pytest.raises(tables.DataMissing, match="There is no folder"):
        tables.load(source, "made", "one", "test")


def test_columns_of_numbers_have_nan_for_none_and_columns_of_text_the_empty_text():
    table = tables.as_table([{"a": 1.5, "b": "x", "c": True, "d": None}, {"a": None, "b": None, "c": False, "d": None}])
    np.testing.assert_array_equal(table["a"], [1.5, np.nan])
    assert list(table["b"]) == ["x", ""]
    assert table["c"].dtype == bool
    assert np.isnan(table["d"]).all()
    assert tables.as_table([]) == {}
