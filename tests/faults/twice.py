"""The commands that are run twice, with a change in between (:mod:`tests.faults.between`)."""

import json
import os
import shutil
from contextlib import contextmanager

import builders.rebuild
import mitigation.__main__
import pmi.__main__
import scoring.api
import scoring.commands.compare
import scoring.commands.leaderboard
import scoring.commands.rescore
import scoring.commands.score
from builders import generate
from builders.generation import endpoint, pipelines
from builders.generation.session import GenerationOptions
from cards import results
from mitigation.api import Options
from mitigation.recipe import setting_options
from mitigation.recipes import get
from mitigation.running.steps import WITHOUT_EFFECT
from pmi.counting.counts import Counts
from scoring.adapters import facts
from scoring.inference.load_options import BUNDLED, LoadOptions
from scoring.options import Sampling, ServedOptions, Settings
from tests.builders.test_generate import script
from tests.faults.between import Command, in_child
from tests.mitigation.made import data as probes
from tests.scoring import inference_server
from tests.scoring.made import data_set
from tests.scoring.test_chat_api import jobs, writer
from tests.support import openai_server

#: Imported before forking, as every child needs them.
assert endpoint, scoring.api


class Address:
    """The addresses of the servers of the command that is measured."""

    one = other = ""


# generate


def words(folder):
    folder.mkdir(parents=True)
    (folder / "words.txt").write_text("umbrella\nbridge\n")
    (folder / "address").write_text("1")


def other_script(body, number):
    """What another model says under the same name."""
    return script(body, number).replace("packed", "carried").replace("sold", "lost")


@contextmanager
def chat_writers(_inputs):
    with openai_server.serving(script) as one, openai_server.serving(other_script) as other:
        Address.one, Address.other = one.url, other.url
        yield


def address(inputs):
    """The address of a server, which is in a file, so that a changed byte is another server."""
    return Address.one if (inputs / "address").read_text() == "1" else Address.other


def generated(inputs, out):
    given = ["--words", inputs / "words.txt", "--no-they", "--count", "1", "--base-url", address(inputs)]
    return ["unstereo", *given, "--model", "m", "--out", out]


def rows(out, _said):
    return (out / "rows.jsonl").read_text()


# pmi count


def corpus(folder):
    (folder / "corpus").mkdir(parents=True)
    (folder / "corpus" / "a.txt").write_text("She saw a nurse and a ship.\n" * 20)
    (folder / "corpus" / "b.jsonl").write_text(json.dumps({"text": "He met the nurse. She met him."}) + "\n")


def counted(inputs, out):
    return ["count", inputs / "corpus", "--out", out / "counts.parquet", "--jobs", "1"]


def counts(out, _said):
    table = Counts.read(out / "counts.parquet")
    return [list(table.words), table.word_counts.tolist(), table.pair_counts.tolist()]


def interrupted(inputs, out):
    """Leaves the tables of finished files and no result, as a count that is killed at its end."""
    from pmi.counting.local import GENDERED_WORDS, CountingJob, count_parts, rule_of

    folder = out / "counts.parquet.parts"
    folder.mkdir()
    rule = rule_of(str(inputs / "corpus"), GENDERED_WORDS, 10, "clean", "record")
    count_parts([str(inputs / "corpus")], CountingJob(rule, folder), None, 1, None, lambda *_: None)
    (out / "counts.parquet").unlink()


# rebuild


def built(_inputs, out):
    return ["gender-neutral-probes", "--offline", "--out", out]


def tables(out, _said):
    return {path.relative_to(out).as_posix(): path.read_bytes().hex() for path in sorted(out.rglob("*.parquet"))}


# score


def model_and_data(folder):
    """A bundled model in a folder of the user, and four questions."""
    shutil.copytree(BUNDLED["tiny-causal"], folder / "model")
    questions(folder)


def questions(folder):
    explicit = [row for row in jobs() if row["template"] == "explicit"]
    data_set(folder / "data", "occugender", {("explicit", "test"): explicit})


SCORED = ["--benchmarks", "occugender", "--resamples", "20"]


def scored(inputs, out):
    return [inputs / "model", *SCORED, "--exact", "--device", "cpu", "--data", inputs / "data", "--out", out]


def scores(out, _said):
    """The numbers of a run, and what it says that they were computed with."""
    run = results.read(out)
    numbers = {" ".join(score.key): [*score.numbers, score.n, score.clusters] for score in run.estimates}
    return [numbers, run.environment["response key"], dict(run.data)]


def without_result(_inputs, out):
    """Leaves the stored responses alone, as a run that is killed before its results are written."""
    for path in out.iterdir():
        if path.name == "examples":
            shutil.rmtree(path)
        elif path.is_file() and path.name != ".lock" and not path.name.startswith(("responses", "replies", ".replies")):
            path.unlink()


class Changing(inference_server.Server):
    """A server whose weights are a number in a file of the inputs."""

    def __init__(self, inputs):
        self.file = inputs / "weights"

    @property
    def scale(self):
        return float(self.file.read_text())


def served_inputs(folder):
    model_and_data(folder)
    # The weights are those of the server; its user has the tokenizer.
    (folder / "model" / "model.safetensors").unlink()
    (folder / "weights").write_text("1.25")


@contextmanager
def model_server(inputs):
    with inference_server.serving(Changing(inputs)) as server:
        Address.one = server.url
        yield


def served(inputs, out):
    where = ["--base-url", Address.one, "--tokenizer", inputs / "model"]
    return [*where, *SCORED, "--data", inputs / "data", "--out", out]


def chat_inputs(folder):
    questions(folder)
    (folder / "address").write_text("1")


@contextmanager
def chat_servers(_inputs):
    os.environ.setdefault("OPENAI_API_KEY", "sk-planted-0123456789abcdef")
    with openai_server.serving(writer) as one, openai_server.serving(lambda *_: "male") as other:
        Address.one, Address.other = one.url, other.url
        yield


def sampled(inputs, out):
    given = ["--chat-api", "--base-url", address(inputs), "--model-name", "m", "--samples", "2"]
    return [*given, *SCORED, "--data", inputs / "data", "--out", out]


# what reads runs


def runs(folder):
    """Two runs of one model, with two dtypes."""
    model_and_data(folder)
    for name, more in (("base", ["--exact"]), ("run", ["--dtype", "bfloat16"])):
        arguments = [folder / "model", *SCORED, *more, "--device", "cpu", "--data", folder / "data"]
        done = in_child(lambda arguments=arguments, name=name: _called(arguments, folder / name))
        assert done == 0, done
    shutil.rmtree(folder / "model")
    shutil.rmtree(folder / "data")


def _called(arguments, out):
    from typer.testing import CliRunner

    return CliRunner().invoke(scoring.commands.score.app, [*map(str, arguments), "--out", str(out)]).exit_code


def compared(inputs, out):
    return [inputs / "run", inputs / "base", "--resamples", "20", "--out", out]


def comparison(out, _said):
    content = json.loads((out / "compare.json").read_text())
    return [content["differences"], (out / "compare.html").read_text()]


def listed(inputs, out):
    return [inputs / "run", inputs / "base", "--out", out / "board.html"]


def board(out, _said):
    return (out / "board.html").read_text()


# rescore


def score_file(folder):
    folder.mkdir(parents=True)
    lines = [f"{n // 4},-{3 + n % 5}.{n}25,-{4 + n % 3}.{n}5" for n in range(8)]
    text = "\n".join(["dataset,female_logprob,male_logprob", *(f"ours-{line}" for line in lines)])
    (folder / "scores.csv").write_text(f"{text}\n")


def rescored(inputs, _out):
    return [inputs / "scores.csv", "--benchmark", "unstereo", "--resamples", "20", "--json"]


def printed(_out, said):
    content = json.loads(said)
    return [content[name] for name in ("estimates", "remarks", "resamples", "seed")]


# mitigate

RECIPE = "debias_tuning"


def recipe_inputs(folder):
    shutil.copytree(BUNDLED["tiny-causal"], folder / "model")
    probes(folder / "data")
    questions(folder)


def mitigated(inputs, out):
    few = {"steps": 2, "batch-size": 4, "rank": 2, "alpha": 2, "checkpoint-every": 2, "validate-every": 2}
    settings = [part for name, value in few.items() for part in (f"--{name}", value)]
    # In float64, rounding does not depend on which answers are stored already.
    where = ["--data", inputs / "data", "--out", out / "adapter", "--device", "cpu", "--dtype", "float64"]
    return [RECIPE, inputs / "model", *settings, "--corpora", "stsb", *SCORED, *where]


def adapter(out, _said):
    """What an adapter is, how it was made, and what was measured before and after."""
    made = facts.read(out / "adapter")
    weights = (out / "adapter" / "adapter_model.safetensors").read_bytes().hex()
    changes = [[c.benchmark, c.group, c.metric, *c.before, *c.after] for c in made.changes]
    # A setting of memory is the one that it was made with.
    settings = {name: value for name, value in made.settings.items() if name not in WITHOUT_EFFECT}
    return [weights, made.base, made.revision, settings, dict(made.data), changes]


SCORE = (Settings, LoadOptions)
#: Other values of options whose type does not say one.
OF_SCORE = {"profile": "paper", "prompt": "fair", "ways": "choice", "wordings": "2", "quantize": None, "limit": 3}
OF_SCORE |= {"adapter": None, "revision": None, "adapter_revision": None, "benchmarks": "unstereo"}

COMMANDS = {
    "generate": Command(
        generate.app,
        words,
        generated,
        rows,
        (pipelines.get("unstereo").settings, GenerationOptions),
        chat_writers,
        values={"model": "n", "base_url": None},
    ),
    "pmi count, resumed": Command(pmi.__main__.app, corpus, counted, counts, between=interrupted),
    "rebuild": Command(builders.rebuild.app, lambda folder: folder.mkdir(parents=True), built, tables),
    "score": Command(
        scoring.commands.score.app,
        model_and_data,
        scored,
        scores,
        SCORE,
        again=("--overwrite",),
        values=OF_SCORE | {"exact": None},
    ),
    "score, resumed": Command(
        scoring.commands.score.app,
        model_and_data,
        scored,
        scores,
        SCORE,
        between=without_result,
        values=OF_SCORE | {"exact": None},
    ),
    "score, served model": Command(
        scoring.commands.score.app,
        served_inputs,
        served,
        scores,
        (Settings, ServedOptions),
        model_server,
        again=("--overwrite",),
        values=OF_SCORE,
    ),
    "score, chat server": Command(
        scoring.commands.score.app,
        chat_inputs,
        sampled,
        scores,
        (Settings, Sampling),
        chat_servers,
        again=("--overwrite",),
        values=OF_SCORE | {"chat_api": None, "samples": 3, "temperature": 0.5, "seed": 3},
    ),
    "compare": Command(scoring.commands.compare.app, runs, compared, comparison, (scoring.commands.compare.main,)),
    "leaderboard": Command(scoring.commands.leaderboard.app, runs, listed, board, (scoring.commands.leaderboard.main,)),
    "rescore": Command(scoring.commands.rescore.app, score_file, rescored, printed, (scoring.commands.rescore.main,)),
    "mitigate": Command(
        mitigation.__main__.app,
        recipe_inputs,
        mitigated,
        adapter,
        (Options, setting_options(get(RECIPE).profiles)),
        share=6,
        values={"profile": "paper", "quantize": None, "dtype": "float32", "benchmarks": "neutral"},
    ),
}
