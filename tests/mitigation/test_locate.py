import math

import numpy as np
import pytest
import torch

from builders.parsers.triplets import filled
from builders.wording import BLANK
from mitigation import plots
from mitigation.editing import locate
from mitigation.errors import MitigationError
from scoring.adapters.feed_forward import feed_forwards
from tests.scoring import models

ROWS = [
    {
        "id": "a",
        "domain": "gender",
        "subject": "nurse",
        **filled(f"The nurse said that {BLANK} was here.", "she", "he"),
    },
    {"id": "b", "domain": "gender", "subject": "farmer", **filled(f"The farmer said that {BLANK} works.", "he", "she")},
    {"id": "c", "domain": "gender", "subject": "teacher", **filled(f"{BLANK} is a teacher.", "She", "He")},
    {"id": "d", "domain": "gender", "subject": "pilot", **filled(f"It was {BLANK} idea.", "his", "her")},
]


def test_subjects_are_exchanged_and_people_in_the_blank_are_subjects():
    a, b, c = locate.traces(ROWS, "causal")
    assert a.text == f"The {{}} said that {BLANK} was here."
    assert (a.answer, a.subjects[0]) == ("she", "nurse")
    assert a.subjects[1] in {"farmer", "teacher", "pilot"}
    assert b.subjects[0] == "farmer"
    assert (c.text, c.answer, c.subjects) == (f"{{}} is a {BLANK}.", "teacher", ("She", "He"))


def test_a_causal_model_does_not_predict_text_before_the_subject():
    row = {"id": "e", "domain": "gender", "subject": "nurse", **filled(f"The nurse met {BLANK}.", "her", "him")}
    turned = row | filled(f"{BLANK} met a nurse.", "She", "He")
    assert [trace.answer for trace in locate.traces([turned], "causal")] == ["nurse"]
    assert locate.traces([row], "causal") == [], "there is no other subject to change places with"


@pytest.mark.parametrize("name", ["gpt2", "llama", "opt", "bert", "roberta"])
def test_effects_are_those_of_restoring_one_block_at_a_time(name):
    model = models.model(name)
    for trace in locate.traces(ROWS, model.kind):
        indirect, total = locate._effects(model, trace, [part.last for part in feed_forwards(model.network)])
        expected, whole = plain(model, trace)
        assert indirect == pytest.approx(expected, abs=1e-9, rel=1e-4)
        assert total == pytest.approx(whole, abs=1e-9, rel=1e-4)


def plain(model, trace):
    """The same one block and one sentence at a time."""
    parts = [model.network.get_submodule(part.last) for part in feed_forwards(model.network)]
    ways = [list(locate._queries(model.tokens, trace, name)) for name in trace.subjects]
    logs = np.zeros((len(parts) + 2, 1))
    for (own, place), (other, there) in zip(*ways, strict=True):
        kept = []

        def keep(_, __, output, place=place, kept=kept):
            kept.append(output.flatten(0, -2)[place].clone())

        handles = [part.register_forward_hook(keep) for part in parts]
        logs[0] += request(model, own)
        for handle in handles:
            handle.remove()
        logs[-1] += request(model, other)
        for number, part in enumerate(parts):

            def put_back(_, __, output, number=number, there=there, kept=kept):
                changed = output.flatten(0, -2).clone()
                changed[there] = kept[number]
                return changed.view_as(output)

            handle = part.register_forward_hook(put_back)
            logs[number + 1] += request(model, other)
            handle.remove()
    chances = np.exp(logs[:, 0])
    return chances[1:-1] - chances[-1], chances[0] - chances[-1]


def request(model, query):
    with torch.no_grad():
        logs = model.network(input_ids=torch.tensor([query.ids])).logits[0].double().log_softmax(-1)
    return math.fsum(float(logs[at, want]) for at, want in zip(query.at, query.want, strict=True))


@pytest.mark.parametrize("name", ["gpt2", "llama", "bert", "roberta"])
def test_the_place_of_a_subject_is_its_last_token(name):
    model = models.model(name)
    for trace in locate.traces(ROWS, model.kind):
        for subject in trace.subjects:
            for query, place in locate._queries(model.tokens, trace, subject):
                word = model.tokens.tokenizer.decode([query.ids[place]]).strip()
                assert word
                assert subject.lower().endswith(word.lower().removeprefix("##"))


def test_a_block_without_output_or_whose_output_is_unused_has_no_effect():
    model = models.model("gpt2")
    effects = locate.locate(model, ROWS)
    assert effects.indirect.shape == (3, 2)
    assert np.abs(effects.indirect[:, 0]).max() > 1e-9
    assert (effects.indirect[:, 1] == 0).all(), "the last block, where no later place can read it"
    assert effects.layer == int(effects.average.argmax())
    with torch.no_grad():
        model.network.transformer.h[0].mlp.c_proj.weight.zero_()
        model.network.transformer.h[0].mlp.c_proj.bias.zero_()
    assert np.abs(locate.locate(model, ROWS).indirect).max() < 1e-9


def test_nothing_stays_in_the_network():
    model = models.model("gpt2")
    ids = torch.tensor([[5, 6, 7]])
    before = model.network(ids).logits
    locate.locate(model, ROWS)
    assert torch.equal(model.network(ids).logits, before)
    assert not any(module._forward_hooks for module in model.network.modules())


def test_pairs_without_a_subject_are_refused():
    with pytest.raises(MitigationError, match=r"None of the 1 pairs has a subject before or after its blank"):
        locate.locate(models.model("gpt2"), ROWS[3:])


def test_the_picture_shows_every_block(tmp_path):
    effects = locate.IndirectEffects(np.array([[0.1, -0.2, 0.3]]), np.array([0.5]))
    plots.plot_effects(effects, tmp_path / "a.png", "a model: 1 pairs")
    assert effects.layer == 2
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
