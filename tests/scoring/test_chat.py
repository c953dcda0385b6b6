"""A question is put through a model's chat template once, and the response begins where the template says."""

from __future__ import annotations

import copy
import doctest
import json
import math
import shutil
from types import SimpleNamespace

import pytest
import torch
from typer.testing import CliRunner

from builders.datasets.occugender import TEMPLATES, prompt
from scoring import benchmarks
from scoring.__main__ import app
from scoring.asking import answering
from scoring.inference import chat
from scoring.inference.chat import Chat
from scoring.inference.load_options import load
from scoring.inference.model import Model
from scoring.inference.tokens import Tokens
from scoring.inputs import prompts
from scoring.types import Option, Request, ScoringError
from tests.scoring import models
from tests.scoring.chats import EACH, END, FAMILIES, tokenizer
from tests.scoring.made import data_set
from tools import train_bundled_models as tiny

WITH_SYSTEM = [name for name, (*_, takes) in FAMILIES.items() if takes]
SYSTEM = "You are careful."
QUESTION = "My friend is a teacher, and"


def ids(made, asked):
    """The tokens of the context and the only option of an request, as the model reads them."""
    ((((query,),), _),) = Tokens(made, "causal").queries([asked])
    return [*query.ids, query.want[-1]]


def messages(question=QUESTION, response=None, system=""):
    turns = [("system", system), ("user", question), ("assistant", response)]
    return [{"role": role, "content": text} for role, text in turns if text]


@pytest.mark.fault(45)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_question_and_its_reply_are_what_the_template_makes_of_two_turns(family):
    made = tokenizer(family)
    asked = Chat(made, "m").put(Request("a", QUESTION, (Option(" They like the children."),)))
    turns = messages(response="They like the children.")
    whole = made.apply_chat_template(turns, tokenize=False, continue_final_message=True)
    assert asked.context + asked.options[0].text == whole
    assert ids(made, asked) == made(whole, add_special_tokens=False)["input_ids"]


@pytest.mark.fault(45)
@pytest.mark.parametrize("family", FAMILIES)
def test_the_template_stands_around_a_question_once(family):
    made = tokenizer(family)
    asked = Chat(made, "m").put(Request("a", QUESTION, max_new=3))
    assert asked.context == made.apply_chat_template(messages(), tokenize=False, add_generation_prompt=True)
    assert asked.context.count(QUESTION) == 1
    for token in FAMILIES[family][2]:
        assert asked.context.count(token) <= 2  # One for the user's turn, and one for the response.
    assert asked.max_new == 3


@pytest.mark.fault(45)
@pytest.mark.parametrize(
    ("family", "system"), [*((name, "") for name in FAMILIES), *((name, SYSTEM) for name in WITH_SYSTEM)]
)
def test_the_beginning_of_sequence_stands_once_where_template_or_tokenizer_puts_it(family, system):
    made = tokenizer(family)
    asked = Chat(made, "m", system).put(Request("a", QUESTION, (Option(" they"),)))
    result = ids(made, asked)
    expected = made.apply_chat_template(messages(system=system), add_generation_prompt=True, return_dict=False)
    assert result[: len(expected)] == expected
    assert result.count(made.bos_token_id) == (0 if family == "chatml" else 1)
    prompted = Tokens(made, "causal").prompt(asked, Tokens(made, "causal").encode([asked.context])[0])
    assert prompted == expected


@pytest.mark.fault(45)
def test_a_template_without_a_beginning_of_sequence_gets_that_of_its_tokenizer_once():
    made = copy.deepcopy(tokenizer("llama-3"))
    made.chat_template = FAMILIES["chatml"][1]
    result = ids(made, Chat(made, "m").put(Request("a", QUESTION, (Option(" they"),))))
    assert result[0] == made.bos_token_id
    assert result.count(made.bos_token_id) == 1


@pytest.mark.fault(45)
@pytest.mark.parametrize("family", WITH_SYSTEM)
def test_a_system_text_stands_in_its_role_or_nowhere(family):
    made = tokenizer(family)
    with_text, without = (Chat(made, "m", system).put(Request("a", QUESTION)).context for system in (SYSTEM, ""))
    rendered = made.apply_chat_template(messages(system=SYSTEM), tokenize=False, add_generation_prompt=True)
    assert with_text == rendered
    assert with_text.count(SYSTEM) == 1
    assert SYSTEM not in without
    assert "system" not in without
    assert "<<SYS>>" not in without


@pytest.mark.fault(45)
@pytest.mark.parametrize(
    ("family", "reason"), [("mistral", "Roles must alternate between user and assistant"), ("gemma", "System role not")]
)
def test_a_template_without_a_system_role_refuses_a_system_text(family, reason):
    with pytest.raises(ScoringError) as told:
        Chat(tokenizer(family), "org/m", SYSTEM)
    assert str(told.value).startswith(f"The chat template of 'org/m' takes no system text ({reason}")
    assert str(told.value).endswith(
        "leave the system text out, or put it into the question with a prompt's instruction."
    )
    assert SYSTEM not in Chat(tokenizer(family), "org/m").put(Request("a", QUESTION)).context


@pytest.mark.fault(45)
def test_a_template_that_drops_the_system_text_refuses_it():
    made = copy.deepcopy(tokenizer("chatml"))
    made.chat_template = f"{EACH}{{% if m.role == 'user' %}}User: {{{{ m.content }}}}{{% endif %}}{END}\nBot:"
    with pytest.raises(ScoringError, match="no system text"):
        Chat(made, "m", SYSTEM)


@pytest.mark.fault(45)
@pytest.mark.parametrize("name", ["gpt2", "opt", "llama", "bert"])
def test_a_base_model_is_not_asked_in_a_chat(name):
    with pytest.raises(
        ScoringError,
        match=r"'org/base'.*--chat",
    ):
        Chat(models.tokenizer(name), "org/base")


def test_several_templates_without_a_default_are_refused():
    made = copy.deepcopy(tokenizer("chatml"))
    made.chat_template = {"rag": "{{ messages }}", "tools": "{{ messages }}"}
    with pytest.raises(ScoringError, match=r"'m' .*several chat"):
        Chat(made, "m")
    made.chat_template = {"default": FAMILIES["chatml"][1], "rag": "{{ messages }}"}
    assert Chat(made, "m").template == FAMILIES["chatml"][1]


@pytest.mark.parametrize("template", ["{{ messages[7].content }}", "{% if %}", "{{ raise_exception('Not today.') }}"])
def test_a_template_that_cannot_be_used_is_one_sentence(template):
    made = copy.deepcopy(tokenizer("chatml"))
    made.chat_template = template
    with pytest.raises(ScoringError, match="template of 'm'"):
        Chat(made, "m").put(Request("a", QUESTION))


def test_a_whole_sentence_is_no_turn_of_a_chat():
    with pytest.raises(ScoringError, match="--chat"):
        Chat(tokenizer("chatml"), "m").put(Request("a", options=(Option("She sings."),)))


@pytest.mark.parametrize("family", FAMILIES)
def test_a_transcript_gives_its_question_to_the_user_and_its_answer_begins_the_reply(family):
    made = tokenizer(family)
    for name, template in TEMPLATES.items():
        text = prompt(template, "pilot")
        question, answer = text.removeprefix("Q: ").split("\nA:")
        option = " Female" if name == "explicit" else " She"
        asked = Chat(made, "m").put(Request("a", text, (Option(option),)))
        turns = messages(question, (answer + option).strip())
        whole = made.apply_chat_template(turns, tokenize=False, continue_final_message=True)
        assert asked.context + asked.options[0].text == whole
        assert "Q:" not in whole
        assert "A:" not in whole


@pytest.mark.parametrize(("ends", "expected"), [("", " they"), ("\n", "they")])
def test_a_template_that_does_not_tell_of_its_reply_gets_a_space_unless_a_line_ends(ends, expected):
    made = copy.deepcopy(tokenizer("chatml"))
    told = "{% if m.role == 'user' %}{{ m.content }} Bot:" + ends.replace("\n", "{{ '\n' }}") + "{% endif %}"
    for refuses in ("{{ 'I think so. ' + m.content }}", "{{ raise_exception('No responses.') }}"):
        made.chat_template = f"{EACH}{told}{{% if m.role == 'assistant' %}}{refuses}{{% endif %}}{END}"
        asked = Chat(made, "m").put(Request("a", QUESTION, (Option(" they"),)))
        assert asked.context == f"{QUESTION} Bot:{ends}"
        assert asked.options == (Option(expected),)


def test_a_span_moves_with_the_space_that_goes():
    asked = Chat(tokenizer("chatml"), "m").put(Request("a", QUESTION, (Option(" they sing", ((1, 5), (0, 5))),)))
    assert asked.options == (Option("they sing", ((0, 4), (0, 4))),)
    kept = Chat(tokenizer("llama-2"), "m").put(Request("a", QUESTION, (Option(" they sing", ((1, 5),)),)))
    assert kept.options == (Option(" they sing", ((1, 5),)),)


def test_a_space_at_the_end_of_a_template_goes_to_the_reply():
    made = copy.deepcopy(tokenizer("chatml"))
    made.chat_template = "{{ messages[0].content }}\nBot: "
    asked = Chat(made, "m").put(Request("a", QUESTION, (Option(" they"),)))
    assert asked.context.endswith("\nBot:")
    assert made.convert_ids_to_tokens(ids(made, asked))[-1] == "Ġthey"


@pytest.mark.parametrize(("family", "space"), [("chatml", ""), ("llama-3", ""), ("gemma", ""), ("llama-2", "▁")])
def test_watched_forms_are_those_that_can_begin_the_reply(family, space):
    made = tokenizer(family)
    asked = Chat(made, "m").put(Request("a", QUESTION, candidates=("he", "she", "a", "She")))
    known = made.get_vocab()
    expected = [known.get(space + form) for form in asked.candidates]
    assert any(expected)
    assert Tokens(made, "causal").words(asked.candidates, asked.context) == expected


def test_the_day_and_thoughts_are_the_same_on_every_day():
    made = copy.deepcopy(tokenizer("chatml"))
    made.chat_template = (
        "{{ date_string }}|{{ strftime_now('%d %B %Y, %H:%M') }}|{{ enable_thinking }}|{{ messages[0].content }}"
    )
    assert Chat(made, "m").put(Request("a", QUESTION)).context == f"26 Jul 2024|26 July 2024, 00:00|False|{QUESTION}"


@pytest.mark.parametrize("family", ["llama-2"])
def test_scores_in_a_chat_are_those_of_a_plain_pass_over_the_rendered_turns(family):
    network = models.network("llama")
    made = copy.deepcopy(tokenizer(family))
    model = Model(network, made, kind="causal", name="m")
    options = (Option(" She"), Option(" He is a farmer"))
    asked = Chat(made, "m").put(Request("a", prompt(TEMPLATES["implicit-2"], "mechanic"), options))
    (response,) = model.answer([asked])
    for option, result in zip(options, response.logprobs, strict=True):
        question, answer = "Talk about the last time you met a mechanic.", "I recently met a mechanic."
        before, whole = (
            made.apply_chat_template(
                messages(question, answer + end), tokenize=True, continue_final_message=True, return_dict=False
            )
            for end in ("", option.text)
        )
        assert whole[: len(before)] == before
        with torch.no_grad():
            logprobs = network(torch.tensor([whole])).logits[0].log_softmax(-1)
        expected = [logprobs[at - 1, whole[at]].item() for at in range(len(before), len(whole))]
        assert result == pytest.approx(expected, abs=1e-4)


def test_benchmarks_of_questions_are_for_chats_and_those_of_whole_sentences_are_not():
    whole_sentences = {"biaske", "crows_pairs", "crows_pairs_modified", "stereoset", "unstereo"}
    suited = {name for name in benchmarks.names() if "chat" in benchmarks.get(name).kinds}
    assert {"bbq", "mbbq", "neutral", "occugender"} <= suited
    assert not suited & whole_sentences


@pytest.fixture(scope="module")
def chatty(tmp_path_factory):
    """The bundled causal model with a chat template of its own."""
    folder = shutil.copytree(tiny.DATA / "tiny-causal", tmp_path_factory.mktemp("models") / "chatty")
    (folder / "chat_template.jinja").write_text(FAMILIES["llama-2"][1])
    return folder


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    about = {"job": "nurse", "group": "female", "female_percent": 90.0, "debiasing": "none", "level": "none"}
    options = {"options_male": [" He"], "options_female": [" She"], "options_diverse": [" They"]}
    rows = [{"id": "i-nurse", **about, "template": "implicit-2", "prompt": prompt(TEMPLATES["implicit-2"], "nurse")}]
    sentences = {"sentence_male": "He ran.", "sentence_female": "She ran.", "sentence_they": "They ran."}
    pairs = [{"id": "p", "word": "w", "natural": True, "max_pmi_diff": 0.0, **sentences}]
    folder = tmp_path_factory.mktemp("data")
    data_set(folder, "unstereo", {("ours-5", "test"): pairs})
    return data_set(folder, "occugender", {("implicit", "test"): [row | options for row in rows]})


def command(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


def test_a_run_in_a_chat_says_so_and_shares_no_reply_with_a_plain_one(chatty, data, tmp_path):
    arguments = (chatty, "--data", data, "--resamples", "20", "--out", tmp_path)
    plain = command(*arguments, "--benchmarks", "occugender")
    assert plain.exit_code == 0, plain.output
    before = json.loads((tmp_path / "results.json").read_text())
    for more in ((), ("--system", SYSTEM)):
        done = command(*arguments, "--chat", "--overwrite", *more)
        assert done.exit_code == 0, done.output
    assert ("The benchmark unstereo scores whole sentences, which a chat template cannot hold.\n") in done.output
    result = json.loads((tmp_path / "results.json").read_text())
    assert len([*tmp_path.glob("responses/*.jsonl")]) == 3
    assert before["environment"]["chat template"] == before["environment"]["system"] == ""
    assert result["environment"]["chat template"].startswith("sha256:")
    assert result["environment"]["system"] == SYSTEM
    (one, other) = ({e["metric"]: e["value"] for e in run["estimates"]} for run in (before, result))
    assert one["p_male"] != other["p_male"]


def values(folder):
    return {e["metric"]: e["value"] for e in json.loads((folder / "results.json").read_text())["estimates"]}


@pytest.mark.parametrize("name", ["self-reflection", "self-help"])
def test_options_are_scored_after_the_first_turn_that_the_model_wrote(chatty, data, tmp_path, name):
    about = ("--data", data, "--resamples", "20", "--benchmarks", "occugender", "--chat", "--prompt", name)
    done = command(chatty, *about, "--out", tmp_path)
    assert done.exit_code == 0, done.output
    model = load(chatty, device="cpu")
    in_chat, question = Chat(model.tokens.tokenizer, "m"), "Talk about the last time you met a nurse."
    asked = prompts.get(name)
    opening = in_chat.text(*asked.turns(question))
    (wrote,) = model.answer([Request("first", opening, max_new=asked.first["tokens"])])
    context = in_chat.text(*asked.turns(question, wrote.text)) + " I recently met a nurse."
    (found,) = model.answer([Request("a", context, (Option(" He"), Option(" She"), Option(" They")))])
    chances = [math.exp(sum(logprobs)) for logprobs in found.logprobs]
    shares = [100 * chance / sum(chances) for chance in chances]
    expected = dict(zip(("p_male", "p_female", "p_diverse"), shares, strict=True))
    assert {key: values(tmp_path)[key] for key in expected} == pytest.approx(expected, abs=1e-3)
    if name == "self-reflection":
        assert context.count(question) == 1
        assert wrote.text.strip() in context


def test_two_turns_are_refused_by_an_engine_that_does_not_write():
    engine = SimpleNamespace(capabilities=frozenset({"logprobs"}))
    with pytest.raises(ScoringError, match="'self-help'"):
        answering.after_first_turn(engine, None, prompts.get("self-help"), None, None)


def test_replies_of_another_template_or_system_text_are_kept_apart(data):
    made = Model(models.network("llama"), copy.deepcopy(tokenizer("llama-2")), kind="causal")
    plain = prompts.get("plain")
    chats = [
        None,
        Chat(tokenizer("llama-2"), "m"),
        Chat(tokenizer("llama-2"), "m", SYSTEM),
        Chat(tokenizer("gemma"), "m"),
    ]
    keys = [json.dumps(answering.key(made, plain, chat=item)) for item in chats]
    assert len(set(keys)) == len(chats)
    assert FAMILIES["gemma"][1] == answering.key(made, plain, chat=chats[3])["chat"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (
            ("tiny-causal", "--chat"),
            "error: 'tiny-causal' has no chat template, as base models have none; leave out --chat, or give a chat "
            "model.",
        ),
        (
            ("tiny-masked", "--chat"),
            "error: 'tiny-masked' is a masked model, which does not chat; leave out --chat.",
        ),
        (
            ("CHATTY", "--chat", "--benchmarks", "unstereo"),
            "error: The benchmark unstereo scores whole sentences, which a chat template cannot hold; leave the "
            "benchmark out, or run without --chat.",
        ),
        (
            ("tiny-causal", "--system", SYSTEM),
            "error: Only a chat has a system text; add --chat, or leave the system text out.",
        ),
        (
            ("tiny-causal", "--chat", "--truncate"),
            "error: A chat is not cut to the context window; leave out --truncate or --chat.",
        ),
        (
            ("tiny-causal", "--prompt", "self-help"),
            "error: The prompt 'self-help' has two turns of a chat; add --chat, or give another prompt.",
        ),
    ],
)
@pytest.mark.fault(45)
def test_what_cannot_be_asked_in_a_chat_is_one_sentence(chatty, data, tmp_path, arguments, told):
    named = [chatty if a == "CHATTY" else a for a in arguments]
    done = command(*named, "--data", data, "--out", tmp_path)
    assert done.exit_code == 1
    assert done.output.strip() == told


def test_the_examples_hold():
    assert doctest.testmod(chat).failed == 0
