"""Every architecture of transformers answers as a plain loop over single sequences does, or is refused by name."""

import math
import os
import re

import pytest
import torch
import transformers

from tests.scoring import families

torch.set_num_threads(1)
transformers.logging.set_verbosity_error()
ALL = os.environ.get("PROBES_ALL_FAMILIES") == "1"
#: Families of every `make test`; `.ci/run` sets PROBES_ALL_FAMILIES and takes all.
FAST = {
    "causal": "bart bert bigbird_pegasus bloom deepseek_v3 falcon_mamba gemma2 gemma3_text gpt2 gpt_neo gpt_neox "
    "granite lfm2 llama llama4_text mamba2 mistral mixtral mpt nemotron_h opt phi3 qwen3_next rwkv xglm".split(),
    "masked": "bert convbert deberta-v2 fnet longformer mobilebert modernbert yoso".split(),
}
#: What is refused, by kind and family or variant, with the sentence.
REFUSED = {}
CASES = [(kind, name) for kind in families.KINDS for name in (families.names(kind) if ALL else FAST[kind])]
CASES += [(variant["kind"], name) for name, variant in families.VARIANTS.items()]
EXACT = [("causal", "gpt_neo"), ("causal", "recurrent_gemma"), ("causal", "llama"), ("masked", "fnet"), ("masked", "bert")]


def check(finding):
    assert not finding.crashed, finding.crashed
    sentence = REFUSED.get((finding.kind, finding.name))
    if sentence is not None:
        assert finding.refused, f"{finding.name} is answered now: take it out of REFUSED."
    for aspect, text in finding.refused.items():
        assert sentence and re.search(sentence, text), f"{aspect}: {text}"
        assert finding.name in text
    assert not finding.wrong, {key: (value, finding.bounds[key]) for key, value in finding.wrong.items()}
    assert finding.differences or finding.refused


@pytest.mark.fault(35)
@pytest.mark.parametrize(("kind", "name"), CASES)
def test_answers_equal_those_of_a_plain_loop(kind, name):
    check(families.examine(name, kind))


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
        assert set(FAST[kind]) <= set(families.names(kind))
        assert set(families.LEFT_OUT[kind]) <= set(families.KINDS[kind][0])
