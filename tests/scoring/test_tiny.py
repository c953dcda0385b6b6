"""The bundled models are small, whole, honest about themselves and can be made again."""

import gzip
import hashlib
import json
import math
import random
import shlex
import socket
from dataclasses import asdict

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoModelForMaskedLM, AutoTokenizer

from tools import train_bundled_models as tiny

torch.set_num_threads(1)
FILES = {
    "config.json",
    "generation_config.json",
    "model.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
    "training.json",
    "README.md",
}
AUTO = {"causal": AutoModelForCausalLM, "masked": AutoModelForMaskedLM}
SENTENCES = [
    "He took her by the hand, and they went into the garden together.",
    "The old man looked at his daughter, but she did not say a word.",
    "I have been thinking of it all night, and I do not know what to do.",
    "When the door was opened, there was nobody in the room.",
]
SMALL = ["--steps", "4", "--vocabulary", "320", "--width", "16", "--heads", "2", "--layers", "1"]
SMALL += ["--context", "48", "--batch", "4", "--warmup", "1"]


@pytest.fixture(scope="module", params=tiny.KINDS)
def bundled(request):
    """Kind, folder, model, tokenizer and facts of a bundled model, read with every way to the network closed."""

    def refuse(*_):
        raise AssertionError("a bundled model needs no network")

    folder = tiny.DATA / f"tiny-{request.param}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", refuse)
        model = AUTO[request.param].from_pretrained(folder).eval()
        tokenizer = AutoTokenizer.from_pretrained(folder)
    return tiny.KINDS[request.param], folder, model, tokenizer, json.loads((folder / "training.json").read_text())


def plain(name, model, tokenizer, sentence):
    """Log-probability of each ordinary token, one forward pass each, in the plainest way."""
    ids = tokenizer(sentence)["input_ids"]
    result = []
    for at in range(1, len(ids) if name == "causal" else len(ids) - 1):
        seen = ids[:at] if name == "causal" else [*ids[:at], tokenizer.mask_token_id, *ids[at + 1 :]]
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([seen])).logits[0, at - (name == "causal")]
        result.append(torch.log_softmax(logits.double(), -1)[ids[at]].item())
    return result


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """A made text in three documents of JSON lines, compressed."""
    draw = random.Random(0)
    words = "he she they saw took had the a old young nurse farmer horse letter and but with to him her".split()
    texts = [
        " ".join(" ".join(draw.choices(words, k=9)).capitalize() + "." for _ in range(900)).replace("letter", "lëtter")
        for _ in range(3)
    ]
    path = tmp_path_factory.mktemp("corpus") / "made.jsonl.gz"
    lines = [json.dumps({"text": text, "meta": {"name": f"made {n}"}}) for n, text in enumerate(texts)]
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    return path


def test_a_bundled_model_is_at_most_three_megabytes_of_the_usual_files(bundled):
    kind, folder, *_ = bundled
    sizes = {path.name: path.stat().st_size for path in folder.iterdir()}
    assert sizes.keys() == FILES - ({"generation_config.json"} if kind.name == "masked" else set())
    assert sum(sizes.values()) <= 3_000_000


def test_a_bundled_model_loads_in_float32_with_all_of_its_weights(bundled):
    kind, folder, model, _, facts = bundled
    _, report = AUTO[kind.name].from_pretrained(folder, output_loading_info=True)
    assert not any(report.values()), report
    assert model.dtype == torch.float32
    assert facts["parameters"] == sum(p.numel() for p in model.parameters())
    assert facts["architecture"] == type(model).__name__


def test_a_bundled_model_gives_the_recorded_log_probabilities(bundled):
    kind, _, model, tokenizer, facts = bundled
    reference = facts["reference"]
    assert plain(kind.name, model, tokenizer, reference["sentence"]) == pytest.approx(reference["logprobs"], abs=1e-3)
    assert kind.logprobs(model, tokenizer, reference["sentence"]) == pytest.approx(reference["logprobs"], abs=1e-3)
    assert kind.word_probabilities(model, tokenizer)["probability"] == pytest.approx(
        facts["illustration"]["probability"], abs=1e-3
    )


def test_a_bundled_model_has_learnt_english(bundled):
    kind, _, model, tokenizer, facts = bundled
    result = [value for sentence in SENTENCES for value in plain(kind.name, model, tokenizer, sentence)]
    perplexity = math.exp(-sum(result) / len(result))
    assert perplexity < len(tokenizer) / 20
    assert perplexity < math.exp(facts["nats_per_token"]["held_out_unigram"]) / 2
    shuffled = [" ".join(sorted(sentence.split(), key=len)) for sentence in SENTENCES]
    worse = [value for sentence in shuffled for value in plain(kind.name, model, tokenizer, sentence)]
    assert sum(result) / len(result) > sum(worse) / len(worse) + 0.5


def pronoun_gaps(name):
    """For some ends of a sentence, log p(he) − log p(she) in nats, after a man and after a woman."""
    folder = tiny.DATA / f"tiny-{name}"
    model, tokenizer = AUTO[name].from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)
    for end in ("said that {} was tired.", "said that {} would come again.", "told me that {} was tired."):
        gap = {}
        for person in ("man", "woman"):
            he = sum(plain(name, model, tokenizer, f"The {person} {end.format('he')}"))
            she = sum(plain(name, model, tokenizer, f"The {person} {end.format('she')}"))
            gap[person] = he - she
        yield gap


def test_the_causal_model_knows_which_pronoun_follows_a_man_or_a_woman():
    for gap in pronoun_gaps("causal"):
        assert gap["man"] > 0 > gap["woman"]
        assert gap["man"] > gap["woman"] + 1


def test_the_masked_model_does_not_know_which_pronoun_follows_and_its_page_says_so():
    for gap in pronoun_gaps("masked"):
        assert abs(gap["man"] - gap["woman"]) < 1
    assert "cannot be judged" in (tiny.DATA / "tiny-masked" / "README.md").read_text("utf-8")


def test_the_recorded_command_trains_with_the_recipe_that_the_script_has(bundled):
    kind, _, _, _, facts = bundled
    program, *words = shlex.split(facts["command"])
    assert (program, words[:2]) == ("python", ["-m", "tools.train_bundled_models"])
    given = tiny.arguments().parse_args(words[2:])
    assert given.kind == kind.name
    assert facts["recipe"] == asdict(tiny.Recipe()) == {name: getattr(given, name) for name in facts["recipe"]}
    assert [path.name for path in given.corpus] == [file["file"] for file in facts["corpus"]]
    assert (given.provenance, given.licence) == (facts["provenance"], facts["licence"])


def test_pronouns_are_single_tokens(bundled):
    kind, _, _, tokenizer, _ = bundled
    space = " " if kind.name == "causal" else ""
    for word in ("he", "she", "him", "her", "his", "himself", "herself", "they", "them", "their", "man", "woman"):
        assert len(tokenizer(space + word, add_special_tokens=False)["input_ids"]) == 1, word


def test_texts_get_their_special_tokens_once_and_come_back(bundled):
    kind, _, _, tokenizer, _ = bundled
    ids = tokenizer(SENTENCES[0])["input_ids"]
    special = [token for token in tokenizer.convert_ids_to_tokens(ids) if token in tokenizer.all_special_tokens]
    assert special == (["<s>"] if kind.name == "causal" else ["[CLS]", "[SEP]"])
    text = tokenizer.decode(ids, skip_special_tokens=True)
    assert text == (SENTENCES[0] if kind.name == "causal" else SENTENCES[0].lower())


def test_the_card_says_what_the_record_of_the_training_says(bundled):
    kind, folder, _, _, facts = bundled
    assert (folder / "README.md").read_text() == tiny.card(kind, facts)
    assert facts["command"] in tiny.card(kind, facts)
    assert f"p(she) = {[*facts['illustration']['probability'].values()][1]}" in tiny.card(kind, facts)
    assert facts["nats_per_token"]["held_out"] < facts["nats_per_token"]["held_out_unigram"] - 1
    assert facts["held_out_perplexity"] == pytest.approx(math.exp(facts["nats_per_token"]["held_out"]), abs=0.01)
    for file in facts["corpus"]:
        assert len(file["sha256"]) == 64
        assert file["documents"]


@pytest.mark.parametrize("kind", tiny.KINDS)
def test_training_twice_gives_the_same_folder(kind, corpus, tmp_path, capsys):
    arguments = [kind, "--corpus", str(corpus), *SMALL, "--provenance", "Made.", "--licence", "mit"]
    assert [tiny.main([*arguments, "--out", str(tmp_path / name)]) for name in "ab"] == [0, 0]
    assert f"The model is in {tmp_path / 'b'}." in capsys.readouterr().out
    first, second = ({p.name: p.read_bytes() for p in (tmp_path / name).iterdir()} for name in "ab")
    assert first == second
    facts = json.loads(first["training.json"])
    (file,) = facts["corpus"]
    assert file["sha256"] == hashlib.sha256(corpus.read_bytes()).hexdigest()
    assert file["documents"] == ["made 0", "made 1", "made 2"]
    assert (facts["provenance"], facts["licence"]) == ("Made.", "mit")
    assert facts["tokens"]["seen"] == 4 * 4 * 48
    assert str(tmp_path) not in first["training.json"].decode() + first["README.md"].decode()
    model = AUTO[kind].from_pretrained(tmp_path / "a")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "a")
    reference = facts["reference"]
    assert plain(kind, model.eval(), tokenizer, reference["sentence"]) == pytest.approx(reference["logprobs"], abs=1e-5)


@pytest.mark.parametrize("kind", tiny.KINDS)
def test_another_seed_gives_other_weights(kind, corpus, tmp_path):
    for seed in "01":
        assert tiny.main([kind, "--corpus", str(corpus), *SMALL, "--seed", seed, "--out", str(tmp_path / seed)]) == 0
    first, second = ((tmp_path / seed / "model.safetensors").read_bytes() for seed in "01")
    assert first != second


def test_training_lowers_the_loss(corpus, tmp_path):
    arguments = ["masked", "--corpus", str(corpus), *SMALL, "--rate", "0.01"]
    assert tiny.main([*arguments, "--steps", "60", "--out", str(tmp_path)]) == 0
    nats = json.loads((tmp_path / "training.json").read_text())["nats_per_token"]
    assert nats["held_out"] < nats["uniform"] - 1


def test_the_heads_of_a_masked_model_begin_at_the_nearest_tokens():
    class Names:
        pad_token_id = 0

        def __len__(self):
            return 500

    torch.manual_seed(0)
    model = tiny.KINDS["masked"].network(Names(), tiny.Recipe(vocabulary=500, context=64)).eval()
    model.set_attn_implementation("eager")
    with torch.no_grad():
        weights = model.bert(torch.randint(5, 500, (8, 64)), output_attentions=True).attentions[0]
    for head, offset in enumerate((-2, -1, 1, 2)):
        result = weights[:, head].argmax(-1)[:, 4:60] - torch.arange(4, 60)
        assert (result == offset).float().mean() > 0.7


def test_held_out_passages_are_the_ends_of_texts():
    texts = [
        " ".join(f"Sentence {n} of text {t} has some words in it, as sentences have." for n in range(200)) for t in "ab"
    ]
    learnt, held = tiny.divide(texts, share=0.1)
    assert not set(learnt) & set(held)
    for text in "ab":
        assert sum(f"text {text}" in passage for passage in held) == 10
        assert any(f"Sentence 199 of text {text}" in passage for passage in held)


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        (
            "none.jsonl.zst",
            None,
            "There is no corpus file {path}; give --corpus the paths of text files or of JSON lines",
        ),
        ("bad.jsonl.gz", b"not compressed", "The corpus file {path} could not be read ("),
        ("bad.jsonl", b'{"title": "no text"}\n', "The corpus file {path} could not be read ("),
        ("bad.jsonl", b"[1]\n", "The corpus file {path} could not be read ("),
        ("bad.txt", b"\xff\xfe", "The corpus file {path} could not be read ("),
        ("empty.txt", b"", "The corpus has no two passages to learn from and to hold out; give --corpus longer texts."),
        ("short.txt", b"One sentence stands here. " * 60, "in one of its two parts, and a row takes 48; give a longer"),
    ],
)
def test_a_corpus_that_will_not_do_is_told_in_one_sentence(name, content, sentence, tmp_path, capsys):
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    assert tiny.main(["causal", "--corpus", str(path), *SMALL, "--out", str(tmp_path / "out")]) == 1
    printed = capsys.readouterr().err
    assert sentence.format(path=path) in printed
    assert len(printed.strip().splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_a_loss_that_is_no_number_stops_the_training(corpus, tmp_path, capsys):
    arguments = ["causal", "--corpus", str(corpus), *SMALL, "--rate", "1e30", "--out", str(tmp_path / "out")]
    assert tiny.main(arguments) == 1
    assert "is nan; train again with a smaller --rate." in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
