"""Kinds of files whose values nothing computes again, and seeded ways to change a file of each.

A change of a file that the package wrote is found when the reader raises one of its errors or names a difference. It
is harmless when the reader gives the very same content. Anything else is silent. A foreign file has no such content:
its reader takes it or says in a sentence why not.
"""

import copy
import json
import math
import random
import shutil
import signal
import warnings
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import torch
import transformers
import yaml
import zstandard
from rich.progress import Progress

import scoring
from builders.builder import Profile, build_datasets
from builders.dataset import BuildError
from builders.files.manifest import file_sha256
from builders.generation.responses import read_responses, request_body, response
from builders.sources.fetch import Fetcher
from cards.common.text import CardError
from cards.formats.evaluation import FOLDER
from cards.leaderboard import entries_of, page, task_tables
from mitigation.ability import glue, zero_shot
from mitigation.ability.zero_shot import HarnessResult
from mitigation.adapters.write import write_facts
from mitigation.errors import MitigationError
from mitigation.methods import comparison
from mitigation.training import alignment
from mitigation.training.train import LossCurve, TrainingState, restore, save
from pmi.analysis.lookup import delta_table
from pmi.analysis.table import table as pmi_table
from pmi.counting.counts import Counts
from pmi.counting.local import count
from pmi.files import write_rows
from pmi.types import PmiError, TableError
from scoring.adapters import facts
from scoring.adapters.attach import peft_config
from scoring.adapters.facts import Adapter, AdapterError, Change, Cost
from scoring.commands import rescore
from scoring.inference import checkpoint
from scoring.inference.load_options import load
from scoring.inference.measurements import MEASURED
from scoring.inference.store import Store
from scoring.inputs import prompts, tables
from scoring.reproduce import figures, measured, published
from scoring.types import Option, Request, Response, ScoringError
from scoring.uploads import DECLARATIONS
from tests.support.helpers import signed

PROBES = "gender-neutral-probes"
#: What this program writes beside a published score.
NOTES = "gas of stsb (test), 95 % interval 0.1 to 0.25, n 364, ideal 0, range 0 to 1; profile clean; the model alone"
#: What a reader gives for a file in which it finds a change.
FOUND = "found"


@dataclass(frozen=True)
class Kind:
    """A kind of file: the files to change, and a function that reads them."""

    files: tuple[Path, ...]
    read: Any
    errors: tuple[type[Exception], ...]
    foreign: bool = False


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


def checkpoint_file(folder):
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
    # Facts without their checksum are those of an earlier version, and say the same.
    read = lambda: repr(replace(facts.read(folder), sha256=""))  # noqa: E731
    return {"adapter": Kind(tuple(sorted(folder.iterdir())), read, (AdapterError,))}


def stored(folder):
    """Files of JSON with a checksum (:class:`cards.common.stored.Stored`), read as the commands read them."""
    runs = folder / "run.json", folder / "lm-eval.json", folder / "search.json", folder / "methods.json"
    glue.RUN.write(runs[0], {"key": "k", "task": "rte", "seed": 0, "scores": {"accuracy": 62.5, "f1": math.nan}})
    results = {"hellaswag": HarnessResult({"acc": 0.25, "ppl": math.inf}, {"acc": [0.0, 0.5]}, 2)}
    zero_shot.store(runs[1], {"model": "m"}, results)
    alignment.FOUND.write(runs[2], {"prompts": [["is a"], ["is a kind", "was a good"]]})
    rows = [{"method": "cda", "reason": "There is no corpus.", "changes": []}, {"method": "dpo", "reason": ""}]
    runs[3].write_bytes(comparison.METHODS.content({"model": "m", "measured": {"limit": 5}, "methods": rows}))
    estimates = folder / "estimates.json", folder / "replay.json"
    score = {"group": "ours-5", "metric": "us_score", "value": 0.5, "low": None}
    published.SCORES.write(estimates[0], {"estimates": [score]})
    measured.REPLAYED.write(estimates[1], {"ours-5": {"kept": 4954}})
    network = folder / "network.json"
    MEASURED.write(network, {"value": [True, True, False], "findings": {"cache": "Without a cache."}})
    sweep = folder / "sweep.json"
    figures.SWEEP.write(sweep, {"model": "m", "layer": {"SS": [[0, 52.5, 50.25, 54.0]]}, "units": {}})
    runs = *runs, *estimates, network, sweep
    readers = (
        lambda: repr(glue._stored(runs[0], "k")),
        lambda: repr(zero_shot.stored(runs[1], {"model": "m"})),
        lambda: repr(alignment.FOUND.read(runs[2], lambda content: content["prompts"], MitigationError)),
        lambda: repr((comparison.measured_before(folder), comparison.reasons_before(folder))),
        lambda: repr(published.read(estimates[0])),
        lambda: repr(measured.REPLAYED.read(estimates[1], dict, ScoringError)),
        lambda: repr(MEASURED.read(network, dict, ScoringError)),
        lambda: repr(figures.SWEEP.read(sweep, dict, ScoringError)),
    )
    read = lambda: [reader() for reader in readers]  # noqa: E731
    return {"stored numbers": Kind(runs, read, (MitigationError, ScoringError, CardError))}


def deltas(folder):
    """A table of δ in each format, with its checksum beside it, and in the folder of a data set."""
    counts = count(iter(["She saw a ship.", "He saw a ship.", "He met her."]), gendered=["she", "he"])
    rows = pmi_table(counts)
    kinds = {}
    for ending in ("csv", "tsv", "jsonl", "parquet"):
        path = folder / f"words.{ending}"
        write_rows(rows, path)
        kinds[f"table of δ, {ending}"] = Kind((path,), lambda path=path: shown(delta_table(path)), (PmiError,))
    data = folder / "gender-pmi"
    words = pa.table({"word": ["ship"], "delta": [0.5], "count": [7]})
    (data / "data" / "words").mkdir(parents=True)
    pq.write_table(words, path := data / "data" / "words" / "train.parquet")
    split = {"file": "data/words/train.parquet", "sha256": file_sha256(path)}
    (data / "manifest.json").write_text(signed({"configs": {"words": {"splits": {"train": split}}}}))
    kinds["gender-pmi"] = Kind((path, data / "manifest.json"), lambda: shown(delta_table(data)), (PmiError,))
    return kinds


def shown(table):
    """What δ says, without the name of the file."""
    return repr((dict(table.delta), table.counts.tolist(), table.pairs))


def facts_of_data(folder):
    """The manifest and a table of a data set as scoring reads them."""
    build_datasets([PROBES], Fetcher(folder / "cache", None, offline=True), folder, Profile.all, Progress(disable=True))
    files = folder / PROBES / "manifest.json", folder / PROBES / "data" / "templates" / "test.parquet"

    def read():
        loaded = tables.load(str(folder), PROBES, "templates", "test")
        return repr((loaded.version, list(loaded.rows)))  # rows are made when they are read

    return {"data of a run": Kind(files, read, (ScoringError,))}


def foreign_model(folder):
    """The files of a model of others, each of which is changed; the model is loaded and asked."""
    model = Path(shutil.copytree(Path(scoring.__file__).parent / "data" / "tiny-causal", folder / "model"))
    (model / "special_tokens_map.json").write_text('{"eos_token": "<|endoftext|>"}')

    transformers.utils.logging.disable_progress_bar()

    def read():
        checkpoint.check_pickle(checkpoint.weight_files(model), "m", allowed=False)
        loaded = load(model, device="cpu")
        loaded.answer([Request("a", "The nurse said", candidates=(" he",))])
        return "read"

    names = ("config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json",
             "special_tokens_map.json", "model.safetensors")  # fmt: skip
    return {f"foreign {name}": Kind((model / name,), quietly(read), (ScoringError,), foreign=True) for name in names}


def foreign_files(folder):
    """Other files of others, by the reader of each."""
    (folder / facts.CONFIG).write_text(
        json.dumps({"peft_type": "LORA", "r": 2, "target_modules": ["q"], "auto_mapping": None, "rank_pattern": {}})
    )
    rows = [json.dumps({"id": str(n), "text": "She saw the ship of his."}) for n in range(5)]
    (folder / "rows.jsonl").write_text("\n".join(rows))
    (folder / "rows.txt.zst").write_bytes(zstandard.compress("\n".join(rows).encode()))
    pq.write_table(pa.table({"text": ["She saw a ship.", "He"]}), folder / "rows.parquet")
    (folder / "scores.csv").write_text("dataset,female_logprob,male_logprob\nours-5,-3.5,-4.25\nours-5,-1.5,-2\n")
    (folder / "prompt.json").write_text(json.dumps({"name": "own", "version": "2.0.0", "instruction": "Be fair."}))
    entry = {"dataset": {"id": "o/d", "task_id": "stsb"}, "value": 0.25, "date": "2026-01-01", "notes": "x"}
    scores = folder / "published" / FOLDER
    scores.mkdir(parents=True)
    # Of JSON, which is YAML too, values are changed as well as bytes.
    (scores / "flow.yaml").write_text(json.dumps([entry, entry | {"value": 1, "notes": NOTES}]))
    (scores / "results.yaml").write_text(yaml.safe_dump([entry]))

    counted = {"rows.jsonl", "rows.txt.zst", "rows.parquet"}
    readers = {
        facts.CONFIG: lambda: peft_config(folder),
        **{name: lambda name=name: count([folder / name], gendered=["she", "he"], jobs=1) for name in counted},
        "scores.csv": lambda: rescore.rescore("unstereo", folder / "scores.csv", folder, 5, 0),
        "prompt.json": lambda: prompts.read(folder / "prompt.json"),
        FOLDER: lambda: page(task_tables(entries_of(scores.parent, DECLARATIONS))),
    }
    files = {name: (folder / name,) for name in readers} | {FOLDER: tuple(sorted(scores.iterdir()))}
    errors = ScoringError, PmiError, CardError
    return {
        f"foreign {name}": Kind(files[name], quietly(reader), errors, foreign=True) for name, reader in readers.items()
    }


def quietly(read):
    """The reader without its warnings, which a command shows and goes on."""

    def call():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            read()
        return "read"

    return call


KINDS = {
    name: make
    for make, names in (
        (replies, ("replies",)),
        (responses, ("responses",)),
        (counts, ("counts",)),
        (checkpoint_file, ("checkpoint",)),
        (adapter, ("adapter",)),
        (stored, ("stored numbers",)),
        (deltas, (*(f"table of δ, {ending}" for ending in ("csv", "tsv", "jsonl", "parquet")), "gender-pmi")),
        (facts_of_data, ("data of a run",)),
        (foreign_model, [f"foreign {name}" for name in ("config.json", "generation_config.json", "tokenizer.json",
                         "tokenizer_config.json", "special_tokens_map.json", "model.safetensors")]),
        (foreign_files, [f"foreign {name}" for name in (facts.CONFIG, "rows.jsonl", "rows.txt.zst", "rows.parquet",
                         "scores.csv", "prompt.json", FOLDER)]),
    )
    for name in names
}  # fmt: skip


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
        others = None, 0, -1, 1e300, 10**400, math.nan, "", "other", [], {}, True, [inner], {"x": inner}
        holder[key] = draw.choice(others)
    return value


@dataclass(frozen=True)
class Outcome:
    """How many changes ended how, and the first of each that must not be."""

    counts: Counter[str]
    faults: list[str]


#: Seconds of the processor after which a reader hangs, and of the clock: a busy machine is slow, and one that waits
#: uses no processor.
LONGEST, WAITING = 30, 600


class Hang(BaseException):
    """A reader took too long."""


@contextmanager
def bounded():
    """A block that ends with :class:`Hang` after :data:`LONGEST` or :data:`WAITING` seconds."""

    def end(*_):
        raise Hang

    before = {number: signal.signal(number, end) for number in (signal.SIGPROF, signal.SIGALRM)}
    signal.setitimer(signal.ITIMER_PROF, LONGEST)
    signal.alarm(WAITING)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.alarm(0)
        for number, handler in before.items():
            signal.signal(number, handler)


def measure(name, folder, number):
    """Makes a file of a kind, changes it ``number`` times, and counts what its reader does."""
    kind = KINDS[name](folder)[name]
    draw = random.Random(f"mutations of {name}")
    whole = {path: path.read_bytes() for path in kind.files}
    expected = kind.read()
    assert expected != FOUND
    outcomes, faults = Counter(dict.fromkeys(("sentence", "harmless", "silent", "traceback", "hang"), 0)), []
    for turn in range(number):
        path = draw.choice(kind.files)
        path.write_bytes(changed(whole[path], draw))
        try:
            with bounded():
                result = kind.read()
            end = "sentence" if result == FOUND else "harmless" if kind.foreign or result == expected else "silent"
        except kind.errors as error:
            said = str(error)
            end = "sentence" if said.strip() and "\n" not in said and said.endswith(".") else "traceback"
            result = said
        except (KeyboardInterrupt, SystemExit):
            raise
        except Hang:
            end, result = "hang", ""
        except BaseException as error:  # also a panic of a library
            end, result = "traceback", repr(error)
        outcomes[end] += 1
        if end not in ("sentence", "harmless"):
            faults.append(f"change {turn} of {path.name}: {end} {result}"[:300])
        path.write_bytes(whole[path])
    assert kind.read() == expected
    return Outcome(outcomes, faults)
