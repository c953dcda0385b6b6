"""Chat templates that do not end, call themselves or fail are one sentence in bounded time."""

import time

import pytest

from scoring.inference import chat
from scoring.inference.chat import Chat
from scoring.types import Request, ScoringError
from tests.scoring.models import tokenizer

ENDLESS = "".join(f"{{% for {name} in range(99999) %}}" for name in "abc") + "{% endfor %}" * 3


def made(template):
    made = tokenizer("gpt2")
    made.chat_template = template
    try:
        return Chat(made, "org/model").put(Request("a", "Hello."))
    finally:
        made.chat_template = None


@pytest.mark.fault(74)
def test_a_template_without_end_is_stopped(monkeypatch):
    monkeypatch.setattr(chat, "LONGEST", 0.5)
    with pytest.raises(ScoringError, match=r"'org/model'.*0\.5"):
        made(ENDLESS)
    before = time.process_time()
    time.sleep(1)
    assert time.process_time() - before < 0.9  # its thread has ended


@pytest.mark.fault(74)
@pytest.mark.parametrize(
    "template",
    [
        "{% macro a() %}{{ a() }}{% endmacro %}{{ a() }}",
        "{{ 1 // 0 }}",
        "{{ messages[99]['content'] }}",
        "{{ messages.__class__.__mro__ }}",
        "{{ none + 1 }}",
        "{% for a in range(10 ** 9) %}{% endfor %}",
        "{{ raise_exception('no') }}",
        "{% if %}",
    ],
)
def test_a_template_that_fails_is_one_sentence(template):
    with pytest.raises(ScoringError, match="'org/model'") as error:
        made(template)
    assert "\n" not in str(error.value)
