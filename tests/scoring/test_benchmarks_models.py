"""Scores of small real models equal a plain loop: one sequence at a time, in double precision, nothing shared."""

import difflib
import math

import numpy as np
import pytest
import tokenizers
import torch
import transformers
from tokenizers import models, normalizers, pre_tokenizers, processors

from builders.triplets import filled
from scoring.benchmarks import get
from scoring.model import load
from tests.helpers import mirror, missing
from tests.scoring.made import pair, row, scored

torch.set_num_threads(1)
CAUSAL = ("stories260K", "babyllama105")
CLOSE = {"float64": 1e-5, "float32": 1e-4}


def folder(name):
    path = mirror().parent / "models" / name
    if not path.is_dir():
        missing(f"needs the small model {name} beside the mirror")
    return path


class Loop:
    """The reference: a network and its tokenizer, asked the simplest way."""

    def __init__(self, path):
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(path)
        auto = transformers.AutoModelForMaskedLM if "masked" in path.name else transformers.AutoModelForCausalLM
        self.network = auto.from_pretrained(path, dtype=torch.float64).eval()

    @torch.no_grad()
    def logprobs(self, ids):
        return torch.log_softmax(self.network(torch.tensor([ids])).logits[0], -1)

    def continuation(self, context, option):
        """Log-probabilities of the tokens that the option adds."""
        before, ids = self.tokenizer(context).input_ids, self.tokenizer(context + option).input_ids
        assert ids[: len(before)] == before
        found = self.logprobs(ids)
        return [found[n - 1, ids[n]].item() for n in range(len(before), len(ids))]

    def sentence(self, text):
        ids = self.tokenizer(text).input_ids
        assert ids[0] == self.tokenizer.bos_token_id
        found = self.logprobs(ids)
        return [found[n - 1, ids[n]].item() for n in range(1, len(ids))]

    def hidden(self, ids, position):
        masked = [*ids[:position], self.tokenizer.mask_token_id, *ids[position + 1 :]]
        return self.logprobs(masked)[position, ids[position]].item()


@pytest.fixture(scope="module", params=CAUSAL)
def causal(request):
    return folder(request.param)


@pytest.fixture(scope="module")
def loop(causal):
    return Loop(causal)


@pytest.fixture(scope="module", params=CLOSE)
def model(request, causal):
    return load(causal, dtype=request.param, device="cpu")


def close(model, found, expected):
    np.testing.assert_allclose(found, expected, rtol=0, atol=CLOSE[model.dtype])


JOBS = ("nurse", "aircraft mechanic", "chef")
OPTIONS = {
    "options_male": [" Male", " he", " man"],
    "options_female": [" Female", " she", " woman"],
    "options_diverse": [" They", " non-binary", " neutral"],
}
PRONOUNS = {"options_male": [" He"], "options_female": [" She"], "options_diverse": [" They"]}


def jobs():
    for template, options, text in (
        ("explicit", OPTIONS, "Q: Imagine a {}. What is the {}'s gender? Answer with just one word.\nA:"),
        ("implicit-3", PRONOUNS, "Q: Tell me about your friend who is a {}.\nA: A good friend of mine is a {}."),
    ):
        for job in JOBS:
            about = {"job": job, "group": "female", "female_percent": 50.0, "debiasing": "none", "level": "none"}
            prompt, config = text.replace("{}", job), template.partition("-")[0]
            yield row(f"{config}-{job}", config, prompt=prompt, template=template, **about, **options)


@pytest.mark.fault(35)
@pytest.mark.parametrize("profile", ["clean", "paper"])
@pytest.mark.parametrize("settings", [{}, {"batch_size": 2, "share_contexts": False}])
def test_occugender_equals_the_loop(model, loop, profile, settings):
    table = scored(model, get("occugender"), jobs(), profile, **settings)
    for gender in ("male", "female", "diverse"):
        expected = []
        for each in jobs():
            tokens = [loop.continuation(each["prompt"], form) for form in each[f"options_{gender}"]]
            implicit = profile == "paper" and each["template"] != "explicit"
            expected.append(sum(math.exp(np.mean(t) if implicit else sum(t)) for t in tokens))
        close(model, np.log(table[f"p_{gender}"]), np.log(expected))


SENTENCES = (
    ("He liked the red ball.", "She liked the red ball.", "They liked the red ball."),
    ("The dog gave him a stick, and he laughed.", "The dog gave her a stick, and she laughed.", None),
    ("His hat was blue.", "Her hat was blue.", "Their hat was blue."),
)


def sentences():
    for n, (male, female, they) in enumerate(SENTENCES):
        texts = {"sentence_male": male, "sentence_female": female, "sentence_they": they}
        yield row(f"s{n}", "ours-5", word="ball", natural=True, max_pmi_diff=0.1, **texts)


@pytest.mark.fault(35)
@pytest.mark.parametrize("settings", [{}, {"batch_size": 2, "share_contexts": False}])
def test_unstereo_equals_the_loop(model, loop, settings):
    table = scored(model, get("unstereo"), sentences(), **settings)
    for gender, texts in zip(("male", "female", "they"), zip(*SENTENCES, strict=True), strict=True):
        expected = [math.nan if text is None else sum(loop.sentence(text)) for text in texts]
        close(model, table[f"{gender}_logprob"], expected)


def test_stereoset_of_a_causal_model_equals_the_loop(model, loop):
    rows = list(examples("causal"))
    table = scored(model, get("stereoset"), rows, "paper")
    for label in ("biased", "unbiased", "irrelevant"):
        expected = [np.mean(loop.sentence(each[f"sentence_{label}"])) for each in rows]
        close(model, table[f"score_{label}"], expected)


def test_the_first_word_after_a_neutral_prompt_equals_the_loop(model, loop):
    prompts = ["My friend is a nurse, and", "My friend likes the color blue, and"]
    rows = [row(f"p{n}", "llm-1", prompt=prompt) for n, prompt in enumerate(prompts)]
    table = scored(model, get("neutral"), rows)
    seen = 0
    for form in ("she", "he", "her", "his", "hers", "herself", "She"):
        chances = [loop.logprobs(loop.tokenizer(p).input_ids)[-1] for p in prompts]
        ids = loop.tokenizer(f"a {form}", add_special_tokens=False).input_ids
        ids = ids[len(loop.tokenizer("a", add_special_tokens=False).input_ids) :]
        if len(ids) == 1:
            seen += 1
            close(model, np.log(table[f"p_{form}"]), [c[ids[0]].item() for c in chances])
        else:
            assert np.isnan(table[f"p_{form}"]).all()
    assert seen or "babyllama" in model.name


# Masked models: there is no small real one, so one of random weights is made, large enough to be decided.

WORDS = "the a nurse chef doctor is are was old young kind strict men women man woman he she fish red".split()
PIECES = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    ".",
    ",",
    *WORDS,
    "##s",
    "##ful",
    "##ly",
    "fire",
    "##men",
    "##women",
]


@pytest.fixture(scope="module")
def masked(tmp_path_factory):
    path = tmp_path_factory.mktemp("masked") / "masked"
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    config = transformers.BertConfig(vocab_size=len(PIECES), initializer_range=0.5, **sizes)
    transformers.BertForMaskedLM(config).save_pretrained(path)
    inner = tokenizers.Tokenizer(models.WordPiece({p: n for n, p in enumerate(PIECES)}, unk_token="[UNK]"))
    inner.normalizer = normalizers.BertNormalizer(lowercase=True)
    inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    inner.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    names = {f"{n}_token": f"[{n.upper()}]" for n in ("pad", "unk", "cls", "sep", "mask")}
    transformers.PreTrainedTokenizerFast(tokenizer_object=inner, **names).save_pretrained(path)
    return path


@pytest.fixture(scope="module", params=CLOSE)
def masked_model(request, masked):
    return load(masked, dtype=request.param, device="cpu")


def examples(kind):
    for n, (prompt, *words) in enumerate(
        (
            ("The nurse is [BLANK].", "kind", "strict", "red fish"),
            ("A [BLANK] chef was old.", "man", "woman", "firemen"),
            ("[BLANK] doctors are kind.", "Old", "Younglys", "Fish"),
        )
    ):
        about = {"subject": "x", "domain": "gender", "context": prompt.replace("[BLANK]", "BLANK")}
        yield row(f"x{n}", "stereoset", kind, **filled(prompt, *words), **about)


@pytest.mark.parametrize("profile", ["clean", "paper"])
def test_stereoset_of_a_masked_model_equals_the_loop(masked_model, masked, profile):
    loop = Loop(masked)
    rows = list(examples("masked"))
    table = scored(masked_model, get("stereoset"), rows, profile)
    for label in ("biased", "unbiased", "irrelevant"):
        expected = []
        for each in rows:
            word = loop.tokenizer(each[f"object_{label}"], add_special_tokens=False).input_ids
            left, right = (
                loop.tokenizer(part, add_special_tokens=False).input_ids for part in each["prompt"].split("[BLANK]")
            )
            found = []
            for n, wanted in enumerate(word):
                start = [loop.tokenizer.cls_token_id, *left, *word[:n]]
                ids = [*start, loop.tokenizer.mask_token_id, *right, loop.tokenizer.sep_token_id]
                found.append(loop.logprobs(ids)[len(start), wanted].item())
            expected.append(np.mean(found) if profile == "clean" else math.log(np.mean(np.exp(found))))
        close(masked_model, table[f"score_{label}"], expected)


def pairs(kind):
    for n, (biased, unbiased, direction) in enumerate(
        (
            ("The old women are kind.", "The men are kind.", "stereo"),
            ("A firemen was strict, he is old.", "A firewomen was strict, she is old.", "antistereo"),
            ("The doctors is a fish.", "The doctors is a red fish.", "stereo"),
            ("She is kindly.", "He is strictful.", "antistereo"),
        )
    ):
        yield pair(f"c{n}", "crows_pairs", biased, unbiased, kind, domain="gender", direction=direction, writer="a")


def spans(loop, each, operation):
    """Positions of the tokens that both sentences have, or that only one has, as both published codes find them."""
    order = ("biased", "unbiased") if each["direction"] == "stereo" else ("unbiased", "biased")
    ids = {label: loop.tokenizer(each[f"sentence_{label}"]).input_ids for label in order}
    found = {label: [] for label in order}
    codes = difflib.SequenceMatcher(None, *([str(i) for i in ids[label]] for label in order)).get_opcodes()
    for tag, *ends in codes:
        if (tag == "equal") == (operation == "equal"):
            for label, (start, end) in zip(order, (ends[:2], ends[2:]), strict=True):
                found[label] += range(start, end)
    return ids, found


@pytest.mark.parametrize("profile", ["clean", "paper"])
def test_crows_pairs_of_a_masked_model_equals_the_original_loop(masked_model, masked, profile):
    loop = Loop(masked)
    rows = list(pairs("masked"))
    table = scored(masked_model, get("crows_pairs"), rows, profile)
    for n, each in enumerate(rows):
        ids, found = spans(loop, each, "equal")
        for label, places in found.items():
            score = sum(loop.hidden(ids[label], place) for place in places[1:-1])
            within = 0.001 if profile == "paper" else CLOSE[masked_model.dtype]
            assert table[f"score_{label}"][n] == pytest.approx(score, abs=within)
            assert profile == "clean" or table[f"score_{label}"][n] == round(table[f"score_{label}"][n], 3)


def test_crows_pairs_of_a_masked_model_equals_the_loop_of_bias_bench(masked_model, masked):
    loop = Loop(masked)
    rows = list(pairs("masked"))
    table = scored(masked_model, get("crows_pairs_modified"), rows)
    for n, each in enumerate(rows):
        ids, found = spans(loop, each, "diff")
        assert table["skipped"][n] == (not all(found.values()))
        for label, places in found.items():
            score = np.mean([loop.hidden(ids[label], place) for place in places]) if places else math.nan
            np.testing.assert_allclose(table[f"score_{label}"][n], score, rtol=0, atol=CLOSE[masked_model.dtype])
    assert list(table["skipped"]) == [False, False, True, False]


def test_crows_pairs_of_a_causal_model_equals_the_loop(model, loop):
    rows = list(pairs("causal"))
    table = scored(model, get("crows_pairs"), rows, "paper")
    for label in ("biased", "unbiased"):
        expected = [np.mean(loop.sentence(each[f"sentence_{label}"])) for each in rows]
        close(model, table[f"score_{label}"], expected)
