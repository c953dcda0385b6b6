"""The token before a text: an option, by the rule of lm-evaluation-harness by default, recorded and part of the key."""

import pytest
from transformers import PreTrainedTokenizerFast

from scoring import evaluate
from scoring.asking import starts
from scoring.asking.answering import key
from scoring.inference.model import Model
from scoring.inference.tokens import Tokens
from scoring.inputs.prompts import get
from scoring.types import Option, Request, ScoringError
from tests.scoring import families
from tests.scoring.made import data_set
from tests.scoring.models import tokenizer
from tests.scoring.test_run import pairs
from tests.support import real

SENTENCE = Request("a", "", (Option("The nurse said that she"),))
CONTINUED = Request("a", "The nurse said that", (Option(" she"),))
ROLES = "{% for m in messages %}{{ '<s>' + m['role'] + m['content'] + '</s>' }}{% endfor %}{{ '<s>assistant' }}"


def ids(tokens, request):
    """The tokens that the model reads for the one option, and the scored ones."""
    ((((query,),), _),) = tokens.queries([request])
    return list(query.ids), list(query.want)


def silent():
    """A tokenizer with BOS that puts nothing before a text."""
    made = tokenizer("gpt2").backend_tokenizer
    return PreTrainedTokenizerFast(tokenizer_object=made, bos_token="<|endoftext|>", eos_token="<|endoftext|>")


def test_a_given_token_begins_sentences_and_contexts_alike():
    tokens = Tokens(tokenizer("llama"), "causal")
    default = ids(tokens, SENTENCE), ids(tokens, CONTINUED)
    tokens.begin("bos")
    assert (ids(tokens, SENTENCE), ids(tokens, CONTINUED)) == default
    tokens.begin("</s>")
    for request, (before, want) in zip((SENTENCE, CONTINUED), default, strict=True):
        assert ids(tokens, request) == ([2, *before[1:]], want)
    tokens.begin()
    assert (ids(tokens, SENTENCE), ids(tokens, CONTINUED)) == default


def test_without_a_token_the_first_one_of_a_sentence_is_not_scored():
    tokens = Tokens(tokenizer("llama"), "causal")
    (before, want), (context, continued) = ids(tokens, SENTENCE), ids(tokens, CONTINUED)
    tokens.begin("none")
    assert ids(tokens, SENTENCE) == (before[1:], want[1:])
    assert ids(tokens, CONTINUED) == (context[1:], continued)
    assert tokens.begins == {"before a text with a context": "none", "before a sentence": "none"}


def test_the_default_is_that_of_the_harness_where_the_tokenizer_adds_no_bos():
    tokens = Tokens(silent(), "causal")
    assert tokens.begins == {"before a text with a context": "none", "before a sentence": "<|endoftext|> (0)"}
    assert ids(tokens, CONTINUED)[0][0] != 0
    tokens.begin("bos")
    assert ids(tokens, CONTINUED)[0][0] == 0


def test_a_gemma_gets_its_bos_before_a_context_too():
    assert Tokens(silent(), "causal", family="gemma3_text").prefix == [0]
    assert Tokens(silent(), "causal", family="llama").prefix == []


def test_what_is_no_start_is_refused():
    with pytest.raises(ScoringError, match=r"no token 'x y'; give --start bos, none, or a token .*such as </s>"):
        Tokens(tokenizer("llama"), "causal").begin("x y")
    with pytest.raises(ScoringError, match="no beginning-of-sequence token"):
        Tokens(tokenizer("trimmed"), "causal").begin("bos")
    with pytest.raises(ScoringError, match="A masked model reads its texts between its own tokens"):
        Tokens(tokenizer("bert"), "masked").begin("none")


def test_a_bos_that_is_not_added_and_one_that_marks_roles_are_said():
    assert starts.remarks(Tokens(tokenizer("llama"), "causal")) == []
    assert starts.remarks(Tokens(tokenizer("bert"), "masked")) == []
    assert starts.remarks(Tokens(tokenizer("trimmed"), "causal")) == []
    (said,) = starts.remarks(Tokens(silent(), "causal"))
    assert said.startswith("The tokenizer has <|endoftext|> as beginning of a sequence and does not put it before")
    made = tokenizer("llama")
    of_roles = PreTrainedTokenizerFast(
        tokenizer_object=made.backend_tokenizer, bos_token="<s>", eos_token="</s>", unk_token="<unk>"
    )
    of_roles.chat_template = ROLES
    (said,) = starts.remarks(Tokens(of_roles, "causal"))
    assert said.startswith("<s> begins each turn in the chat template")
    assert "Compare --start <unk>." in said
    of_roles.chat_template = "{{ '<s>' }}" + ROLES.replace("<s>", "<turn>")
    assert starts.remarks(Tokens(of_roles, "causal")) == []


def test_the_start_is_a_part_of_the_key_and_of_the_results(tmp_path):
    data = data_set(tmp_path / "data", "unstereo", {("ours-5", "test"): list(pairs("a"))})
    common = {"benchmarks": "unstereo", "data": data, "resamples": 20}
    plain = evaluate("tiny-causal", **common)
    none = evaluate("tiny-causal", start="none", **common)
    same = evaluate("tiny-causal", start="bos", **common)
    for result, start in ((plain, ""), (none, "none"), (same, "bos")):
        assert result.report.environment["settings"]["start"] == start
    assert none.report.environment["start of a text"]["before a sentence"] == "none"
    keys = [result.report.environment["response key"]["start"] for result in (plain, none, same)]
    assert keys[1] != keys[0]
    values = [{e.key: e.value for e in result.report.estimates} for result in (plain, none, same)]
    assert values[0] == pytest.approx(values[2], nan_ok=True)
    assert values[0] != pytest.approx(values[1], nan_ok=True)


def test_the_key_of_an_answer_has_the_start():
    made = Model(families.build("llama", "causal"), families.tokenizer("causal"), "causal", "m")
    before = key(made, get("plain"))
    made.tokens.begin("none")
    assert key(made, get("plain")) == before | {"start": "none · none"}


def test_answers_in_words_have_no_start():
    with pytest.raises(ScoringError, match="start=… is of models that are asked with tokens"):
        evaluate(lambda texts: texts, start="bos", benchmarks="neutral")


@pytest.mark.real
def test_the_two_real_models_begin_as_the_harness_has_it_and_say_so():
    from transformers import AutoTokenizer

    chat = Tokens(AutoTokenizer.from_pretrained(real.smollm2()), "causal")
    assert chat.begins == {"before a text with a context": "none", "before a sentence": "<|im_start|> (1)"}
    added, role = starts.remarks(chat)
    assert "does not put it before texts" in added
    assert "Compare --start <|endoftext|>." in role
    base = Tokens(AutoTokenizer.from_pretrained(real.gemma()), "causal", family="gemma3_text")
    assert set(base.begins.values()) == {"<bos> (2)"}
    assert starts.remarks(base) == []
