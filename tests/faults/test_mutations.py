"""Every file that the package writes is changed 500 times in seeded ways, and no change is silent.

A change is found when the reader raises one of its errors or names a difference. It has no effect when the reader
gives the very same content. Anything else is silent, and there must be none.
"""

import copy
import json
import random
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rich.progress import Progress

import cards.results
from builders import datasets
from builders.builder import Profile, build_datasets
from builders.check import differences
from builders.dataset import BuildError
from builders.generation.response_cache import read_responses
from builders.generation.responses import request_body, response
from builders.manifest import read_manifest
from builders.sources.fetch import Fetcher
from cards.text import CardError
from mitigation.adapters.write import write_facts
from mitigation.errors import MitigationError
from mitigation.training.checkpoints import LossCurve, TrainingState, restore, save
from pmi.counting.counts import Counts
from pmi.counting.local import count
from pmi.types import TableError
from scoring import report
from scoring.adapters import facts
from scoring.adapters.facts import Adapter, AdapterError, Change, Cost
from scoring.inference.store import Store
from scoring.result import read_examples
from scoring.types import Option, Request, Response, ScoringError
from tests.cards.made import RUN

MUTATIONS = 500
PROBES = "gender-neutral-probes"
#: What a reader gives for a file in which it finds a change.
FOUND = "found"


@dataclass(frozen=True)
class Kind:
    """A kind of file: the files to change, and a function that reads them."""

    files: tuple[Path, ...]
    read: Any
    errors: tuple[type[Exception], ...]


def data_set(folder):
    """A built data set, compared with a fresh build."""
    arguments = [PROBES], Fetcher(folder / "cache", None, offline=True)
    for name in ("out", "fresh"):
        build_datasets(*arguments, folder / name, Profile.all, Progress(disable=True))
    out, fresh = folder / "out" / PROBES, folder / "fresh" / PROBES

    def read():
        wrong, remarks = differences(out, read_manifest(out), read_manifest(fresh), fresh, datasets.get(PROBES))
        return FOUND if wrong or remarks else "the same"

    return {
        "Parquet": Kind(tuple(sorted(out.rglob("*.parquet"))), read, (BuildError,)),
        "manifest": Kind((out / "manifest.json",), read, (BuildError,)),
        "card": Kind((out / "README.md",), read, (BuildError,)),
    }


def replies(folder):
    """Recorded replies; a line that is gone is asked again, as one that is damaged."""
    bodies = [request_body("m", f"Say {n}, é.", temperature=0.5, max_tokens=9) for n in range(6)]
    made = {one.key: one for one in (response(body, f"“{body}”\n", usage=(3, 4), date="2026-01-31") for body in bodies)}
    path = folder / "replies.jsonl"
    path.write_text("".join(f"{one.to_line()}\n" for one in made.values()))

    def read():
        result = read_responses(path, damaged=[])
        assert all(result[key] == made[key] for key in result)
        return FOUND if result.keys() != made.keys() else result

    return {"replies": Kind((path,), read, (BuildError,))}


def responses(folder):
    """Stored responses of a model; the same holds for their lines."""
    key = {"model": "org/model", "dtype": "float32"}
    requests = [Request(str(n), f"text {n}", (Option(" he"), Option(" she")), ("he",), 3) for n in range(6)]
    made = {one.id: Response(one.id, ((-1.25, -2 / 7), (-0.5,)), (-3.0,), "and sö\n") for one in requests}
    with Store(folder, key) as store:
        for request in requests:
            store.put(request, made[request.id])

    def read():
        with Store(folder, key) as store:
            result = {one.id: store.get(one) for one in requests}
        assert all(result[name] in (None, made[name]) for name in result)
        return FOUND if None in result.values() else result

    return {"responses": Kind((store.path,), read, (ScoringError,))}


def counts(folder):
    """A table of counts."""
    rows = ["She saw a ship.", "He saw the captain of the ship.", "They wrote to her, and she sang to him."]
    path = folder / "counts.parquet"
    count(iter(rows), gendered=["she", "he"]).write(path)

    def read():
        result = Counts.read(path)
        arrays = result.word_counts.tolist(), result.pair_counts.tolist()
        return result.words, *arrays, result.rule, result.totals

    return {"counts": Kind((path,), read, (TableError,))}


def checkpoint(folder):
    """A checkpoint of a training."""
    path = folder / "state.pt"

    def parts():
        torch.manual_seed(0)
        network = torch.nn.Linear(3, 2)
        return dict(network.named_parameters()), torch.optim.AdamW(network.parameters(), lr=0.1)

    trained, optimizer = parts()
    sum(weight.sum() for weight in trained.values()).backward()
    optimizer.step()
    curve = LossCurve([{"loss": 0.5}], [{"step": 0.0, "loss": 0.25}])
    save(path, trained, optimizer, TrainingState(curve, {name: weight.detach() for name, weight in trained.items()}))

    def read():
        weights, fresh = parts()
        state = restore(path, weights, fresh)
        return repr((weights, fresh.state_dict(), state))

    return {"checkpoint": Kind((path,), read, (MitigationError,))}


def adapter(folder):
    """The folder of an adapter."""
    (folder / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "r": 2}))
    (folder / "adapter_model.safetensors").write_bytes(random.Random(0).randbytes(300))
    change = Change("neutral", "stsb", "gas", (0.5, 0.4, 0.6), (0.1, 0.0, 0.2), (-0.4, -0.5, -0.3), 40)
    made = Adapter(
        "debias_tuning", "org/base", "0" * 40, "float32", {"rank": 2}, {"a/b/test": "1.0.0"}, Cost(8, 1.5, 9, "cpu"),
        facts.digests(folder), {"x": (1.0, 0.5, 1.5)}, (change,), "0.2.0",
    )  # fmt: skip
    write_facts(folder, made)
    return {"adapter": Kind(tuple(sorted(folder.iterdir())), lambda: repr(facts.read(folder)), (AdapterError,))}


def results(folder):
    """The results of a run, and its table of examples."""
    table = {"id": np.array(["a", "b", "c"], dtype=object), "value": np.array([0.5, 0.25, 1.0])}
    report.write(folder, RUN, {"neutral": table}, {})
    files = folder / "results.json", folder / "examples" / "neutral.parquet"

    def read():
        return repr(cards.results.load(folder)), str(read_examples(folder, "neutral"))

    return {"results": Kind(files, read, (CardError, ScoringError))}


KINDS = {
    name: make
    for make, names in (
        (data_set, ("Parquet", "manifest", "card")),
        (replies, ("replies",)),
        (responses, ("responses",)),
        (counts, ("counts",)),
        (checkpoint, ("checkpoint",)),
        (adapter, ("adapter",)),
        (results, ("results",)),
    )
    for name in names
}


def changed(content, draw):
    """The content with a change: mostly of one byte, else of a part, or of a value in JSON."""
    place = draw.randrange(len(content))
    span = content[place : place + draw.randrange(1, 200)]
    kinds = [
        lambda: content[:place] + bytes([content[place] ^ 1 << draw.randrange(8)]) + content[place + 1 :],
        lambda: content[:place] + bytes([draw.randrange(256)]) + content[place + 1 :],
        lambda: content[:place] + content[place + 1 :],
        lambda: content[:place] + bytes([draw.randrange(256)]) + content[place:],
        lambda: content[:place],
        lambda: content[:place] + content[place + len(span) :],
        lambda: content[:place] + span + content[place:],
        lambda: content[place:] + content[:place],
        lambda: content[:place] + bytes(len(span)) + content[place + len(span) :],
        lambda: edited(content, draw),
        lambda: edited(content, draw),
    ]
    return draw.choice(kinds[:2] * 4 + kinds)()


def edited(content, draw):
    """JSON, or a line of JSON, with a value that is another or gone; other content with one digit more."""
    lines = content.split(b"\n")
    number = draw.randrange(len(lines))
    for whole in (True, False):
        try:
            value = json.loads(content if whole else lines[number])
        except ValueError:
            continue
        text = json.dumps(mutated(value, draw), indent=2 if whole else None).encode()
        return text if whole else b"\n".join([*lines[:number], text, *lines[number + 1 :]])
    place = draw.randrange(len(content))
    return content[:place] + b"1" + content[place:]


def mutated(value, draw):
    """A copy of nested JSON with a random value changed or removed."""
    value = copy.deepcopy(value)
    holder, inner = None, value
    while isinstance(inner, dict | list) and inner and (holder is None or draw.random() < 0.8):
        key = draw.choice(list(inner)) if isinstance(inner, dict) else draw.randrange(len(inner))
        holder, inner = inner, inner[key]
    if holder is None:
        return draw.choice([None, 0, "", [], {}])
    if draw.random() < 0.3:
        del holder[key]
    else:
        holder[key] = draw.choice([None, 0, -1, 1e300, "", "other", [], {}, True, [inner], {"x": inner}])
    return value


@pytest.mark.fault(69)
@pytest.mark.parametrize("name", KINDS)
def test_no_change_of_a_file_is_silent(tmp_path, name, capsys):
    kind = KINDS[name](tmp_path)[name]
    draw = random.Random(f"mutations of {name}")
    whole = {path: path.read_bytes() for path in kind.files}
    expected = kind.read()
    assert expected != FOUND
    outcomes: Counter[str] = Counter()
    silent, sentences = [], []
    for number in range(MUTATIONS):
        path = draw.choice(kind.files)
        content = changed(whole[path], draw)
        path.write_bytes(content)
        try:
            result = kind.read()
        except kind.errors as error:
            result = FOUND
            sentences.append(str(error))
        outcomes["found" if result == FOUND else "without effect" if result == expected else "silent"] += 1
        if result not in (FOUND, expected):
            silent.append((number, path.name))
        path.write_bytes(whole[path])
    with capsys.disabled():
        print(f"\n{name}: {MUTATIONS} changes, {dict(outcomes)}, silent: {outcomes['silent']}")
    assert silent == []
    assert [sentence for sentence in sentences if "\n" in sentence or not sentence.endswith(".")] == []
    assert kind.read() == expected
