"""A Hub on this machine, for tests of what is fetched from it and published to it.

It speaks the part of the Hub's protocol that huggingface_hub, transformers, peft and datasets use, on a
port of the loopback device: reading (information, tree, paths, files with ranges, results of models) and
writing (create, commit, large files, tags, branches, pull requests). Who may not write may propose, and
the metadata of a card must be what the Hub documents. Repositories lie in memory; their first commit is what a folder
holds. Clients read the address when they are imported, so run them in a process of their own, or by
`tests.support.commands`, which has the Hub's own client read it again:

    with Hub(folder) as hub:                      # folder/models/ORG/NAME/…, folder/datasets/ORG/NAME/…
        subprocess.run([sys.executable, "-m", "scoring", "ORG/NAME"], env=os.environ)
        commands.run("builders.push", "DIR", "--org", "ORG")

A route is a function of a request and the parts of its path; it returns an answer or raises `Refused`.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import os
import re
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs, unquote, urlsplit

import yaml

TOKEN = "hf_" + "planted" * 5
#: The status of an answer that never comes, because the connection is cut.
CUT = 0
#: The token of somebody who may read, and propose.
GUEST = "hf_" + "guest" * 7
DATE = "2024-01-02T03:04:05.000Z"
KINDS = ("model", "dataset", "space")
#: Files of these kinds, and any larger one, are large files.
LARGE = (".safetensors", ".parquet", ".bin", ".gz", ".zst", ".png")
REGULAR_SIZE = 10 * 2**20


class Refused(Exception):
    """The answer is an error, with the code that clients know it by."""

    def __init__(self, status: int, message: str, code: str = "", **headers: str) -> None:
        super().__init__(message)
        self.status = status
        self.headers = {"X-Error-Code": code, "X-Error-Message": message} | headers if code else headers


@dataclass(frozen=True)
class File:
    """Content at a path; a large one is known by its SHA-256, others by their git blob."""

    data: bytes
    large: bool = False

    @property
    def oid(self) -> str:
        return hashlib.sha1(b"blob %d\0" % len(self.data) + self.data).hexdigest()

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.data).hexdigest()

    def entry(self, path: str) -> dict[str, Any]:
        large = {"lfs": {"oid": self.sha256, "size": len(self.data), "pointerSize": 134}} if self.large else {}
        return {"type": "file", "path": path, "size": len(self.data), "oid": self.oid, **large}


Tree = Mapping[str, File]


@dataclass(frozen=True)
class Commit:
    oid: str
    tree: Tree
    title: str
    parent: str | None

    def entry(self) -> dict[str, Any]:
        return {"id": self.oid, "title": self.title, "message": "", "date": DATE, "authors": [{"user": "tester"}]}


@dataclass
class Pull:
    """A proposed change: its commit, the one it starts from, and whether it was taken."""

    title: str
    description: str
    base: str
    oid: str
    author: str
    merged: bool = False


@dataclass
class Repo:
    kind: str
    name: str
    private: bool = False
    commits: dict[str, Commit] = field(default_factory=dict)
    branches: dict[str, str] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    pulls: dict[int, Pull] = field(default_factory=dict)

    def propose(self, tree: Tree, title: str, description: str, parent: Commit, author: str) -> int:
        """Opens a pull request; its number."""
        number = len(self.pulls) + 1
        made = self.commit(f"refs/pr/{number}", tree, title, parent.oid)
        self.pulls[number] = Pull(title, description, parent.oid, made.oid, author)
        return number

    def is_own_request(self, branch: str, user: str) -> bool:
        """Whether a branch is that of an open pull request of a user."""
        pull = self.pulls.get(int(branch.removeprefix("refs/pr/"))) if branch.startswith("refs/pr/") else None
        return bool(pull and pull.author == user and not pull.merged)

    def commit(self, branch: str, tree: Tree, title: str = "", parent: str | None = None) -> Commit:
        named = f"{self.kind} {self.name} {len(self.commits)} {title}".encode()
        made = Commit(hashlib.sha1(named).hexdigest(), dict(tree), title, parent)
        self.commits[made.oid] = made
        self.branches[branch] = made.oid
        return made

    def at(self, revision: str) -> Commit:
        """The commit of a branch, a tag or a hash."""
        short = re.sub("^refs/(heads|tags)/", "", revision)
        result = self.branches.get(short) or self.tags.get(short) or short
        if result not in self.commits:
            raise Refused(404, f"Invalid rev id: {revision}", "RevisionNotFound")
        return self.commits[result]

    def history(self, revision: str) -> Iterable[Commit]:
        made: Commit | None = self.at(revision)
        while made:
            yield made
            made = self.commits.get(made.parent or "")


@dataclass(frozen=True)
class Request:
    hub: Hub
    method: str
    path: str
    query: Mapping[str, list[str]]
    headers: Mapping[str, str]
    body: bytes

    @property
    def token(self) -> str:
        return self.headers.get("authorization", "").removeprefix("Bearer ")

    def json(self) -> dict[str, Any]:
        return json.loads(self.body or b"{}")

    def form(self) -> dict[str, Any]:
        """The fields of a body in either of the two ways clients have to send them."""
        return self.json() if self.body[:1] == b"{" else parse_qs(self.body.decode())

    def flag(self, name: str) -> bool:
        return self.query.get(name, ["false"])[0].lower() in ("true", "1")

    def repo(self, kind: str, name: str) -> Repo:
        """A repository that the sender may see."""
        result = self.hub.repos.get((kind, name))
        if result is None or (result.private and self.token != self.hub.token):
            raise Refused(404 if self.token else 401, "Repository not found", "RepoNotFound")
        return result

    def writable(self, kind: str, name: str, *, proposal: bool = False) -> Repo:
        """A repository that the sender may write to; who is known to the Hub may propose to it."""
        if not (proposal and self.token == GUEST):
            self.authorize()
        return self.repo(kind, name)

    @property
    def user(self) -> str:
        """The name of the sender, as far as the Hub knows one."""
        if self.token not in (GUEST, self.hub.token):
            raise Refused(401, "Invalid username or password.")
        return "guest" if self.token == GUEST else "tester"

    def authorize(self) -> None:
        if self.token == GUEST:
            raise Refused(403, "You don't have the required permissions to perform this operation.")
        if self.token != self.hub.token:
            raise Refused(401, "Invalid username or password.")


@dataclass(frozen=True)
class Answer:
    body: Any = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def content(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body, default=str).encode()


Route = Callable[..., Answer]
ROUTES: list[tuple[str, re.Pattern[str], Route]] = []
REPO = r"/api/(?P<kind>model|dataset|space)s/(?P<name>[^/]+/[^/]+)"
PLAIN = r"/(?:(?P<kind>dataset|space)s/)?(?P<name>[^/]+/[^/]+?)"


def route(method: str, pattern: str) -> Callable[[Route], Route]:
    """Has a function answer requests of a method to paths of a pattern, whose groups are its arguments."""

    def add(function: Route) -> Route:
        ROUTES.append((method, re.compile(pattern), function))
        return function

    return add


def answer(request: Request) -> Answer:
    method = "GET" if request.method == "HEAD" else request.method
    if (status := request.hub.fault(f"{request.method} {request.path}")) is not None:
        return Answer({"error": "Internal error"}, status, {"Retry-After": "0"})
    for wanted, pattern, function in ROUTES:
        if wanted == method and (result := pattern.fullmatch(request.path)):
            parts = {name: unquote(part or "") for name, part in result.groupdict().items()}
            try:
                return function(request, **parts)
            except Refused as error:
                return Answer({"error": str(error)}, error.status, error.headers)
    return Answer({"error": f"no route {method} {request.path}"}, 404, {"X-Error-Code": "EntryNotFound"})


# Reading


@route("GET", "/api/whoami-v2")
def whoami(request: Request) -> Answer:
    token = {"type": "access_token", "accessToken": {"displayName": "test", "role": "write"}}
    return Answer({"type": "user", "id": "1", "name": request.user, "orgs": [{"name": "org"}], "auth": token})


@route("GET", "/api/models")
def models(request: Request) -> Answer:
    """The public models of an author."""
    author = request.query.get("author", [""])[0]
    names = sorted(name for kind, name in request.hub.repos if kind == "model" and name.startswith(f"{author}/"))
    return Answer([{"_id": "0" * 24, "id": name, "modelId": name, "private": False, "tags": []} for name in names])


@route("GET", REPO + "(?:/revision/(?P<revision>[^/]+))?")
def information(request: Request, kind: str, name: str, revision: str) -> Answer:
    repo = request.repo(kind, name)
    made = repo.at(revision or "main")
    told = {
        "_id": "0" * 24,
        "id": name,
        "author": name.split("/")[0],
        "sha": made.oid,
        "lastModified": DATE,
        "createdAt": DATE,
        "private": repo.private,
        "gated": False,
        "disabled": False,
        "downloads": 0,
        "likes": 0,
        "tags": [],
        "cardData": front_matter(made.tree),
        "siblings": [{"rfilename": p, "size": len(f.data), "blobId": f.oid} for p, f in sorted(made.tree.items())],
    }
    if kind == "model":
        told |= {"modelId": name, "evalResults": list(eval_results(made.tree))}
    return Answer(told)


@route("GET", "/api/datasets/(?P<name>[^/]+/[^/]+)/leaderboard")
def leaderboard(request: Request, name: str) -> Answer:
    """The results of a benchmark in the models of the Hub, highest first; by default without those that have a base."""
    if "eval.yaml" not in request.repo("dataset", name).at("main").tree:
        raise Refused(404, "This dataset has no leaderboard.", "")
    every = request.query.get("base_model") == ["false"]
    rows = []
    for (kind, model), repo in sorted(request.hub.repos.items()):
        tree = repo.at("main").tree
        if kind == "model" and (every or not front_matter(tree).get("base_model")):
            rows += [
                (model, result)
                for result in eval_results(tree)
                if result.get("data", {}).get("dataset", {}).get("id") == name
            ]
    rows.sort(key=lambda row: -row[1]["data"]["value"])
    author = {"_id": "0" * 24, "avatarUrl": "", "fullname": "", "name": "", "type": "org", "isHf": False}
    return Answer(
        [
            {
                "rank": rank,
                "modelId": model,
                "value": result["data"]["value"],
                "filename": result["filename"],
                "verified": False,
                "source": None,
                "author": author | {"name": model.split("/")[0]},
                "notes": result["data"].get("notes"),
            }
            for rank, (model, result) in enumerate(rows, 1)
        ]
    )


def front_matter(tree: Tree) -> dict[str, Any]:
    """The metadata at the head of a README."""
    text = tree["README.md"].data.decode() if "README.md" in tree else ""
    result = re.match(r"---\n(.*?)\n---", text, re.DOTALL)
    return yaml.safe_load(result[1]) or {} if result else {}


def eval_results(tree: Tree) -> Iterator[dict[str, Any]]:
    """The results of a model in its files, each as it is or with what is wrong with it."""
    for path in sorted(tree):
        if re.fullmatch(r"\.eval_results/[^/]+\.ya?ml", path):
            result = yaml.safe_load(tree[path].data)
            for entry in result if isinstance(result, list) else [result]:
                fault = next(result_faults(entry), None)
                yield {"filename": path, "error": fault} if fault else {"filename": path, "data": entry}


def result_faults(entry: Any) -> Iterator[str]:
    """What the documented form of results does not allow."""
    if not isinstance(entry, dict) or not isinstance(entry.get("dataset"), dict) or "value" not in entry:
        yield "a result has a dataset and a value"
        return
    known = {"dataset", "value", "verifyToken", "date", "source", "notes"}
    yield from (f"{name} is unknown" for name in entry.keys() - known)
    yield from (f"dataset.{name} is unknown" for name in entry["dataset"].keys() - {"id", "task_id", "revision"})
    if not REPO_ID.fullmatch(str(entry["dataset"].get("id"))) or not isinstance(entry["dataset"].get("task_id"), str):
        yield "dataset.id is a repository and dataset.task_id a text"
    if not isinstance(entry["value"], (int, float)) or not math.isfinite(entry["value"]):
        yield "value is a number"
    if not re.match(r"\d{4}-\d\d-\d\d", str(entry.get("date", "2000-01-01"))):
        yield "date is in the form of ISO 8601"
    if "source" in entry and not str(entry["source"].get("url", "")).startswith(("http://", "https://")):
        yield "source.url is an address"


@route("GET", REPO + "/tree/(?P<revision>[^/]+)(?:/(?P<path>.*))?")
def tree(request: Request, kind: str, name: str, revision: str, path: str) -> Answer:
    made = request.repo(kind, name).at(revision)
    inside = f"{path.rstrip('/')}/" if path else ""
    result: dict[str, dict[str, Any]] = {}
    for item, file in sorted(made.tree.items()):
        if item.startswith(inside):
            parents = item.removeprefix(inside).split("/")[:-1]
            folders = [inside + "/".join(parents[: n + 1]) for n in range(len(parents))]
            if request.flag("recursive"):
                result |= {f: folder(f) for f in folders} | {item: file.entry(item)}
            else:
                result |= {f: folder(f) for f in folders[:1]} or {item: file.entry(item)}
    if path and not result:
        raise Refused(404, f"{path} does not exist", "EntryNotFound")
    more = {"lastCommit": made.entry()} if request.flag("expand") else {}
    return Answer([entry | more for entry in result.values()])


def folder(path: str) -> dict[str, Any]:
    return {"type": "directory", "path": path, "size": 0, "oid": hashlib.sha1(path.encode()).hexdigest()}


@route("POST", REPO + "/paths-info/(?P<revision>[^/]+)")
def paths_info(request: Request, kind: str, name: str, revision: str) -> Answer:
    files = request.repo(kind, name).at(revision).tree
    result = []
    for path in request.form().get("paths", []):
        if path in files:
            result.append(files[path].entry(path))
        elif any(item.startswith(f"{path.rstrip('/')}/") for item in files):
            result.append(folder(path))
    return Answer(result)


@route("GET", REPO + "/refs")
def refs(request: Request, kind: str, name: str) -> Answer:
    repo = request.repo(kind, name)
    heads = {branch: oid for branch, oid in repo.branches.items() if not branch.startswith("refs/pr/")}
    listed = {
        key: [{"name": n, "ref": f"refs/{where}/{n}", "targetCommit": oid} for n, oid in sorted(result.items())]
        for key, where, result in (("branches", "heads", heads), ("tags", "tags", repo.tags))
    }
    pulls = [{"name": f"{n}", "ref": f"refs/pr/{n}", "targetCommit": pull.oid} for n, pull in repo.pulls.items()]
    return Answer(listed | {"converts": [], "pullRequests": pulls})


@route("GET", REPO + "/commits/(?P<revision>[^/]+)")
def commits(request: Request, kind: str, name: str, revision: str) -> Answer:
    return Answer([made.entry() for made in request.repo(kind, name).history(revision)])


@route("GET", PLAIN + "/resolve/(?P<revision>[^/]+)/(?P<path>.+)")
def resolve(request: Request, kind: str, name: str, revision: str, path: str) -> Answer:
    made = request.repo(kind or "model", name).at(revision)
    commit = {"X-Repo-Commit": made.oid}
    if path not in made.tree:
        raise Refused(404, "Entry not found", "EntryNotFound", **commit)
    file = made.tree[path]
    mark = file.sha256 if file.large else file.oid
    linked = {"X-Linked-Etag": f'"{mark}"', "X-Linked-Size": str(len(file.data))} if file.large else {}
    return ranged(file.data, request.headers.get("range", ""), {"ETag": f'"{mark}"', **commit, **linked})


def ranged(data: bytes, wanted: str, headers: Mapping[str, str]) -> Answer:
    """The bytes of a range (``bytes=4-``, ``bytes=4-9``, ``bytes=-5``), or all of them."""
    headers = {"Accept-Ranges": "bytes", "Content-Type": "application/octet-stream", **headers}
    result = re.fullmatch(r"bytes=(\d*)-(\d*)", wanted)
    if not result:
        return Answer(data, 200, headers)
    start = int(result[1]) if result[1] else max(0, len(data) - int(result[2]))
    end = min(int(result[2]), len(data) - 1) if result[1] and result[2] else len(data) - 1
    if start >= len(data):
        return Answer(b"", 416, headers | {"Content-Range": f"bytes */{len(data)}"})
    return Answer(data[start : end + 1], 206, headers | {"Content-Range": f"bytes {start}-{end}/{len(data)}"})


# Writing


@route("POST", "/api/repos/create")
def create(request: Request) -> Answer:
    request.authorize()
    asked = request.json()
    kind, name = asked.get("type", "model"), f"{asked.get('organization') or 'tester'}/{asked['name']}"
    url = f"{request.hub.url}/{'' if kind == 'model' else f'{kind}s/'}{name}"
    if (kind, name) in request.hub.repos:
        return Answer({"error": "You already created this repo", "url": url}, 409)
    # Clients of version 1 say it in a word.
    private = bool(asked.get("private")) or asked.get("visibility") == "private"
    request.hub.add(kind, name, {}, private=private)
    return Answer({"url": url, "name": name, "id": name})


@route("POST", "/api/validate-yaml")
def validate_yaml(request: Request) -> Answer:
    sent = request.json()
    card = {"README.md": File(sent["content"].encode())}
    try:
        faults = list(card_faults(sent["repoType"], front_matter(card)))
    except yaml.YAMLError:
        faults = ["the metadata is no YAML"]
    return Answer({"errors": [{"message": fault} for fault in faults], "warnings": []}, 400 if faults else 200)


REPO_ID = re.compile(r"[\w.-]+/[\w.-]+")
#: Some of the licences that the Hub knows.
LICENCES = {"apache-2.0", "mit", "cc-by-4.0", "cc-by-sa-4.0", "cc-by-nc-4.0", "cc0-1.0", "llama2", "llama3", "other"}
#: The fields that are a text, or several.
TEXTS = ("language", "license", "tags", "datasets", "base_model", "size_categories", "metrics", "task_categories")
#: Some of the tasks that the Hub knows.
TASK_CATEGORIES = {*"text-generation fill-mask question-answering text-classification multiple-choice other".split()}


def card_faults(kind: str, data: Any) -> Iterator[str]:
    """What the documented fields of a card's metadata do not allow."""
    if not isinstance(data, dict):
        yield "the metadata is no mapping"
        return
    for name in TEXTS:
        several = data[name] if isinstance(data.get(name), list) else [data.get(name, "")]
        if not all(isinstance(text, str) for text in several):
            yield f"{name} is a text or a list of texts"
        if name == "license" and not {*several} <= LICENCES | {""}:
            yield "license is one of the list"
        if name == "task_categories" and not {*several} <= TASK_CATEGORIES | {""}:
            yield "task_categories are of the list"
        if name == "base_model" and not all(not text or re.fullmatch(r"[\w.-]+(/[\w.-]+)?", text) for text in several):
            yield "base_model is the name of a model of the Hub"
    for model in data.get("model-index", []) if kind == "model" else []:
        if not isinstance(model.get("name"), str):
            yield "a model of model-index has a name"
        for result in model.get("results", []):
            yield from index_faults(result)


def index_faults(result: dict[str, Any]) -> Iterator[str]:
    for part, fields in (("task", ("type",)), ("dataset", ("type", "name"))):
        if not all(isinstance(result.get(part, {}).get(name), str) for name in fields):
            yield f"{part} of a result has the fields {', '.join(fields)}"
    if not result.get("metrics") or not all({"type", "value"} <= item.keys() for item in result["metrics"]):
        yield "a result has metrics with type and value"


#: Some of the evaluation frameworks that the Hub has in its list, and ours as if it were registered.
FRAMEWORKS = {"gender-neutral-probes", "inspect-ai", "math-arena", "mteb", "nemo-evaluator"}
TASK = {"id", "config", "split"}
#: What a task of inspect-ai has besides.
INSPECT_TASK = {"field_spec", "solvers", "scorers"}
#: What it may have besides.
INSPECT_MORE = {"shuffle_choices", "epochs", "epoch_reducer"}


def benchmark_faults(data: Any) -> Iterator[str]:
    """What the documented form of eval.yaml does not allow."""
    if not isinstance(data, dict) or not {"name", "description", "evaluation_framework", "tasks"} <= data.keys():
        yield "name, description, evaluation_framework and tasks are required"
        return
    if data["evaluation_framework"] not in FRAMEWORKS:
        yield f"evaluation_framework {data['evaluation_framework']} is not a supported framework"
    inspects = data["evaluation_framework"] == "inspect-ai"
    needed = {"id"} | (INSPECT_TASK if inspects else set())
    allowed = TASK | needed | (INSPECT_MORE if inspects else set())
    for task in data["tasks"]:
        if needed - task.keys():
            yield f"a task needs {', '.join(sorted(needed))}"
        yield from (f"tasks.{name} is unknown" for name in sorted(task.keys() - allowed))
    if len({task.get("id") for task in data["tasks"]}) < len(data["tasks"]) or not data["tasks"]:
        yield "tasks have ids of their own"


@route("POST", REPO + "/preupload/(?P<revision>[^/]+)")
def preupload(request: Request, kind: str, name: str, revision: str) -> Answer:
    """Which of the files are to be sent as large ones."""
    old = proposable(request, kind, name, revision).at(revision).tree
    told = []
    for file in request.json()["files"]:
        path, known = file["path"], old.get(file["path"])
        mode = "lfs" if is_large(path, file["size"]) else "regular"
        oid = known and (known.sha256 if known.large else known.oid)
        told.append({"path": path, "uploadMode": mode, "shouldIgnore": False, "oid": oid})
    return Answer({"files": told})


def proposable(request: Request, kind: str, name: str, branch: str) -> Repo:
    """A repository that the sender may commit to, or propose a change to that opens or continues a pull request."""
    repo = request.hub.repos.get((kind, name))
    own = bool(repo and repo.is_own_request(branch, request.user))
    return request.writable(kind, name, proposal=request.flag("create_pr") or own)


def is_large(path: str, size: int) -> bool:
    return path.endswith(LARGE) or size > REGULAR_SIZE


@route("POST", PLAIN + r"\.git/info/lfs/objects/batch")
def lfs_batch(request: Request, kind: str, name: str) -> Answer:
    request.writable(kind or "model", name, proposal=True)
    told = []
    for asked in request.json()["objects"]:
        upload = {"upload": {"href": f"{request.hub.url}/lfs/{asked['oid']}"}}
        actions = {} if asked["oid"] in request.hub.large else {"actions": upload}
        told.append({"oid": asked["oid"], "size": asked["size"], **actions})
    return Answer({"transfer": "basic", "objects": told}, headers={"Content-Type": "application/vnd.git-lfs+json"})


@route("PUT", "/lfs/(?P<oid>[0-9a-f]{64})")
def lfs_put(request: Request, oid: str) -> Answer:
    if hashlib.sha256(request.body).hexdigest() != oid:
        raise Refused(422, "The content is not what its name says.")
    request.hub.large[oid] = request.body
    return Answer()


@route("POST", REPO + "/commit/(?P<branch>[^/]+)")
def commit(request: Request, kind: str, name: str, branch: str) -> Answer:
    """A commit as lines of JSON: a header, then what becomes of each file."""
    repo = proposable(request, kind, name, branch)
    parent = repo.at(branch)
    header, *changes = (json.loads(line) for line in request.body.splitlines() if line.strip())
    expected = header["value"].get("parentCommit")
    if request.flag("create_pr") and expected:
        parent = repo.at(expected)
    elif expected not in (None, parent.oid):
        raise Refused(412, "A commit has happened since. Please refresh and try again.")
    files = dict(parent.tree)
    for change in changes:
        CHANGES[change["key"]](request.hub, files, change["value"])
    if fault := next(card_faults(kind, front_matter(files)), None):
        raise Refused(400, f"Invalid metadata in README.md: {fault}")
    described = files.get("eval.yaml") if kind == "dataset" else None
    if described and (fault := next(benchmark_faults(yaml.safe_load(described.data)), None)):
        raise Refused(400, f"Invalid eval.yaml: {fault}")
    title, url = header["value"].get("summary", ""), f"{request.hub.url}/{name}"
    if request.flag("create_pr"):
        number = repo.propose(files, title, header["value"].get("description", ""), parent, request.user)
        oid, more = repo.pulls[number].oid, {"pullRequestUrl": f"{url}/discussions/{number}"}
    else:
        oid, more = repo.commit(branch, files, title, parent.oid).oid, {}
        if branch.startswith("refs/pr/"):
            repo.pulls[int(branch.removeprefix("refs/pr/"))].oid = oid
    return Answer({"success": True, "commitOid": oid, "commitUrl": f"{url}/commit/{oid}", **more})


@route("GET", REPO + "/discussions")
def discussions(request: Request, kind: str, name: str) -> Answer:
    """The pull requests of a repository."""
    result = [
        {
            "num": number,
            "title": pull.title,
            "author": {"name": pull.author},
            "createdAt": DATE,
            "status": "merged" if pull.merged else "open",
            "isPullRequest": True,
            "repo": {"name": name, "type": kind},
        }
        for number, pull in request.repo(kind, name).pulls.items()
        if pull.author in request.query.get("author", [pull.author])
        and not (pull.merged and "open" in request.query.get("status", []))
    ]
    return Answer({"discussions": result, "count": len(result), "start": 0})


@route("POST", REPO + r"/discussions/(?P<number>\d+)/merge")
def merge(request: Request, kind: str, name: str, number: str) -> Answer:
    """Takes a pull request whose base is still the head of the repository."""
    repo = request.writable(kind, name)
    pull = repo.pulls[int(number)]
    if pull.merged or pull.base != repo.branches["main"]:
        raise Refused(409, "The pull request cannot be merged.")
    repo.branches["main"], pull.merged = pull.oid, True
    event = {"id": "1", "type": "status-change", "createdAt": DATE, "author": {"name": "tester"}}
    return Answer({"newStatus": event | {"data": {"status": "merged"}}})


def add_file(hub: Hub, files: dict[str, File], value: Mapping[str, Any]) -> None:
    encoded = value.get("encoding") == "base64"
    files[value["path"]] = File(base64.b64decode(value["content"]) if encoded else value["content"].encode())


def add_large_file(hub: Hub, files: dict[str, File], value: Mapping[str, Any]) -> None:
    if value["oid"] not in hub.large:
        raise Refused(400, f"The large file {value['path']} was not uploaded.")
    files[value["path"]] = File(hub.large[value["oid"]], large=True)


def delete_file(hub: Hub, files: dict[str, File], value: Mapping[str, Any]) -> None:
    if files.pop(value["path"], None) is None:
        raise Refused(404, f"{value['path']} does not exist", "EntryNotFound")


def delete_folder(hub: Hub, files: dict[str, File], value: Mapping[str, Any]) -> None:
    for path in [p for p in files if p.startswith(f"{value['path'].rstrip('/')}/")]:
        del files[path]


CHANGES: Mapping[str, Callable[[Hub, dict[str, File], Mapping[str, Any]], None]] = {
    "file": add_file,
    "lfsFile": add_large_file,
    "deletedFile": delete_file,
    "deletedFolder": delete_folder,
}


@route("POST", REPO + "/tag/(?P<revision>[^/]+)")
def tag(request: Request, kind: str, name: str, revision: str) -> Answer:
    repo, wanted = request.writable(kind, name), request.json()["tag"]
    if wanted in repo.tags:
        raise Refused(409, "Tag reference exists already.")
    repo.tags[wanted] = repo.at(revision).oid
    return Answer()


@route("DELETE", REPO + "/tag/(?P<name_of_tag>[^/]+)")
def delete_tag(request: Request, kind: str, name: str, name_of_tag: str) -> Answer:
    if request.writable(kind, name).tags.pop(name_of_tag, None) is None:
        raise Refused(404, f"Invalid rev id: {name_of_tag}", "RevisionNotFound")
    return Answer()


@route("POST", REPO + "/branch/(?P<branch>[^/]+)")
def branch(request: Request, kind: str, name: str, branch: str) -> Answer:
    repo = request.writable(kind, name)
    if branch in repo.branches:
        raise Refused(409, "Reference exists already.")
    repo.branches[branch] = repo.at(request.json().get("startingPoint") or "main").oid
    return Answer()


# The server


def lowered(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


class Handler(BaseHTTPRequestHandler):
    """Turns bytes of HTTP into a request and an answer into bytes."""

    protocol_version = "HTTP/1.1"
    hub: Hub

    def handle_any(self) -> None:
        url = urlsplit(self.path)
        sent = Request(self.hub, self.command, url.path, parse_qs(url.query), lowered(self.headers), self._body())
        self.hub.requests.append(sent)
        time.sleep(self.hub.delay)
        told = answer(sent)
        if told.status == CUT:
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        headers = {"Content-Type": "application/json", **told.headers, "Content-Length": str(len(told.content))}
        self.send_response(told.status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(told.content)

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = handle_any  # noqa: N815

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def log_message(self, *_: Any) -> None:
        """Keeps quiet."""


class Hub:
    """A Hub with the repositories of a folder, served while the block runs.

    Inside the block the environment names it as the endpoint, with a token and a cache of its own, so
    processes that are started there talk to it and to nobody else.

    Parameters
    ----------
    folder:
        Holds ``models/ORG/NAME``, ``datasets/ORG/NAME`` or ``spaces/ORG/NAME`` with their files; None
        for an empty Hub.
    cache:
        Where clients keep what they fetched.
    token:
        The one that may write and see private repositories.
    """

    def __init__(self, folder: Path | None = None, *, cache: Path, token: str = TOKEN) -> None:
        self.cache = cache
        self.token = token
        self.repos: dict[tuple[str, str], Repo] = {}
        self.large: dict[str, bytes] = {}
        self.requests: list[Request] = []
        #: Statuses by patterns of method and path: what goes wrong, until it is taken out; a list is used up, and
        #: None in it lets a request pass.
        self.faults: dict[str, int | list[int | None]] = {}
        #: Seconds before each answer.
        self.delay = 0.0
        for kind in KINDS if folder else ():
            for path in sorted(folder.glob(f"{kind}s/*/*")) if folder else ():
                self.add(kind, f"{path.parent.name}/{path.name}", read(path))

    def add(self, kind: str, name: str, tree: Tree, *, private: bool = False) -> Repo:
        """A new repository whose first commit has these files."""
        repo = self.repos[kind, name] = Repo(kind, name, private)
        repo.commit("main", tree, "initial commit")
        return repo

    def fault(self, asked: str) -> int | None:
        """What goes wrong with a request, given its method and path."""
        for pattern, status in self.faults.items():
            if re.search(pattern, asked) and status != []:
                return status.pop(0) if isinstance(status, list) else status
        return None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def environment(self) -> dict[str, str | None]:
        """What clients read of the environment; None is not set."""
        return {
            "HF_ENDPOINT": self.url,
            "HF_TOKEN": self.token,
            "HF_HOME": str(self.cache),
            "HF_HUB_DISABLE_XET": "1",
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "HF_HUB_OFFLINE": None,
            "HF_DATASETS_OFFLINE": None,
            "TRANSFORMERS_OFFLINE": None,
            "HF_HUB_CACHE": None,
            "HF_DATASETS_CACHE": None,
            "NO_PROXY": "127.0.0.1",
        }

    def __enter__(self) -> Self:
        handler = type("HandlerOfHub", (Handler,), {"hub": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        self._before = {name: os.environ.get(name) for name in self.environment()}
        set_environment(self.environment())
        return self

    def __exit__(self, *_: object) -> None:
        set_environment(self._before)
        self._server.shutdown()
        self._server.server_close()


def set_environment(values: Mapping[str, str | None]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def read(folder: Path) -> dict[str, File]:
    """The files of a folder, as they would be committed."""
    paths = {p.relative_to(folder).as_posix(): p for p in sorted(folder.rglob("*")) if p.is_file()}
    return {name: File(p.read_bytes(), large=is_large(name, p.stat().st_size)) for name, p in paths.items()}
