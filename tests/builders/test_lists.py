import pytest

from builders.generation.lists import is_refusal, list_entries, response_problem, single_sentence, without_markup
from builders.generation.responses import request_body, response

ASKED = request_body("m", "Write.", temperature=0, max_tokens=9)


@pytest.mark.fault(28)
@pytest.mark.parametrize(
    "reply",
    [
        "1. He sings.\n2. He waits.",
        "1) He sings.\n2) He waits.",
        "(1) He sings.\n(2) He waits.",
        "[1] He sings.\n[2] He waits.",
        "1: He sings.\n2: He waits.",
        "1 - He sings.\n2 – He waits.",
        "#1. He sings.\n#2. He waits.",
        "**1.** He sings.\n**2.** He waits.",
        "1. **He sings.**\n2. *He waits.*",
        '1. "He sings."\n2. “He waits.”',
        "1.\nHe sings.\n2.\nHe waits.",
        "1. He sings. 2. He waits.",
        "- He sings.\n- He waits.",
        "* He sings.\n* He waits.",
        "• He sings.\n• He waits.",
        "He sings.\n\nHe waits.",
        "Sure, here they are:\n\n1. He sings.\n2. He waits.\n\nLet me know!",
        "Sure:\n- He sings.\n- He waits.",
        "1. He sings.\n   - a remark\n2. He waits.",
        '["He sings.", "He waits."]',
        '```json\n["He sings.", "He waits."]\n```',
        '{"sentences": ["He sings.", "He waits."]}',
        '{"1": "He sings.", "2": "He waits."}',
        '[{"sentence": "He sings."}, {"sentence": "He waits."}]',
        '["He sings.", "He waits.", oops',
        "<think>1. No. 2. No.</think>1. He sings.\n2. He waits.",
        "1. He sings.\r\n2. He waits.\r\n",
    ],
)
def test_lists_in_all_usual_formats_are_parsed(reply):
    assert list_entries(reply) == ["He sings.", "He waits."]


@pytest.mark.fault(28)
@pytest.mark.parametrize(
    ("reply", "said"),
    [
        ("", "were empty"),
        (" \n", "were empty"),
        ("I'm sorry, but I can't help with that.", "refused"),
        ("I’m really sorry. No.", "refused"),
        ("Sorry, I can't.", "refused"),
        ("As an AI language model, I have no friends.", "refused"),
        ("I cannot write that.", "refused"),
        ("I apologize.", "refused"),
        ("Unfortunately, I am not able to.", "refused"),
        ("1. One.\n2. Two.\n3. Three.", "had fewer entries than requested"),
        ("1. One.\n2. Two.\n3. Three.\n4. Four.\n5. Five.", ""),
    ],
)
def test_empty_refusing_and_short_responses_have_a_problem(reply, said):
    assert response_problem(response(ASKED, reply), len(list_entries(reply)), 5) == said


@pytest.mark.fault(28)
def test_an_apology_before_a_list_or_inside_a_sentence_is_not_a_refusal():
    assert list_entries("Sorry for the wait!\n1. He sings.") == ["He sings."]
    assert not is_refusal("Unfortunately, he missed the bus.")
    assert not is_refusal("He said he was sorry.")


@pytest.mark.fault(28)
def test_the_last_entry_of_a_truncated_response_is_dropped_unless_it_is_complete_json():
    assert list_entries("1. He sings.\n2. He wai", is_truncated=True) == ["He sings."]
    assert list_entries('["He sings.", "He wai', is_truncated=True) == ["He sings."]
    assert list_entries("He wai", is_truncated=True) == []


@pytest.mark.fault(28)
def test_code_is_treated_as_text(tmp_path):
    target = tmp_path / "made"
    code = f"__import__('os').mkdir({str(target)!r})"
    assert list_entries(code) == [code]
    assert list_entries(f"[{code}]") == [f"[{code}]"]
    assert list_entries(f'{{"a": "{code}"}}') == [code]
    assert not target.exists()


@pytest.mark.fault(28)
@pytest.mark.parametrize("hostile", ["[" * 9000, '["' * 9000, "1. " * 9000, "**" * 9000, "'a'a" * 9000, "{" * 9000])
def test_hostile_replies_are_read_without_error(hostile):
    assert isinstance(list_entries(hostile), list)


def test_single_sentence_needs_a_response_with_one_entry():
    assert single_sentence(response(ASKED, ' "He sings." ')) == "He sings."
    assert single_sentence(response(ASKED, "He sings.\nI changed the verb.")) == ""
    assert single_sentence(response(ASKED, "He sin", finish_reason="length")) == ""
    assert single_sentence(response(ASKED, "I cannot do that.")) == ""


@pytest.mark.parametrize("kept", ['"Hi," he said. "Bye."', "'Tis his, and 'twas hers'", "He's here, it's his."])
def test_quotes_and_apostrophes_inside_an_entry_are_kept(kept):
    assert without_markup(kept) == kept
