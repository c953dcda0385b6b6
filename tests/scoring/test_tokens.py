"""Every tokenization trap."""

from types import SimpleNamespace

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizer, PreTrainedTokenizerFast

from scoring.asking.answering import Question, scorable
from scoring.inference import tokens as encoding
from scoring.inference.tokens import Tokens
from scoring.types import BenchmarkContext, Option, Request, ScoringError
from tests.scoring.models import REAL, folder, marked, tokenizer
from tests.scoring.peers import bias_bench as peer

CAUSAL = ["gpt2", "trimmed", "opt", "llama"]


def tokens(name, **more):
    if name in REAL:
        from transformers import AutoTokenizer

        return Tokens(AutoTokenizer.from_pretrained(folder(name)), "causal", **more)
    return Tokens(tokenizer(name), "masked" if name in ("bert", "roberta") else "causal", **more)


def asked(made, request):
    """The queries of an request's options, and of its candidate forms."""
    (result,) = made.queries([request])
    return result


def scored(made, context, text, **option):
    """The scored tokens of one option, as the tokenizer shows them."""
    (queries,), _ = asked(made, Request("a", context, (Option(text, **option),)))
    return [made.tokenizer.convert_ids_to_tokens(i) for q in queries for i in q.want]


def whole(made, request):
    """A causal query with its last wanted token."""
    ((query,),), _ = asked(made, request)
    return [*query.ids, query.want[-1]]


@pytest.mark.fault(36)
@pytest.mark.parametrize("name", marked([*CAUSAL, *REAL]))
def test_the_beginning_of_sequence_stands_once_before_a_sentence(name):
    made = tokens(name)
    first = {"gpt2": 0, "trimmed": 0}.get(name, 1)
    ids = whole(made, Request("a", "", (Option("The nurse said that she"),)))
    assert ids[0] == first
    assert ids.count(first) == 1
    assert ids[1:] == made.tokenizer("The nurse said that she", add_special_tokens=False)["input_ids"]


@pytest.mark.fault(36)
@pytest.mark.parametrize("name", marked([*CAUSAL, *REAL]))
def test_a_context_begins_as_the_tokenizer_has_it(name):
    made = tokens(name)
    ids = whole(made, Request("a", "The nurse said that", (Option(" she"),)))
    assert ids == made.tokenizer("The nurse said that she")["input_ids"]
    assert (
        made.prompt(Request("a", "The nurse"), made.encode(["The nurse"])[0])
        == made.tokenizer("The nurse")["input_ids"]
    )


@pytest.mark.fault(36)
@pytest.mark.parametrize(("name", "bos"), [("opt", "</s>"), ("llama", "<s>"), ("gpt2", "<|endoftext|>")])
@pytest.mark.parametrize("context", ["", "The nurse said that"])
def test_a_beginning_of_sequence_in_the_text_is_not_doubled(name, bos, context):
    made = tokens(name)
    with_bos = (
        Request("a", bos + context, (Option(" she went"),))
        if context
        else Request("a", "", (Option(bos + "she went"),))
    )
    ids = whole(made, with_bos)
    assert ids.count(made.tokenizer.bos_token_id) == 1
    assert ids[0] == made.tokenizer.bos_token_id


@pytest.mark.fault(36)
def test_an_empty_context_is_continued_from_the_beginning_of_sequence():
    assert tokens("gpt2").prompt(Request("a"), tokens("gpt2").encode([""])[0]) == [0]
    assert tokens("llama").prompt(Request("a"), tokens("llama").encode([""])[0]) == [1]


@pytest.mark.fault(36)
def test_a_tokenizer_without_padding_token_has_an_id_to_fill_rows_with():
    assert tokens("gpt2").pad == 0
    assert tokens("llama").pad == tokenizer("llama").pad_token_id


@pytest.mark.fault(36)
def test_a_tokenizer_that_can_begin_no_sentence_is_refused_only_when_one_is_asked():
    class Nothing(Slow):
        pass

    made = Tokens(Nothing(), "causal")
    assert whole(made, Request("a", "ab", (Option("c"),))) == made.tokenizer("abc")["input_ids"]
    with pytest.raises(ScoringError, match="beginning-of-sequence"):
        whole(made, Request("a", "", (Option("abc"),)))


@pytest.mark.fault(37)
@pytest.mark.parametrize("name", marked([*CAUSAL, *REAL, "bert"]))
@pytest.mark.parametrize("text", ["", " ", "\t\n "])
def test_a_blank_option_is_refused(name, text):
    with pytest.raises(ScoringError, match=r"^x: .*is blank"):
        scored_x(tokens(name), text)


def scored_x(made, text):
    return asked(made, Request("x", "The nurse", (Option(text),)))


@pytest.mark.fault(37)
@pytest.mark.parametrize("name", ["gpt2", "trimmed", "opt", "roberta"])
def test_a_token_over_the_boundary_is_refused_and_shown(name):
    with pytest.raises(ScoringError, match=r"^a: .*'Ġshe'"):
        scored(tokens(name), "The nurse said that ", "she")
    with pytest.raises(ScoringError, match=r"^a: .*'Ġshe'"):
        scored(tokens(name), "The nurse said that sh", "e came")


@pytest.mark.fault(37)
def test_a_sentencepiece_token_over_the_boundary_is_refused_and_shown():
    with pytest.raises(ScoringError, match="'▁she'"):
        scored(tokens("llama"), "The nurse said that ", "she")


@pytest.mark.fault(37)
@pytest.mark.parametrize(
    ("name", "context", "text", "expected"),
    marked(
        [
            ("gpt2", "The nurse said that", " she", ["Ġshe"]),
            ("trimmed", "The nurse said that", " she", ["Ġshe"]),
            ("llama", "The nurse said that", " she", ["▁she"]),
            ("gpt2", "The nurse said that ", " she", ["Ġshe"]),
            ("trimmed", "The nurse said that ", " she", ["Ġshe"]),
            ("llama", "The nurse said that ", " she", ["▁she"]),
            ("gpt2", "The nurse said that", ", she", [",", "Ġshe"]),
            ("bert", "The nurse said that ", "she", ["she"]),
            ("bert", "The nurse said that", " She", ["she"]),
            ("roberta", "The nurse said that", " she", ["Ġshe"]),
            ("babyllama105", "The nurse said that", " he", ["▁", "h", "e"]),
            ("babyllama105", "The nurse said that", " her", ["▁", "h", "e", "r"]),
            ("babyllama105", "The nurse said that ", " she", ["▁", "s", "h", "e"]),
            ("stories260K", "The nurse said that", " she", ["▁she"]),
            ("stories260K", "The nurse said that", " him", ["▁h", "im"]),
            ("stories260K", "A:\n", "日", ["<0xE6>", "<0x97>", "<0xA5>"]),
        ]
    ),
)
def test_the_boundary_is_found_on_the_joint_encoding(name, context, text, expected):
    assert scored(tokens(name), context, text) == expected


def test_characters_of_several_tokens_stay_together():
    for name in CAUSAL[:3]:
        made = tokens(name)
        assert len(scored(made, "I like", " 🙂")) > 1
        assert made.tokenizer.decode(whole(made, Request("a", "I like", (Option(" 🙂"),)))[-1:]) != " 🙂"


@pytest.mark.parametrize("name", ["gpt2", "trimmed", "llama", "bert", "roberta"])
def test_a_span_at_a_word_has_the_token_that_brings_its_space_along(name):
    text = "The nurse said that she came"
    (result,) = scored(tokens(name), "", text, spans=((20, 23),))
    assert result.strip("Ġ▁") == "she"


@pytest.mark.parametrize("name", ["gpt2", "trimmed", "opt", "llama", "roberta"])
def test_a_span_at_a_word_has_the_token_of_its_space_whether_offsets_are_trimmed_or_not(name):
    letters = ["k", "ay", "a", "k", "s"]
    first, *rest = scored(tokens(name), "", "The kayaks ran", spans=((4, 10),), mask="left")
    assert (first in "Ġ▁", rest) == (True, letters)
    first, *rest = scored(tokens(name), "The", " kayaks ran", spans=((1, 7),), mask="left")
    assert (first in "Ġ▁", rest) == (True, letters)


@pytest.mark.parametrize("name", ["gpt2", "bert", "roberta"])
def test_spans_are_scored_in_the_order_of_the_text_and_tokens_once(name):
    result = scored(tokens(name), "The nurse", " she and her", spans=((9, 12), (1, 4), (1, 8)))
    assert [t.strip("Ġ").lower() for t in result] == ["she", "and", "her"]


@pytest.mark.parametrize("name", ["gpt2", "llama", "bert"])
def test_half_a_word_is_no_span(name):
    with pytest.raises(ScoringError, match=r"'.?she'.*'sh'"):
        scored(tokens(name), "", "and she came", spans=((4, 6),))


def test_a_row_whose_object_shares_a_token_is_skipped_by_name_and_the_others_are_scored():
    words = Tokenizer(models.WordLevel({"<s>": 0, "She": 1, "sings": 2, "sings.": 3, "now.": 4}, "<s>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    made = Tokens(PreTrainedTokenizerFast(tokenizer_object=words, bos_token="<s>", unk_token="<s>"), "causal")
    plain = SimpleNamespace(beyond=None)
    asked_rows = [
        Question(plain, {}, BenchmarkContext("causal"), {"q": Request(f"biaske/x/{n}", "", (Option(text, ((4, 9),)),))})
        for n, text in enumerate(["She sings now.", "She sings.", "She sings now."])
    ]
    kept, skipped = scorable(asked_rows, SimpleNamespace(tokens=made))
    assert kept == [asked_rows[0], asked_rows[2]]
    assert skipped == ["biaske/x/1: the token 'sings.' lies half in the span 'sings'"]


def test_an_option_without_tokens_is_refused():
    with pytest.raises(ScoringError, match=r"'\\u200b'"):
        scored(tokens("bert"), "The nurse", "\u200b")


@pytest.mark.parametrize("spans", [(), ((0, 0),), ((3, 99),), ((-1, 2),)])
def test_a_span_outside_the_option_is_refused(spans):
    with pytest.raises(ScoringError, match="'The nurse'"):
        scored(tokens("gpt2"), "", "The nurse", spans=spans)


def test_a_span_of_blanks_is_refused():
    with pytest.raises(ScoringError, match=r"^a: .*span ' '"):
        scored(tokens("bert"), "", "The nurse", spans=((3, 4),))


WATCHED = [("gpt2", "Ġ"), ("trimmed", "Ġ"), ("opt", "Ġ"), ("llama", "▁"), ("stories260K", "▁")]


@pytest.mark.parametrize(("name", "space"), marked(WATCHED))
def test_watched_forms_are_the_single_tokens_after_a_space(name, space):
    forms = ("she", "he", "her", "hers", "herself", "she's", "She")
    made = tokens(name)
    known = made.tokenizer.get_vocab()
    assert made.words(forms) == [known.get(space + form) for form in forms]
    assert made.words(("she",)) == [known[space + "she"]]
    assert None in made.words(forms)


@pytest.mark.mirror
def test_a_character_tokenizer_has_no_watched_form():
    assert tokens("babyllama105").words(("she", "he", "her")) == [None, None, None]


def test_no_token_is_watched_twice():
    made = Tokens(tokenizer("bert"), "causal")
    assert made.words(("she", "She", "he")) == [made.words(("she",))[0], None, made.words(("he",))[0]]


def test_an_unknown_word_is_not_watched():
    assert Tokens(tokenizer("bert"), "causal").words(("日",)) == [None]


def test_a_query_of_watched_forms_ends_with_the_context():
    made = tokens("opt")
    _, query = asked(made, Request("a", "My friend", candidates=("she", "nonsense", "he")))
    assert list(query.ids) == made.tokenizer("My friend")["input_ids"]
    assert query.at == (len(query.ids) - 1,) * 2
    assert list(query.want) == made.tokenizer.convert_tokens_to_ids(["Ġshe", "Ġhe"])


@pytest.mark.parametrize("name", ["bert", "roberta"])
def test_a_masked_sentence_stands_once_between_its_special_tokens(name):
    made = tokens(name)
    (queries,), _ = asked(made, Request("a", "The nurse", (Option(" said"),)))
    full = made.tokenizer("The nurse said")["input_ids"]
    (position,) = queries[0].at
    assert [i if n != position else full[n] for n, i in enumerate(queries[0].ids)] == full
    assert queries[0].ids[position] == made.tokenizer.mask_token_id


def test_left_masks_put_one_mask_in_the_place_of_the_rest_of_a_span():
    made = tokens("bert")
    (queries,), _ = asked(made, Request("a", "", (Option("The unhappy man", ((4, 11),), "left"),)))
    shown = [made.tokenizer.convert_ids_to_tokens(q.ids) for q in queries]
    parts = made.tokenizer.tokenize("unhappy")
    assert len(parts) > 2
    around = made.tokenizer.tokenize("man")
    assert shown == [["[CLS]", "the", *parts[:n], "[MASK]", *around, "[SEP]"] for n in range(len(parts))]
    assert [made.tokenizer.convert_ids_to_tokens(q.want)[0] for q in queries] == parts


def test_a_masked_model_is_not_asked_for_the_next_token():
    for request in (Request("a", "The nurse", candidates=("she",)), Request("a", "The nurse", max_new=5)):
        with pytest.raises(ScoringError, match=r"^a .*masked model"):
            tokens("bert").prompt(request, tokens("bert").encode([request.context])[0])


def test_a_masked_model_needs_a_mask():
    with pytest.raises(ScoringError, match="has no mask token"):
        Tokens(tokenizer("gpt2"), "masked")


LONG = "The nurse said that she would come again in the morning."


@pytest.mark.fault(38)
@pytest.mark.parametrize("name", ["gpt2", "llama", "bert"])
def test_a_sentence_longer_than_the_window_is_refused_with_its_lengths(name):
    made = tokens(name, window=8)
    with pytest.raises(ScoringError, match=r"^a needs \d+ .*8;"):
        scored(made, "", LONG)
    assert not made.truncated


@pytest.mark.fault(38)
def test_a_sentence_as_long_as_the_window_is_scored():
    length = len(tokenizer("gpt2")(LONG)["input_ids"])
    scored(tokens("gpt2", window=length), "", LONG)
    with pytest.raises(ScoringError, match=f"{length}.*{length - 1}"):
        scored(tokens("gpt2", window=length - 1), "", LONG)
    framed = len(tokenizer("bert")(LONG)["input_ids"])
    scored(tokens("bert", window=framed), "", LONG)
    with pytest.raises(ScoringError, match=f"needs {framed} tokens"):
        scored(tokens("bert", window=framed - 1), "", LONG)


@pytest.mark.fault(38)
@pytest.mark.parametrize("name", ["gpt2", "llama", "bert"])
def test_truncation_drops_the_beginning_of_the_context_and_marks_the_ask(name):
    made = tokens(name, window=8, truncate=True)
    assert scored(made, LONG, " She came") == scored(tokens(name), LONG, " She came")
    assert made.truncated == {"a"}
    (queries,), _ = asked(made, Request("b", LONG, (Option(" She came"),)))
    assert all(len(q.ids) <= 8 for q in queries)
    assert list(queries[0].ids[: len(made.prefix)]) == made.prefix


@pytest.mark.fault(38)
@pytest.mark.parametrize("name", ["gpt2", "llama", "bert"])
def test_truncation_of_a_whole_sentence_keeps_its_beginning(name):
    made = tokens(name, window=8, truncate=True)
    full = scored(tokens(name), "", LONG)
    result = scored(made, "", LONG)
    assert result == full[: len(result)]
    assert 5 <= len(result) < len(full)


@pytest.mark.fault(38)
def test_truncation_that_leaves_nothing_to_score_is_refused():
    with pytest.raises(ScoringError, match="cuts off all"):
        scored(tokens("bert", window=6, truncate=True), "", LONG, spans=((len(LONG) - 8, len(LONG) - 1),))
    with pytest.raises(ScoringError, match=r"no token of .* can be scored"):
        scored(tokens("gpt2", window=3, truncate=True), "", LONG, spans=((len(LONG) - 8, len(LONG) - 1),))


@pytest.mark.fault(38)
def test_new_tokens_need_room_in_the_window():
    made = tokens("gpt2", window=16, truncate=True)
    context = made.encode([LONG + LONG])[0]
    assert made.prompt(Request("a", LONG + LONG), context, 10) == context.ids[-6:]
    with pytest.raises(ScoringError, match=r"^a: 30 .*16;"):
        made.prompt(Request("a", LONG), made.encode([LONG])[0], 30)


class Slow(PreTrainedTokenizer):
    """A tokenizer without offsets, of two letters a token from the left, where a space begins a token."""

    def __init__(self, **more):
        self.known = {}
        super().__init__(**more)

    @property
    def vocab_size(self):
        return 10_000

    def get_vocab(self):
        return dict(self.known)

    def _tokenize(self, text, **_):
        result = []
        for letter in text:
            if result and len(result[-1].strip()) < 2 and letter != " ":
                result[-1] += letter
            else:
                result.append(letter)
        return result

    def _convert_token_to_id(self, token):
        return self.known.setdefault(token, len(self.known) + 10)

    def _convert_id_to_token(self, index):
        return {v: k for k, v in self.known.items()}.get(index, "?")


@pytest.mark.fault(37)
def test_a_slow_tokenizer_finds_the_boundary_by_its_prefixes():
    made = Tokens(Slow(bos_token="<s>"), "causal")
    assert scored(made, "The nurse", " she") == [" sh", "e"]
    assert scored(made, "", "The nurse", spans=((4, 9),)) == [" nu", "rs", "e"]
    with pytest.raises(ScoringError, match="'rs'"):
        scored(made, "The nur", "se")


def test_places_are_looked_for_only_where_a_text_has_parts(monkeypatch):
    looked, result = [], encoding._prefix_offsets

    def look(tokenizer, text, ids):
        looked.append(text)
        return result(tokenizer, text, ids)

    monkeypatch.setattr(encoding, "_prefix_offsets", look)
    made = Tokens(Slow(bos_token="<s>", unk_token="<unk>"), "causal")
    list(made.queries([Request("a", "", (Option("The nurse came"),))]))
    assert looked == []
    list(made.queries([Request("a", "The nurse", (Option(" came"),))]))
    assert looked == ["The nurse came"]


# How bias-bench asks


@pytest.mark.parametrize("name", CAUSAL)
def test_only_the_first_token_follows_the_start_token(name):
    made = tokens(name)
    ids = made.tokenizer("The nurse came", add_special_tokens=False)["input_ids"]
    ((first, others),), _ = asked(made, Request("a", "", (Option("The nurse came", start="first"),)))
    assert first == ((made.first,), (0,), (ids[0],), 0, 0)
    assert others == (tuple(ids[:-1]), tuple(range(len(ids) - 1)), tuple(ids[1:]), 0, 0)


def test_the_start_token_is_that_of_gpt2_where_the_vocabulary_has_it():
    made = tokens("opt")
    made.tokenizer = PreTrainedTokenizerFast(tokenizer_object=made.tokenizer.backend_tokenizer, bos_token="</s>")
    made.tokenizer.add_special_tokens({"additional_special_tokens": ["<|endoftext|>"]})
    ((first, *_),), _ = asked(made, Request("a", "", (Option("The nurse", start="first"),)))
    assert first.ids == (made.tokenizer.convert_tokens_to_ids("<|endoftext|>"),)


def test_a_sentence_of_one_token_has_one_query_and_a_context_leaves_all_as_it_is():
    made = tokens("gpt2")
    ((query,),), _ = asked(made, Request("a", "", (Option("T", start="first"),)))
    assert query.ids == (made.first,)
    known = [asked(made, Request("a", "The nurse", (Option(" came", start=s),)))[0] for s in ("first", "all")]
    assert known[0] == known[1]


def test_a_sentence_without_start_token_fits_a_window_of_one_token_less():
    length = len(tokens("gpt2").tokenizer("The nurse came")["input_ids"])
    request = Request("a", "", (Option("The nurse came", start="first"),))
    ((_, others),), _ = asked(tokens("gpt2", window=length - 1), request)
    assert len(others.want) == length - 1
    with pytest.raises(ScoringError, match=f"{length - 1}.*{length - 2}"):
        asked(tokens("gpt2", window=length - 2), request)
    ((_, cut),), _ = asked(tokens("gpt2", window=length - 2, truncate=True), request)
    assert cut.want == others.want[:-1]


def published(name):
    """A masked tokenizer whose mask, in RoBERTa, takes the space before it, as in the published models."""
    return Tokens(peer.tokenizer(name), "masked")


def shown(made, query):
    return "".join(made.tokenizer.convert_ids_to_tokens(query.ids))


@pytest.mark.parametrize(
    ("name", "word", "text"),
    [
        ("roberta", " she", "<s>saidĠthat<mask>.</s>"),
        ("roberta", "she", "<s>saidĠthat<mask>.</s>"),
        ("bert-uncased", "she", "[CLS]saidthat[MASK].[SEP]"),
    ],
)
def test_a_mask_takes_the_place_of_the_word(name, word, text):
    made = published(name)
    option = Option(f"said that {word}.", ((10, 10 + len(word)),), "decoded")
    (queries,), _ = asked(made, Request("a", "", (option,)))
    assert shown(made, queries[0]).replace("##", "") == text
    assert all(query.ids[query.at[0]] == made.tokenizer.mask_token_id for query in queries)
    assert [i for query in queries for i in query.want] == made.encode([word])[0].ids


def test_the_tokens_before_a_mask_are_those_of_the_text():
    made = published("roberta")
    word = made.encode([" unkind"])[0].ids
    (queries,), _ = asked(made, Request("a", "", (Option("said that  unkind.", ((10, 17),), "decoded"),)))
    for number, query in enumerate(queries):
        text = f"said that {made.tokenizer.decode(word[:number])}<mask>."
        assert list(query.ids) == made.tokenizer(text)["input_ids"]
    assert len(queries) == len(word) > 1


def test_every_blank_has_a_mask_and_the_first_is_read():
    made = tokens("bert")
    (queries,), _ = asked(made, Request("a", "", (Option("she said she", ((0, 3), (9, 12)), "decoded"),)))
    assert [q.ids.count(made.tokenizer.mask_token_id) for q in queries] == [2] * len(queries)
    assert queries[0].at == (1,)


def test_a_blank_without_a_word_or_outside_the_window_is_refused():
    with pytest.raises(ScoringError, match="has no token to mask"):
        asked(tokens("bert"), Request("a", "", (Option("she said", ((3, 3),), "decoded"),)))
    with pytest.raises(ScoringError, match="cuts off all"):
        asked(
            tokens("bert", window=4, truncate=True), Request("a", "", (Option("she said that", ((9, 13),), "decoded"),))
        )
