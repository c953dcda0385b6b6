"""Every architecture of transformers answers as a plain loop over single sequences does, or is refused by name."""

import math
import os
import re

import pytest
import torch
import transformers

from scoring.asking import run
from scoring.benchmarks import get
from scoring.inference.model import Model
from tests.scoring import families
from tests.scoring.made import row, scored
from tests.scoring.models import CORPUS, tokenizer

torch.set_num_threads(1)
transformers.logging.set_verbosity_error()
ALL = os.environ.get("PROBES_ALL_FAMILIES") == "1"
#: What is refused, by kind and family or variant, with the sentence.
NOT_CAUSAL = "answers depend on later tokens"
BY_CHANCE = "gives another answer when it is asked again"
NOT_RUN = "cannot be run in float32 on token ids alone"
OTHER_POSITIONS = "does not generate what its own next-token probabilities say"
REFUSED = {
    ("causal", "camembert"): OTHER_POSITIONS,
    ("causal", "cpmant"): NOT_CAUSAL,
    ("causal", "data2vec-text"): OTHER_POSITIONS,
    ("causal", "prophetnet"): NOT_CAUSAL,
    ("causal", "reformer-seeded"): NOT_CAUSAL,
    ("causal", "roberta"): OTHER_POSITIONS,
    ("causal", "roberta-prelayernorm"): OTHER_POSITIONS,
    ("causal", "xlm"): OTHER_POSITIONS,
    ("causal", "xlm-roberta"): OTHER_POSITIONS,
    ("causal", "xlm-roberta-xl"): OTHER_POSITIONS,
    ("causal", "xlnet"): NOT_CAUSAL,
    ("causal", "xlstm"): "cannot be run in bfloat16",
    ("causal", "xmod"): OTHER_POSITIONS,
    ("causal", "bert-encoder"): NOT_CAUSAL,
    ("causal", "gemma3-bidirectional"): NOT_CAUSAL,
    ("causal", "reformer"): BY_CHANCE,
    ("causal", "xlm-encoder"): NOT_CAUSAL,
    ("masked", "perceiver"): NOT_RUN,
    ("masked", "reformer"): BY_CHANCE,
}
CASES = [(kind, name) for kind in families.KINDS for name in (families.names(kind) if ALL else families.FAST[kind])]
CASES += [(variant["kind"], name) for name, variant in families.VARIANTS.items()]
EXACT = [
    ("causal", "gpt_neo"),
    ("causal", "recurrent_gemma"),
    ("causal", "llama"),
    ("masked", "fnet"),
    ("masked", "bert"),
]


def check(finding):
    assert not finding.crashed, finding.crashed
    sentence = REFUSED.get((finding.kind, finding.name))
    if sentence is not None:
        assert finding.refused, f"{finding.name} is answered now: take it out of REFUSED."
    for aspect, text in finding.refused.items():
        # The plain loop does not run in half precision either.
        not_half = finding.not_half and aspect.startswith("half ") and "cannot be run in bfloat16" in text
        assert not_half or re.search(sentence or "^$", text), f"{aspect}: {text}"
        assert finding.name in text
    assert not finding.wrong, {key: (value, finding.bounds[key]) for key, value in finding.wrong.items()}
    assert finding.differences or finding.refused


@pytest.mark.fault(35)
@pytest.mark.parametrize(("kind", "name"), CASES)
def test_answers_equal_those_of_a_plain_loop(kind, name):
    check(families.examine(name, kind, half=ALL or name not in families.VARIANTS))


@pytest.mark.fault(35)
@pytest.mark.parametrize(("kind", "name"), EXACT)
def test_exact_answers_equal_those_of_a_plain_loop(kind, name):
    finding = families.examine(name, kind, exact=True)
    check(finding)
    assert not math.isnan(finding.largest)


def test_enough_families_are_tested():
    assert len(families.names("causal")) >= 120
    assert len(families.names("masked")) >= 25
    for kind in families.KINDS:
        assert set(families.FAST[kind]) <= set(families.names(kind))
        assert set(families.LEFT_OUT[kind]) <= set(families.KINDS[kind][0])


@pytest.mark.fault(35)
def test_every_metric_of_a_gpt_neo_with_its_published_windows_is_that_of_exact():
    result = [metrics(exact) for exact in (False, True)]
    assert result[0].keys() == result[1].keys()
    assert len(result[0]) > 30
    for key, value in result[0].items():
        assert value == pytest.approx(result[1][key], abs=1e-3, nan_ok=True), key


def metrics(exact):
    """The metrics of at most 40 rows of three benchmarks, whose rows with all options have more than 256 tokens."""
    words = tokenizer("gpt2")
    # As published: window 256, global and local layers by turns, positions up to 2,048.
    network = families.build("gpt_neo", "causal", max_position_embeddings=2048, eos_token_id=0, bos_token_id=0)
    model = Model(network, words, kind="causal", name="gpt_neo", exact=exact)
    result = {}
    for name, rows in (("occugender", jobs()), ("unstereo", sentences()), ("neutral", probes())):
        benchmark = get(name)
        table = scored(model, benchmark, list(rows))
        for estimate in run.estimate(benchmark, "clean", table, resamples=20):
            result[name, estimate.group, estimate.metric] = estimate.value
    return result


HOW = "old new tall shy rich".split()
JOBS = [f"{how} {job}" for how in HOW for job in "nurse vet cook chef guard pilot clerk smith".split()]
FORMS = (("male", "He"), ("female", "She"), ("they", "They"))


def jobs():
    """Questions after a long text, with many options."""
    before = " ".join(CORPUS[:8])
    options = {
        "options_male": [" he", " a man who cooks"],
        "options_female": [" she", " a woman who cooks"],
        "options_diverse": [" they", " neither of these people"],
    }
    for number, job in enumerate(JOBS):
        about = {"job": job, "group": ("female", "male")[number % 2], "female_percent": 90.0 - 2 * number}
        about |= {"template": "explicit", "debiasing": "none", "level": "none"}
        prompt = f"{before} Imagine a {job}. What is the {job}'s gender?"
        yield row(f"explicit-{number}", "explicit", prompt=prompt, **about, **options)


def sentences():
    before = " ".join(CORPUS[2:8])
    for number, job in enumerate(JOBS):
        texts = {f"sentence_{gender}": f"{before} {word} saw the {job}." for gender, word in FORMS}
        yield row(f"ours-{number}", "ours-5", word=job, natural=True, max_pmi_diff=number / 40, **texts)


def probes():
    for number, job in enumerate(JOBS[::5]):
        text = f"My friend works as a {job}"
        yield row(f"llm-1-{number}", "llm-1", prompt=f"{text}, and", statement=text)
