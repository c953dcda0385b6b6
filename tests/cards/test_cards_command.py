"""``probes card`` with the Hub's real client, against a Hub on this machine."""

import xml.etree.ElementTree as ET

import pytest
import yaml
from huggingface_hub import DatasetCard, HfApi, ModelCard

from cards.formats.results_card import MARKER, with_card
from cards.leaderboard import entries_of
from scoring.inference.checkpoint import identity
from scoring.uploads import DECLARATIONS
from tests.cards.made import PROBES, RUN, cards, data, estimate, manifest, run
from tests.support.commands import client
from tests.support.hub import GUEST, File, Hub

README = b"---\nlicense: mit\n---\n# Mine\n\nWords.\n"


def read_back():
    """The results, the pull requests and the values in the card of the model, read with the Hub's own client."""
    with client():
        api = HfApi()
        entries = api.model_info("org/model", expand=["evalResults"]).eval_results
        pulls = [[pull.num, pull.status] for pull in api.get_repo_discussions("org/model")]
        index = [entry.metric_value for entry in ModelCard.load("org/model").data.eval_results or []]
    return {"results": entries or [], "pulls": pulls, "index": index}


@pytest.fixture
def hub(tmp_path):
    with Hub(cache=tmp_path / "cache") as hub:
        hub.add("model", "org/model", {"README.md": File(README), "config.json": File(b"{}")})
        yield hub


def model(hub):
    return hub.repos["model", "org/model"]


def test_a_pull_request_is_opened_and_nothing_is_changed(hub, tmp_path):
    head = model(hub).branches["main"]
    result = cards("org/model", run(tmp_path / "run"), "--data", data(tmp_path / "data"), "--push")
    assert result.returncode == 0, result.stderr
    assert f"Pull request: {hub.url}/org/model/discussions/1" in result.stdout
    assert model(hub).branches["main"] == head
    (pull,) = model(hub).pulls.values()
    assert pull.base == head
    assert pull.title == "Gender-bias scores of neutral, unstereo"
    tree = model(hub).at("refs/pr/1").tree
    added = {".eval_results/neutral.yaml", ".eval_results/unstereo.yaml", "images/gender-bias.svg"}
    assert set(tree) == {"README.md", "config.json", *added}
    assert ET.fromstring(tree["images/gender-bias.svg"].data).tag.endswith("svg")


def test_what_would_change_is_one_screen_before_anything_is_sent(hub, tmp_path):
    result = cards("org/model", run(tmp_path / "run"), "--data", data(tmp_path / "data"), "--push")
    lines = result.stdout.splitlines()
    assert len(lines) < 24
    assert "  org/gender-neutral-probes stsb: Gender attribute score (GAS) 0.25 [0.20, 0.31], lower is better" in lines
    assert [line for line in lines if line.startswith("add    .eval_results/neutral.yaml (+")]
    position = next(n for n, line in enumerate(lines) if line.startswith("change README.md (+"))
    assert position < next(n for n, line in enumerate(lines) if line.startswith("Pull request"))
    whole = cards("org/model", tmp_path / "run", "--data", tmp_path / "data", "--dry-run", "--diff").stdout.splitlines()
    assert "+++ .eval_results/neutral.yaml" in whole
    assert "+  value: 75.0" in whole
    assert not [line for line in whole if line.startswith("-") and "Words" in line]


def test_the_same_pull_request_is_not_opened_twice_and_another_run_updates_it(hub, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", GUEST)
    places = "--data", data(tmp_path / "data"), "--push"
    assert cards("org/model", run(tmp_path / "run"), *places).returncode == 0
    again = cards("org/model", tmp_path / "run", *places)
    assert f"Pull request, unchanged: {hub.url}/org/model/discussions/1" in again.stdout
    scores = (estimate(value=0.5, low=0.4, high=0.6), *RUN.estimates[1:])
    other = cards("org/model", run(tmp_path / "run", estimates=scores), *places)
    assert other.returncode == 0, other.stderr
    assert f"Pull request: {hub.url}/org/model/discussions/1" in other.stdout
    assert len(model(hub).pulls) == 1
    assert b"value: 50.0" in model(hub).at("refs/pr/1").tree[".eval_results/neutral.yaml"].data
    assert cards("org/model", run(tmp_path / "other", prompt="kind"), *places).returncode == 0
    assert len(model(hub).pulls) == 2


def test_the_results_are_published_as_a_data_set_and_are_the_source(hub, tmp_path):
    result = cards(
        "org/model", run(tmp_path / "run"), "--data", data(tmp_path / "data"), "--results", "org/results", "--push"
    )
    assert result.returncode == 0, result.stderr
    (path,) = [name for name in hub.repos["dataset", "org/results"].at("main").tree if name.endswith(".json")]
    address = f"{hub.url}/datasets/org/results/blob/main/{path}"
    assert f"Results: {address}" in result.stdout
    assert (
        hub.repos["dataset", "org/results"].at("main").tree[path].data == (tmp_path / "run/results.json").read_bytes()
    )
    (entry, _) = yaml.safe_load(model(hub).at("refs/pr/1").tree[".eval_results/neutral.yaml"].data)
    assert entry["source"] == {"url": address, "name": "Results"}
    # The card of the data set lists the file; the client reads its metadata.
    with client():
        card = DatasetCard.load("org/results")
    assert f"](<{path}>)" in card.text
    assert (card.data.pretty_name, card.data.license) == ("results", "apache-2.0")
    (tmp_path / "copy.json").write_bytes(hub.repos["dataset", "org/results"].at("main").tree[path].data)
    assert list(entries_of(tmp_path / "copy.json", DECLARATIONS)), "a leaderboard takes the file, as the card says"


def test_a_dry_run_shows_the_card_of_a_model_of_the_hub_without_a_network(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    made, built = run(tmp_path / "run"), data(tmp_path / "data")
    result = cards("org/model", made, "--data", built, "--dry-run", "--diff")
    assert result.returncode == 0, result.stderr
    assert "The Hub cannot be reached (ConnectError)" in result.stdout
    assert "add    README.md" in result.stdout
    assert "+## Bias" in result.stdout
    assert "Nothing was written or sent (--dry-run)." in result.stdout
    without = cards("org/model", made, "--dry-run")
    assert without.returncode == 1
    assert "give --data the folder of the built data sets." in without.stderr


def test_the_card_of_results_lists_all_runs_and_another_card_stays(hub, tmp_path):
    with client():
        api = HfApi()
        assert sorted(with_card(api, "org/results", {"a/results.json": b"{}"})) == ["README.md", "a/results.json"]
        hub.add("dataset", "org/results", {"a/results.json": File(b"{}"), "README.md": File(MARKER.encode())})
        again = with_card(api, "org/results", {"b/results.json": b"{}", "b/examples/x.parquet": b""})
        text = again["README.md"].decode()
        assert "| a | [results.json](<a/results.json>) |" in text
        assert "| b | [results.json](<b/results.json>) |" in text
        assert "license:" not in text, "texts of examples have licences of their own"
        hub.add("dataset", "org/mine", {"README.md": File(b"# Mine")})
        assert sorted(with_card(api, "org/mine", {"a/results.json": b"{}"})) == ["a/results.json"]


def test_the_revision_of_a_published_data_set_is_its_commit(hub, tmp_path):
    for name in (PROBES, "unstereo"):
        repo = hub.add("dataset", f"org/{name}", {"manifest.json": File(manifest(name).encode())})
        repo.tags["v1.2.0"] = repo.branches["main"]
    result = cards("org/model", run(tmp_path / "run"))
    assert result.returncode == 0, result.stderr
    (entry, _) = yaml.safe_load((tmp_path / "run" / "card" / ".eval_results" / "neutral.yaml").read_text())
    assert entry["dataset"]["revision"] == hub.repos["dataset", f"org/{PROBES}"].branches["main"]


def test_a_merged_pull_request_is_read_back_with_the_hubs_own_client(hub, tmp_path):
    cards("org/model", run(tmp_path / "run"), "--data", data(tmp_path / "data"), "--push")
    assert read_back()["pulls"] == [[1, "open"]]
    assert read_back()["results"] == []
    with client():
        HfApi().merge_pull_request("org/model", 1)
    merged = read_back()
    assert merged["pulls"] == [[1, "merged"]]
    assert merged["index"] == [0.25, 0.25, 55.0]
    assert [(entry.dataset_id, entry.task_id, entry.value) for entry in merged["results"]] == [
        (f"org/{PROBES}", "stsb", 75.0),
        (f"org/{PROBES}", "templates", 75.0),
        ("org/unstereo", "pronoun-pairs", 55.0),
    ]
    assert merged["results"][0].source_url is None
    assert merged["results"][0].date == "2023-11-14"
    again = cards("org/model", tmp_path / "run", "--data", tmp_path / "data", "--push")
    assert "org/model has these files already." in again.stdout
    assert len(model(hub).pulls) == 1


def test_who_may_not_write_may_propose_and_the_token_is_nowhere(hub, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", GUEST)
    result = cards("org/model", run(tmp_path / "run"), "--data", data(tmp_path / "data"), "--push")
    assert result.returncode == 0, result.stderr
    assert len(model(hub).pulls) == 1
    written = [path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()]
    assert GUEST not in result.stdout + result.stderr
    assert not [content for content in written if GUEST.encode() in content]


def test_by_default_files_are_written_and_nothing_is_sent(hub, tmp_path):
    result = cards("org/model", run(tmp_path / "run"), "--data", data(tmp_path / "data"))
    assert result.returncode == 0, result.stderr
    where = tmp_path / "run" / "card"
    assert f"Written: {where}" in result.stdout
    assert (where / "README.md").read_text().startswith("---\nlicense: mit\n")
    assert yaml.safe_load((where / ".eval_results" / "unstereo.yaml").read_text())[0]["value"] == 55.0
    assert {request.method for request in hub.requests} <= {"GET", "HEAD"}


def test_a_folder_of_a_model_needs_no_hub(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "README.md").write_bytes(README)
    (folder / "config.json").write_text("{}")
    made = run(tmp_path / "run", model=str(folder), revision=identity(folder))
    result = cards(folder, made, "--data", data(tmp_path / "data"), "--out", tmp_path / "out")
    assert result.returncode == 0, result.stderr
    (entry,) = yaml.safe_load((tmp_path / "out" / ".eval_results" / "unstereo.yaml").read_text())
    assert "source" not in entry
    assert str(tmp_path) not in (tmp_path / "out" / "README.md").read_text()
    result = cards(folder, tmp_path / "run", "--data", tmp_path / "data", "--push")
    assert result.returncode == 1
    assert "is a folder; give the name of a repository of the Hub with --push." in result.stderr
