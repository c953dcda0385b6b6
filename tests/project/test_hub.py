"""The Hub on this machine keeps what the real client sends it, and gives it back."""

import json
import subprocess
import sys
import urllib.error
import urllib.request

import pytest

from tests.support.helpers import ROOT
from tests.support.hub import GUEST, TOKEN, File, Hub, card_faults, result_faults

#: Publishes, changes and reads a repository with the Hub's own client, and prints what it was told.
CLIENT = """
import json, sys
from pathlib import Path
from huggingface_hub import CommitOperationDelete, HfApi, hf_hub_download, snapshot_download
from huggingface_hub.errors import HfHubHTTPError
api, folder = HfApi(), Path(sys.argv[1])
name = {"repo_id": "org/made", "repo_type": "dataset"}
api.create_repo(**name)
api.upload_folder(folder_path=folder, commit_message="first", **name)
api.create_tag(tag="v1", **name)
first = api.repo_info(**name).sha
(folder / "README.md").write_text("changed")
api.upload_file(path_or_fileobj=folder / "README.md", path_in_repo="README.md", **name)
api.create_branch(branch="old", revision="v1", **name)
api.delete_folder("inner", **name)
api.create_commit(operations=[CommitOperationDelete("b.txt")], commit_message="less", **name)
def told(call, *args, **more):
    try:
        return call(*args, **more)
    except HfHubHTTPError as error:
        return type(error).__name__, error.response.status_code
refs, gone = api.list_repo_refs(**name), [CommitOperationDelete("a.bin")]
print(json.dumps({
    "who": api.whoami()["name"],
    "again": told(api.create_repo, **name),
    "tag again": told(api.create_tag, tag="v1", **name),
    "stale": told(api.create_commit, operations=gone, commit_message="x", parent_commit="0" * 40, **name),
    "no revision": told(api.repo_info, revision="v9", **name)[0],
    "no file": told(hf_hub_download, filename="none", **name)[0],
    "no repository": told(api.repo_info, "org/none")[0],
    "first": first,
    "branches": {r.name: r.target_commit for r in refs.branches},
    "tags": {r.name: r.target_commit for r in refs.tags},
    "titles": [c.title for c in api.list_repo_commits(**name)],
    "files": sorted(api.list_repo_files(**name)),
    "old files": sorted(api.list_repo_files(revision="old", **name)),
    "tree": [type(e).__name__ + " " + e.path for e in api.list_repo_tree(revision="v1", **name)],
    "inside": [e.path for e in api.list_repo_tree(path_in_repo="inner", revision="v1", **name)],
    "paths": [e.path for e in api.get_paths_info(paths=["a.bin", "inner", "none"], revision="v1", **name)],
    "exists": [api.file_exists(filename=f, **name) for f in ("a.bin", "b.txt")],
    "read": Path(hf_hub_download(filename="README.md", revision="v1", **name)).read_text(),
    "large": Path(hf_hub_download(filename="a.bin", **name)).read_bytes() == b"\\0" * 5000,
    "snapshot": sorted(p.name for p in Path(snapshot_download(**name)).iterdir()),
}))
api.delete_tag(tag="v1", **name)
"""


def run(code, *arguments):
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """A Hub after the client's visit, and what the client was told."""
    root = tmp_path_factory.mktemp("hub")
    folder = root / "folder"
    (folder / "inner").mkdir(parents=True)
    (folder / "a.bin").write_bytes(b"\0" * 5000)
    for name in ("README.md", "b.txt", "inner/c.txt"):
        (folder / name).write_text(f"first {name}")
    with Hub(cache=root / "cache") as hub:
        yield hub, json.loads(run(CLIENT, folder))


def test_what_is_uploaded_comes_back(published):
    _, told = published
    assert told["who"] == "tester"
    assert told["read"] == "first README.md"
    assert told["large"]
    assert told["files"] == ["README.md", "a.bin"]
    assert told["old files"] == ["README.md", "a.bin", "b.txt", "inner/c.txt"]
    assert told["snapshot"] == ["README.md", "a.bin"]
    assert told["exists"] == [True, False]


def test_commits_tags_and_branches_are_listed(published):
    hub, told = published
    titles = ["less", *(f"{what} with huggingface_hub" for what in ("Delete folder inner", "Upload README.md"))]
    assert told["titles"] == [*titles, "first", "initial commit"]
    assert told["tags"] == {"v1": told["first"]}
    assert told["branches"]["old"] == told["first"] != told["branches"]["main"]
    assert hub.repos["dataset", "org/made"].tags == {}


def test_a_tree_has_folders_and_files(published):
    _, told = published
    assert sorted(told["tree"]) == [
        "RepoFile README.md",
        "RepoFile a.bin",
        "RepoFile b.txt",
        "RepoFolder inner",
    ]
    assert told["inside"] == ["inner/c.txt"]
    assert sorted(told["paths"]) == ["a.bin", "inner"]


def test_only_large_files_go_by_their_digest(published):
    hub, _ = published
    files = hub.repos["dataset", "org/made"].at("main").tree
    assert {path: file.large for path, file in files.items()} == {"README.md": False, "a.bin": True}
    assert list(hub.large) == [files["a.bin"].sha256]


def test_what_cannot_be_is_refused_as_the_hub_does(published):
    _, told = published
    assert told["again"] == ["HfHubHTTPError", 409]
    assert told["tag again"] == ["HfHubHTTPError", 409]
    assert told["stale"] == ["HfHubHTTPError", 412]
    assert told["no revision"] == "RevisionNotFoundError"
    assert told["no file"].endswith("EntryNotFoundError")
    assert told["no repository"] == "RepositoryNotFoundError"


def fetched(hub, path, **headers):
    request = urllib.request.Request(f"{hub.url}{path}", headers=headers)
    with urllib.request.urlopen(request) as result:
        return result.status, dict(result.headers), result.read()


@pytest.mark.parametrize(("wanted", "expected"), [("bytes=2-4", b"234"), ("bytes=7-", b"789"), ("bytes=-2", b"89")])
def test_a_range_of_a_file_is_what_was_asked_for(published, wanted, expected):
    hub, _ = published
    hub.add("model", "org/digits", {"d.txt": File(b"0123456789")})
    status, headers, body = fetched(hub, "/org/digits/resolve/main/d.txt", Range=wanted)
    assert (status, body) == (206, expected)
    assert headers["Content-Range"].endswith("/10")
    with pytest.raises(urllib.error.HTTPError, match="416"):
        fetched(hub, "/org/digits/resolve/main/d.txt", Range="bytes=10-")


def test_nobody_writes_or_sees_what_is_private_without_the_token(published):
    hub, _ = published
    hub.add("model", "org/private", {}, private=True)
    with pytest.raises(urllib.error.HTTPError, match="401"):
        fetched(hub, "/api/models/org/private")
    assert fetched(hub, "/api/models/org/private", Authorization=f"Bearer {TOKEN}")[0] == 200
    create = urllib.request.Request(f"{hub.url}/api/repos/create", data=b'{"name": "x"}', method="POST")
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(create)
    assert ("model", "tester/x") not in hub.repos


PROPOSE = """
import json, os
from huggingface_hub import CommitOperationAdd, HfApi
from huggingface_hub.errors import HfHubHTTPError
api, name = HfApi(), "org/open"
def told(call, *args, **more):
    try:
        return call(*args, **more)
    except (HfHubHTTPError, ValueError) as error:
        return type(error).__name__ + (f" {error.response.status_code}" if hasattr(error, "response") else "")
def commit(path, content, **more):
    operations = [CommitOperationAdd(path, content)]
    return told(api.create_commit, name, operations=operations, commit_message="x", **more)
entry = b"- dataset: {id: a/b, task_id: c}\\n  value: 1\\n"
made = commit(".eval_results/b.yaml", entry, create_pr=True)
head = api.model_info(name).sha
commit(".eval_results/b.yaml", entry, create_pr=True, token=os.environ["HF_TOKEN_OF_OWNER"])
owner = HfApi(token=os.environ["HF_TOKEN_OF_OWNER"])
print(json.dumps({
    "direct": commit("a.txt", b"a"),
    "proposed": [made.pr_url, made.pr_num, made.pr_revision],
    "unchanged": head == api.model_info(name).sha,
    "inside": api.list_repo_files(name, revision="refs/pr/1"),
    "refs": [each.ref for each in api.list_repo_refs(name, include_pull_requests=True).pull_requests],
    "card": commit("README.md", b"---\\nlicense: none-such\\n---\\n", create_pr=True),
    "merge": told(api.merge_pull_request, name, 1),
    "merged": [told(owner.merge_pull_request, name, n) and None for n in (1,)],
    "stale": told(owner.merge_pull_request, name, 2),
    "results": [e.value for e in api.model_info(name, expand=["evalResults"]).eval_results],
    "branches": [each.name for each in api.list_repo_refs(name).branches],
}))
"""


def test_who_may_not_write_may_propose_and_the_owner_takes_it(published, monkeypatch):
    hub, _ = published
    hub.add("model", "org/open", {"config.json": File(b"{}")})
    monkeypatch.setenv("HF_TOKEN", GUEST)
    monkeypatch.setenv("HF_TOKEN_OF_OWNER", TOKEN)
    told = json.loads(run(PROPOSE))
    assert told["direct"] == "HfHubHTTPError 403"
    assert told["proposed"] == [f"{hub.url}/org/open/discussions/1", 1, "refs/pr/1"]
    assert told["unchanged"]
    assert sorted(told["inside"]) == [".eval_results/b.yaml", "config.json"]
    assert told["refs"] == ["refs/pr/1", "refs/pr/2"]
    assert told["card"] == "ValueError"
    assert told["merge"] == "HfHubHTTPError 403"
    assert told["stale"] == "HfHubHTTPError 409"
    assert told["results"] == [1]
    assert told["branches"] == ["main"]


@pytest.mark.parametrize(
    ("metadata", "fault"),
    [
        ({"license": "none-such"}, "license is one of the list"),
        ({"tags": [1]}, "tags is a text or a list of texts"),
        ({"base_model": "/home/x"}, "base_model is the name of a model of the Hub"),
        ({"model-index": [{"results": []}]}, "a model of model-index has a name"),
        ({"model-index": [{"name": "x", "results": [{}]}]}, "task of a result has the fields type"),
    ],
)
def test_metadata_that_the_hub_does_not_document_is_found(metadata, fault):
    assert next(card_faults("model", metadata)) == fault


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"value": "1"}, "value is a number"),
        ({"more": 1}, "more is unknown"),
        ({"dataset": {"id": "b", "task_id": "c"}}, "dataset.id is a repository and dataset.task_id a text"),
        ({"date": "today"}, "date is in the form of ISO 8601"),
        ({"source": {"url": "x"}}, "source.url is an address"),
    ],
)
def test_results_in_another_than_the_documented_form_are_found(change, fault):
    whole = {"dataset": {"id": "a/b", "task_id": "c"}, "value": 1}
    assert not list(result_faults(whole))
    assert next(result_faults(whole | change)) == fault


def test_the_environment_is_put_back(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", "https://before.example")
    monkeypatch.delenv("HF_TOKEN", raising=False)
    with Hub(cache=tmp_path) as hub:
        code = "import os; print(os.environ['HF_ENDPOINT'], os.environ['HF_TOKEN'])"
        assert run(code).split() == [hub.url, TOKEN]
    assert run("import os; print(os.environ['HF_ENDPOINT'], os.environ.get('HF_TOKEN'))").split() == [
        "https://before.example",
        "None",
    ]
