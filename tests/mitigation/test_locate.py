import math

import numpy as np
import pytest
import torch

from builders.parsers.triplets import filled
from builders.text.wording import BLANK
from mitigation.editing import POSITIONS, locate
from mitigation.errors import MitigationError
from mitigation.running import plots
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
        for position in POSITIONS:
            expected, whole = plain(model, trace, position)
            assert indirect[position] == pytest.approx(expected, abs=1e-9, rel=1e-4)
            assert total == pytest.approx(whole, abs=1e-9, rel=1e-4)


def plain(model, trace, position):
    """The same one block and one sentence at a time."""
    parts = [model.network.get_submodule(part.last) for part in feed_forwards(model.network)]
    readings = [list(locate._readings(model.tokens, trace, name)) for name in trace.subjects]
    logs = np.zeros((len(parts) + 2, 1))
    for first, second in zip(*readings, strict=True):
        here, there = locate.pairs_of_positions(first, second)[position]
        kept = []

        def keep(_, __, output, here=here, kept=kept):
            kept.append(output.flatten(0, -2)[here].clone())

        handles = [part.register_forward_hook(keep) for part in parts]
        logs[0] += request(model, first.query)
        for handle in handles:
            handle.remove()
        logs[-1] += request(model, second.query)
        for number, part in enumerate(parts):

            def put_back(_, __, output, number=number, there=there, kept=kept):
                changed = output.flatten(0, -2).clone()
                changed[there] = kept[number]
                return changed.view_as(output)

            handle = part.register_forward_hook(put_back)
            logs[number + 1] += request(model, second.query)
            handle.remove()
    chances = np.exp(logs[:, 0])
    return chances[1:-1] - chances[-1], chances[0] - chances[-1]


def request(model, query):
    with torch.no_grad():
        logs = model.network(input_ids=torch.tensor([query.ids])).logits[0].double().log_softmax(-1)
    return math.fsum(float(logs[at, want]) for at, want in zip(query.at, query.want, strict=True))


@pytest.mark.parametrize("name", ["gpt2", "llama", "bert", "roberta"])
def test_the_tokens_of_a_subject_are_those_of_its_word(name):
    model = models.model(name)
    for trace in locate.traces(ROWS, model.kind):
        for subject in trace.subjects:
            for reading in locate._readings(model.tokens, trace, subject):
                ids = reading.query.ids[reading.start : reading.end]
                assert model.tokens.tokenizer.decode(ids).strip().lower() == subject.lower()


@pytest.mark.parametrize("name", ["gpt2", "bert"])
def test_with_all_positions_restored_in_every_block_nothing_of_the_other_subject_is_left_but_its_embedding(name):
    model = models.model(name)
    trace = next(trace for trace in locate.traces(ROWS, model.kind) if "{}" in trace.text)
    readings = [next(locate._readings(model.tokens, trace, who)) for who in trace.subjects]
    here, there = locate.pairs_of_positions(*readings)["all"]
    assert len(here) == len(there) == len(set(here)) == len(set(there))
    assert there == sorted(there)
    assert len(here) == min(len(reading.query.ids) for reading in readings)


def test_the_last_block_has_an_effect_where_the_answer_is_predicted_alone():
    effects = locate.locate(models.model("gpt2"), ROWS)
    assert effects.by_position.keys() == set(POSITIONS)
    assert all(effect.shape == (3, 2) for effect in effects.by_position.values())
    assert np.abs(effects.by_position["subject"][:, 0]).max() > 1e-9
    assert (effects.by_position["subject"][:, 1] == 0).all(), "no later place reads the last block at the subject"
    assert np.abs(effects.by_position["answer"][:, 1]).max() > 1e-9
    assert effects.by_position["all"][:, 1] == pytest.approx(effects.by_position["answer"][:, 1], abs=1e-9)
    assert effects.layer == int(effects.average("all").argmax())


def test_a_block_without_output_has_no_effect():
    model = models.model("gpt2")
    with torch.no_grad():
        model.network.transformer.h[0].mlp.c_proj.weight.zero_()
        model.network.transformer.h[0].mlp.c_proj.bias.zero_()
    effects = locate.locate(model, ROWS)
    assert all(np.abs(effect[:, 0]).max() < 1e-9 for effect in effects.by_position.values())


@pytest.mark.parametrize(
    ("prompt", "subject", "text"),
    [
        (f"The chef said he {BLANK}.", "he", f"The chef said {{}} {BLANK}."),
        (f"He said he {BLANK}.", "he", f"He said {{}} {BLANK}."),
        (f"Girls like a girl's {BLANK}.", "girl", f"Girls like a {{}}'s {BLANK}."),
        (f"Nurse Ann was {BLANK}.", "nurse", f"{{}} Ann was {BLANK}."),
    ],
)
def test_a_subject_is_found_as_a_whole_word(prompt, subject, text):
    row = {"id": "a", "domain": "gender", "subject": subject, **filled(prompt, "kind", "strict")}
    trace = locate.traces([row, {**ROWS[1], "subject": "farmer"}], "causal")[0]
    assert trace.text == text
    start = text.index("{}")
    assert trace.subjects[0] == prompt[start : start + len(subject)]
    assert trace.subjects[1] == ("Farmer" if prompt[start].isupper() else "farmer")


def test_what_cannot_be_traced_is_left_out_by_name():
    inside = {"id": "in", "domain": "gender", "subject": "he", **filled(f"The others are {BLANK}.", "kind", "strict")}
    effects = locate.locate(models.model("gpt2"), [*ROWS, inside])
    assert effects.left_out == dict.fromkeys(("d", "in"), "it has no subject before or after its blank")
    assert len(effects.total) == 3


def test_nothing_stays_in_the_network():
    model = models.model("gpt2")
    ids = torch.tensor([[5, 6, 7]])
    before = model.network(ids).logits
    locate.locate(model, ROWS)
    assert torch.equal(model.network(ids).logits, before)
    assert not any(module._forward_hooks for module in model.network.modules())


def test_pairs_without_a_subject_are_refused():
    with pytest.raises(MitigationError, match="the 1 pairs"):
        locate.locate(models.model("gpt2"), ROWS[3:])


def test_the_picture_shows_every_block(tmp_path):
    effects = locate.IndirectEffects(dict.fromkeys(POSITIONS, np.array([[0.1, -0.2, 0.3]])), np.array([0.5]))
    plots.plot_effects(effects, tmp_path / "a.png", "a model: 1 pairs")
    assert effects.layer == 2
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
