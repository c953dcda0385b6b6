"""What a user meets, drawn at random: each kind gives one case, which ends right or in one sentence.

A kind is a function of a random generator and a folder. It makes an input, has the package read it, and compares with
what is right. An error of the package is a sentence; an assertion that fails is a silent fault.
"""

import functools
import json
import math
import random
import shutil
from collections import Counter
from pathlib import Path

import torch
import transformers
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file, save_file

import scoring
from cards.common.files import RECORD
from pmi.counting.local import count
from pmi.types import PmiError
from scoring.inference import control
from scoring.inference.load_options import BUNDLED, load
from scoring.inference.model import Model
from scoring.inputs import prompt_file
from scoring.many import hub_results
from scoring.many.sweep import FINISHED
from scoring.report import is_run_file
from scoring.report.headlines import headline_scores
from scoring.types import Option, Request, ScoringError
from tests.scoring.made import data_set
from tests.scoring.test_chat_api import jobs
from tests.support.commands import client
from tests.support.hub import File, Hub

ENDS = ("right", "sentence", "silent", "traceback")
ASKED = [Request("a", "The nurse said that", (Option(" he was"), Option(" she was"))), Request("b", "In a town, the")]
#: Differences of log-probabilities below this are rounding.
ROUNDING = 1e-3


def answers(model):
    """The log-probabilities of a model for two texts, as one list."""
    return [value for response in model.answer(ASKED[:1]) for option in response.logprobs for value in option]


# Python objects and hooks


def objects(draw, _folder):
    """A model in memory whose weights, buffers, adapter or hooks changed is known as another one, if it answers so."""
    torch.manual_seed(draw.randrange(10**6))
    network = transformers.AutoModelForCausalLM.from_pretrained(BUNDLED["tiny-causal"])
    adapted = get_peft_model(network, LoraConfig(r=2, target_modules="all-linear", task_type="CAUSAL_LM")).eval()
    for name, weight in adapted.named_parameters():
        if "lora_B" in name:
            weight.data.normal_(std=0.2)
    model = Model(adapted, transformers.AutoTokenizer.from_pretrained(BUNDLED["tiny-causal"]), "causal", "mine")
    before, known = answers(model), control.digest(model)
    assert control.digest(model) == known, "the same model"
    layers = [module for _, module in adapted.named_modules() if isinstance(module, torch.nn.Linear)]
    way, by = draw.choice(["weight", "buffer", "scaling", "disabled", "hook", "nothing"]), draw.uniform(0.2, 3)
    if way == "weight":
        draw.choice([weight for _, weight in adapted.named_parameters()]).data.mul_(1 + by)
    elif way == "buffer":
        adapted.get_base_model().model.rotary_emb.inv_freq.mul_(by / 4)
    elif way == "scaling":
        for module in adapted.modules():
            if isinstance(getattr(module, "scaling", None), dict):
                module.scaling = {name: scale * (1 + by) for name, scale in module.scaling.items()}
    elif way == "disabled":
        adapted.base_model.disable_adapter_layers()
    elif way == "hook":
        draw.choice(layers).register_forward_hook(lambda _module, _inputs, output: output + by)
    changed = math.dist(answers(model), before) > ROUNDING
    assert (control.digest(model) != known) >= changed, f"{way} by {by}"


# Heads of a file of prompts

TEXTS = ["He said “é”, and", 'She; "says"', "They write\tmany, many", "Ze is \u2028 here"]
HEADS = ("prompt", "Prompt", " PROMPT ", "group", "Group", "man", "woman", "promt", "text", "id", "", "1", "groups")


def heads(draw, folder):
    """Of a file with drawn heads, separator, encoding and empty lines, the texts are read whole or it is refused."""
    chosen = draw.sample(HEADS, draw.choice([1, 2, 2, 2, 3]))
    separator, end = draw.choice(",;\t"), draw.choice(["\n", "\r\n"])
    rows = [[draw.choice(TEXTS) for _ in chosen] for _ in range(draw.randrange(1, 4))]
    quoted = lambda cell: '"' + cell.replace('"', '""') + '"'  # noqa: E731
    lines = [separator.join(map(quoted, row)) for row in [chosen, *rows]]
    text = end.join(lines) + end * draw.randrange(3)
    file = folder / "mine.csv"
    file.write_bytes(text.encode(draw.choice(["utf-8", "utf-8-sig", "utf-16"])))
    made = prompt_file.read(file)
    names = [head.strip().lower() for head in chosen]
    if "prompt" in names:
        wanted = [row[names.index("prompt")] for row in rows]
    else:
        assert len(chosen) == 2, chosen
        assert not {"id", "text", "promt", "group", "groups", "", "1"} & set(names), chosen
        wanted = [cell for row in rows for cell in row]
    assert sorted(row["prompt"] for row in made.rows) == sorted(wanted), (chosen, separator)


# Emptiness and kinds of answers

SILENT = (
    "",
    " ",
    "\n\n",
    "…",
    "?",
    "I cannot answer that.",
    "<think>He is",
    "\0",
    "🙂",
    "x" * 5000,
    "Erkek",
    "A",
    "null",
)
NAMED = ("Male", "female.", "**Female**", "<think>Hmm.</think> Male", "The answer is: female")
#: What is no text at all.
OTHER = (None, 5, ["Male"], {"text": "Male"}, b"Male", math.nan)


def given(draw, folder):
    """A function's answers add up, and where more than half name no option, nothing is concluded."""
    data = folder / "data"
    if not data.exists():
        data_set(data, "occugender", {("explicit", "test"): list(jobs())})
    pool = draw.choice([SILENT, NAMED, SILENT + NAMED, SILENT + NAMED + OTHER])
    few = draw.sample(pool, min(len(pool), draw.randrange(1, 4)))
    answer = lambda prompts: [draw.choice(few) for _ in prompts]  # noqa: E731
    run = scoring.evaluate(answer, benchmarks=["occugender"], data=data, resamples=5, samples=2)
    assert not any(map(OTHER.__contains__, few)) or set(few) - set(OTHER), few
    statuses = run.report.unanswered("occugender")
    unnamed = sum(statuses.values())
    assert -1e-6 <= unnamed <= 100 + 1e-6, statuses
    if not set(few) & set(NAMED):
        assert unnamed > 50, (few, statuses)
    if unnamed > 50:
        assert not any(row.standing for row in headline_scores(run.report)), few


# The Hub's list of files

PARTS = (
    "model",
    "examples",
    "notes",
    ".git/hooks",
    "..",
    "occugender.parquet",
    "results.json",
    "README.md",
    "a b",
    ".ssh",
)
MODEL = "tiny"


def listed(draw, folder):
    """Of the files of a data set only those of a run come, into the folder of its model and over none of the user."""
    extra = {"/".join(draw.sample(PARTS, draw.randrange(1, 4))) for _ in range(6)}
    extra |= {f"{MODEL}/" + "/".join(draw.sample(PARTS, draw.randrange(1, 3))) for _ in range(4)}
    tree = {name: b"theirs" for name in extra if ".." not in name.split("/")}
    # A path is a file or a folder.
    tree = {name: content for name, content in tree.items() if not any(other.startswith(f"{name}/") for other in tree)}
    tree |= {f"{MODEL}/{name}": b"{}" for name in ("results.json", FINISHED)}
    place = folder / "there"
    mine = {}
    for name in draw.sample(
        [f"{MODEL}/README.md", f"{MODEL}/report.html", f"{MODEL}/results.md", "notes/README.md"], 2
    ):
        mine[place / name] = b"mine"
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_bytes(b"mine")
    with Hub(cache=folder / "cache") as hub, client():
        hub.add("dataset", "team/sweep", {name: File(content) for name, content in tree.items()})
        try:
            hub_results.fetch("hub:team/sweep", [place / MODEL], FINISHED)
        finally:
            assert all(path.read_bytes() == content for path, content in mine.items())
            came = {path for path in folder.joinpath("there").rglob("*") if path.is_file()} - mine.keys()
            names = {path.relative_to(place / MODEL).as_posix() for path in came}
            assert all(is_run_file(name) or name in (RECORD, FINISHED, ".lock") for name in names), names


# Corpora

SENTENCES = [
    "She saw a nurse.",
    "He met the captain; “é”.",
    "They sang.",
    "",
    "x" * 300 + " he ship",
    "He\u2028ran, she ran.",
]


@functools.cache
def counted(texts):
    return shown(count(iter(texts), gendered=["she", "he"]))


def shown(counts):
    return sorted(zip(counts.words, counts.word_counts.tolist(), counts.pair_counts.tolist(), strict=True))


def corpora(draw, folder):
    """A corpus has the counts of its texts, in whatever encoding and with whatever ends of lines it comes."""
    texts = [draw.choice(SENTENCES) for _ in range(draw.randrange(1, 7))]
    if draw.random() < 0.5:
        name, end = "a.jsonl", draw.choice(["\n", "\r\n"])
        text = end.join(json.dumps({"text": one}, ensure_ascii=draw.random() < 0.5) for one in texts)
    else:
        name, end = "a.txt", draw.choice(["\n", "\r\n"])
        text = end.join(texts)
    encoding = draw.choice(["utf-8", "utf-8-sig", "utf-16", "utf-32", "utf-16-le", "utf-16-be", "utf-32-le"])
    (folder / name).write_bytes((text + end * draw.randrange(2)).encode(encoding))
    made = shown(count([folder / name], gendered=["she", "he"], jobs=1))
    assert made == counted(tuple(texts)), (encoding, name)


# Checkpoints


@functools.cache
def plain():
    return answers(load(BUNDLED["tiny-causal"], device="cpu"))


def checkpoints(draw, folder):
    """A checkpoint with tensors or a configuration that do not fit is refused, and any other answers alike."""
    model = Path(shutil.copytree(BUNDLED["tiny-causal"], folder / "model"))
    tensors = load_file(model / "model.safetensors")
    name = draw.choice(sorted(tensors))
    config = json.loads((model / "config.json").read_text())
    way = draw.choice(["lost", "more", "renamed", "shape", "double", "layers", "kind", "tokenizer", "cut", "order"])
    alike = way in ("double", "order")
    if way == "lost":
        del tensors[name]
    elif way == "more":
        tensors[draw.choice([f"{name}_scale_inv", "model.layers.99.mlp.up_proj.weight", "extra.weight"])] = torch.ones(
            2
        )
    elif way == "renamed":
        tensors[name.replace("model.", "other.", 1) + ".x"] = tensors.pop(name)
    elif way == "shape":
        tensors[name] = tensors[name][..., :-1].contiguous()
    elif way == "double":
        tensors = {key: tensor.double() for key, tensor in tensors.items()}
    elif way == "layers":
        config["num_hidden_layers"] += draw.choice([-1, 1])
    elif way == "kind":
        config["model_type"] = draw.choice(["", "none", 7])
    elif way == "order":
        config = dict(sorted(config.items(), reverse=True))
    (model / "config.json").write_text(json.dumps(config))
    save_file(tensors, model / "model.safetensors", {"format": "pt"})
    if way == "tokenizer":
        for file in [*model.glob("tokenizer*"), *model.glob("vocab*"), *model.glob("merges*")]:
            file.unlink()
    elif way == "cut":
        content = (model / "model.safetensors").read_bytes()
        (model / "model.safetensors").write_bytes(content[: draw.randrange(len(content))])
    made = answers(load(model, device="cpu"))
    assert alike, f"{way} of {name} is answered"
    assert math.dist(made, plain()) < ROUNDING, way


KINDS = {
    "objects and hooks": objects,
    "heads of a CSV": heads,
    "answers": given,
    "files of the Hub": listed,
    "corpora": corpora,
    "checkpoints": checkpoints,
}


def measure(name, folder, number):
    """How many cases of a kind ended how, and each that must not be."""
    ends, faults = Counter(dict.fromkeys(ENDS, 0)), []
    draw = random.Random(f"what is met: {name}")
    for turn in range(number):
        place = folder / str(turn)
        place.mkdir()
        said = ""
        try:
            KINDS[name](draw, place)
            end = "right"
        except (ScoringError, PmiError) as error:
            said = str(error)
            end = "sentence" if said.endswith(".") and "\n" not in said else "traceback"
        except AssertionError as error:
            end, said = "silent", str(error)
        except Exception as error:
            end, said = "traceback", repr(error)
        ends[end] += 1
        if end in ("silent", "traceback"):
            faults.append(f"{name}, case {turn}: {end} {said}"[:400])
        shutil.rmtree(place)
    return ends, faults
