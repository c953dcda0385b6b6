"""A model's answers against a plain loop, and what can go wrong on the way to them."""

import copy
import json
import math
import random
import shutil
from functools import cache

import huggingface_hub
import numpy as np
import pytest
import torch
import transformers

from scoring.inference import checkpoint
from scoring.inference.generation import Decoding
from scoring.inference.load_options import BUNDLED, load
from scoring.inference.model import Model
from scoring.inference.network import LOGITS, TILE
from scoring.inference.tokens import Tokens
from scoring.types import Option, Request, ScoringError
from tests.scoring.models import CAUSAL, FAMILIES, MASKED, REAL, folder, marked, model, network, tokenizer

CANDIDATES = ("she", "he", "her", "hers", "unthinkable", "they")
JOBS = ("nurse", "farmer", "mechanic")


def causal_requests():
    """Every kind of request: shared contexts, whole sentences, parts of a sentence, candidate words, continuations."""
    options = tuple(Option(f" {w}") for w in ("she", "he", "her", "hers", "her home", "they went home", "Non-binary"))
    requests = [Request(f"{j}/options", f"My friend is a {j}, and", options, CANDIDATES) for j in JOBS]
    requests += [Request(f"{j}/candidates", f"I recently met a {j}.", (), CANDIDATES) for j in JOBS]
    requests += [
        Request(f"{j}/{p}", "", (Option(f"The {j} said that {p} would come again."),))
        for j in JOBS
        for p in ("she", "he")
    ]
    requests += [
        Request(f"{j}/part", "The", (Option(f" {j} said that she came", ((len(j) + 11, len(j) + 15),)),)) for j in JOBS
    ]
    requests += [Request(f"{j}/new", f"The {j}" + " and I" * n, max_new=4 + n) for n, j in enumerate(JOBS)]
    return [
        *requests,
        Request("nothing"),
        Request("both", "My friend", options[:2], CANDIDATES[:2], 3),
        Request("begin", "", max_new=3),
    ]


def masked_requests():
    requests = [
        Request(f"{j}/{p}", "", (Option(f"The {j} said that {p} came home."),)) for j in JOBS for p in ("she", "he")
    ]
    requests += [Request(f"{j}/part", f"The {j}", (Option(" said she came", ((1, 5), (10, 14))),)) for j in JOBS]
    for how in ("each", "left"):
        text = "Girls tend to be more unthinkable than boys."
        requests.append(Request(f"{how}", "", (Option(text, ((22, 33),), how), Option(text, ((0, 5), (22, 33)), how))))
    return requests


@cache
def plain_network(name):
    """The same weights in float64."""
    if name in REAL:
        return transformers.AutoModelForCausalLM.from_pretrained(folder(name), dtype=torch.float64)
    return network(name, torch.float64)


@cache
def text(name):
    return transformers.AutoTokenizer.from_pretrained(folder(name)) if name in REAL else tokenizer(FAMILIES[name][2])


@cache
def following(name, ids):
    """Log-probabilities [tokens, vocabulary] of one sequence, by the whole network, in float64."""
    with torch.no_grad():
        return torch.log_softmax(plain_network(name)(torch.tensor([ids])).logits[0], -1)


def plain_option(name, context, option):
    """One option after its context, as a plain loop over its tokens has it."""
    words = text(name)
    whole = words(context + option.text).input_ids
    if context:
        start = len(words(context).input_ids)
        assert whole[:start] == words(context).input_ids
    else:
        first = words.bos_token_id if words.bos_token_id is not None else words.eos_token_id
        whole = whole if whole[0] == first else [first, *whole]
        start = 1
    scores = following(name, tuple(whole))
    values = [scores[n - 1, whole[n]].item() for n in range(start, len(whole))]
    if option.spans is None:
        return values
    # The part is a word of several tokens at most: count the tokens before and behind it.
    ((a, b),) = option.spans
    low, high = (len(words(context + option.text[:end].rstrip()).input_ids) for end in (a, b))
    return values[low - start : high - start]


def plain_words(name, context):
    words = text(name)
    known = words.get_vocab()
    space = "▁" if "▁" in known or "▁a" in known else "Ġ"
    scores = following(name, tuple(words(context).input_ids))[-1]
    return [scores[known[space + w]].item() if space + w in known else math.nan for w in CANDIDATES]


def plain_text(name, context, new):
    """Greedy decoding without a cache."""
    words = text(name)
    ids = words(context).input_ids or [words.bos_token_id if words.bos_token_id is not None else words.eos_token_id]
    before = words.decode(ids, skip_special_tokens=True)
    for _ in range(new):
        token = following(name, tuple(ids))[-1].argmax().item()
        if token == words.eos_token_id:
            break
        ids = [*ids, token]
    return words.decode(ids, skip_special_tokens=True)[len(before) :]


@cache
def plain_causal(name):
    result = {}
    for request in causal_requests():
        options = [plain_option(name, request.context, o) for o in request.options]
        candidate_logprobs = plain_words(name, request.context)[: len(request.candidates)] if request.candidates else []
        result[request.id] = (
            options,
            candidate_logprobs,
            plain_text(name, request.context, request.max_new) if request.max_new else "",
        )
    return result


def plain_masked_option(name, context, option):
    """Masks by hand: the sentence is split around each part and its pieces are encoded by themselves."""
    words = text(name)
    sentence = context + option.text
    spans = option.spans or ((0, len(option.text)),)
    result = []
    for a, b in spans:
        a, b = a + len(context), b + len(context)
        left = a - 1 if a and sentence[a - 1] == " " else a
        pieces = [
            words(s, add_special_tokens=False).input_ids for s in (sentence[:left], sentence[left:b], sentence[b:])
        ]
        before, part, after = pieces
        assert words(sentence).input_ids == [words.cls_token_id, *before, *part, *after, words.sep_token_id]
        for n, token in enumerate(part):
            rest = part[n + 1 :] if option.mask == "each" else []
            ids = (words.cls_token_id, *before, *part[:n], words.mask_token_id, *rest, *after, words.sep_token_id)
            result.append(following(name, ids)[1 + len(before) + n, token].item())
    return result


@cache
def plain_masked(name):
    return {
        request.id: [plain_masked_option(name, request.context, o) for o in request.options]
        for request in masked_requests()
    }


@cache
def ready(name, dtype):
    made = load(folder(name), dtype=str(dtype).removeprefix("torch.")) if name in REAL else model(name, dtype)
    assert made._network.head_apart
    return made


def agree(found, expected, within):
    assert [len(f) for f in found] == [len(e) for e in expected]
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=within)


WITHIN = {torch.float64: 1e-5, torch.float32: 1e-4}
SIZES = [(size, share) for size in (1, 2, 7, 64) for share in (True, False)]
NAMES = ("gpt2", "opt", "llama", *REAL)
FULL = [(name, torch.float32, *how) for name in NAMES for how in SIZES]
FULL += [(name, torch.float64, size, size > 2) for name in NAMES for size in (1, 2, 7, 64)]
SOME = [(name, torch.float32, 7, True) for name in CAUSAL[3:]]


@pytest.mark.fault(35)
@pytest.mark.parametrize(("name", "dtype", "size", "share"), marked(FULL + SOME))
def test_a_causal_model_answers_as_a_plain_loop_does(name, dtype, size, share):
    # Some families mask padding on the left with numbers that only fit float64, so texts are compared in float32.
    requests = [a for a in causal_requests() if not a.max_new or dtype == torch.float32]
    random.Random(size).shuffle(requests)
    responses = ready(name, dtype).answer(requests, batch_size=size, share_contexts=share)
    assert [r.id for r in responses] == [a.id for a in requests]
    for response in responses:
        options, candidate_logprobs, new = plain_causal(name)[response.id]
        agree(response.logprobs, options, WITHIN[dtype])
        np.testing.assert_allclose(response.candidate_logprobs, candidate_logprobs, rtol=0, atol=WITHIN[dtype])
        assert response.text == new


@pytest.mark.fault(35)
@pytest.mark.parametrize("size", [1, 2, 7, 64])
@pytest.mark.parametrize("dtype", WITHIN)
@pytest.mark.parametrize("name", MASKED)
def test_a_masked_model_answers_as_a_plain_loop_does(name, dtype, size):
    requests = masked_requests()
    random.Random(size).shuffle(requests)
    for response in ready(name, dtype).answer(requests, batch_size=size):
        agree(response.logprobs, plain_masked(name)[response.id], WITHIN[dtype])


@pytest.mark.fault(35)
@pytest.mark.parametrize("name", ["llama", "gpt2", "bert"])
def test_half_precision_stays_within_its_bound_and_keeps_the_ranking(name):
    made, expected = (ready(name, dtype) for dtype in (torch.bfloat16, torch.float32))
    requests = [a for a in (masked_requests() if name == "bert" else causal_requests()) if a.options]
    sums = [np.array([sum(o) / len(o) for r in m.answer(requests) for o in r.logprobs]) for m in (made, expected)]
    bound = 0.02 * np.abs(sums[1]).max()
    assert np.abs(sums[0] - sums[1]).max() < bound
    apart = sums[1][:, None] - sums[1] > 2 * bound
    assert apart.any()
    assert ((sums[0][:, None] > sums[0]) | ~apart).all()


@pytest.mark.fault(35)
@pytest.mark.parametrize("name", ["llama", "bert"])
def test_exact_answers_are_the_same_bits_at_every_batch_size_and_in_any_company(name):
    made = model(name, exact=True)
    requests = masked_requests() if name == "bert" else causal_requests()
    once = {r.id: r for size in (1, 64) for r in made.answer(requests, batch_size=size)}
    for request in requests:
        (alone,) = made.answer([request])
        assert repr(alone) == repr(once[request.id])


def test_shared_contexts_save_tokens():
    made = model("llama")
    requests = [a for a in causal_requests() if a.options]
    made.answer(requests, share_contexts=False)
    apart, made.stats.tokens = made.stats.tokens, 0
    made.answer(requests)
    assert made.stats.tokens < 0.5 * apart
    assert made.stats.speed()["shared_share"] > 0


def test_a_model_that_passes_positions_by_shares_no_context():
    assert model("bloom").measurements.shares(64) == 0
    assert all(model(name).measurements.shares(64) == 64 for name in CAUSAL if name != "bloom")


def test_a_model_is_told_of_gaps_only_where_it_takes_places_as_given():
    # OPT counts places by its mask, so it gives hidden tokens none, and BLOOM takes no places at all.
    assert [name for name in CAUSAL if not model(name).measurements.gaps(64)] == ["opt", "bloom"]


def behind_padding(name, sentence, width):
    """The score of a sentence behind padding to a width, by the whole network on the spelled-out row."""
    words = text(name)
    ids = words(sentence, add_special_tokens=False).input_ids
    first = words.eos_token_id if words.bos_token_id is None else words.bos_token_id
    pad = words.eos_token_id if words.pad_token_id is None else words.pad_token_id
    pads = max(width - len(ids), 0)
    row, mask = torch.tensor([[first, *[pad] * pads, *ids]]), torch.tensor([[1, *[0] * pads, *[1] * len(ids)]])
    with torch.no_grad():
        logits = plain_network(name)(row, attention_mask=mask).logits[0]
    scores = torch.log_softmax(logits, -1)[range(pads, pads + len(ids)), ids]
    return scores.tolist()


@pytest.mark.parametrize("name", CAUSAL)
@pytest.mark.parametrize("settings", [{}, {"batch_size": 1, "share_contexts": False}])
def test_options_of_a_width_are_scored_as_behind_padding_on_the_left(name, settings):
    # The last width is beyond the sliding window of one family, the first below the length of a sentence.
    sentences = [f"The {j} said that {p} came" for j in JOBS for p in ("she", "he")]
    widths = (3, 30, 70)
    requests = [Request(f"{s}/{w}", "", (Option(s, width=w), Option(s))) for s in sentences for w in widths]
    for request, response in zip(requests, ready(name, torch.float64).answer(requests, **settings), strict=True):
        sentence, width = request.id.rsplit("/", 1)
        expected = [behind_padding(name, sentence, w) for w in (int(width), 0)]
        agree(response.logprobs, expected, WITHIN[torch.float64])


def test_padding_counts_against_the_window():
    request = Request("a", "", (Option("The nurse came", width=200),))
    with pytest.raises(ScoringError, match=r"^a needs 200 .*96"):
        model("llama").answer([request])


@pytest.mark.parametrize("settings", [{}, {"exact": True}])
def test_a_masked_model_takes_no_notice_of_a_width(settings):
    made = model("bert", **settings)
    one, other = made.answer([Request(f"{w}", "", (Option("The nurse came", width=w),)) for w in (0, 50)])
    assert one.logprobs == other.logprobs


def test_a_head_that_cannot_be_called_apart_is_left_to_the_network(monkeypatch):
    made = network("llama")
    plain = made.forward

    def scaled(*args, **kwargs):
        result = plain(*args, **kwargs)
        result.logits = result.logits * 2
        return result

    monkeypatch.setattr(made, "forward", scaled)
    odd = Model(made, tokenizer("llama"), kind="causal")
    assert not odd._network.head_apart
    (response,) = odd.answer([Request("a", "The nurse", candidates=("she",))])
    ids = tokenizer("llama")("The nurse", return_tensors="pt").input_ids
    expected = torch.log_softmax(plain(input_ids=ids).logits[0, -1] * 2, -1)[odd.tokens.words(("she",))[0]].item()
    assert response.candidate_logprobs[0] == pytest.approx(expected, abs=1e-5)


def test_the_vocabulary_is_computed_in_chunks_at_read_positions_only(monkeypatch):
    made = model("llama")
    requests = [a for a in causal_requests() if a.options]
    expected = made.answer(requests)
    seen = []
    made._network.head.register_forward_hook(lambda _module, _inputs, logits: seen.append(logits[..., 0].numel()))
    monkeypatch.setitem(LOGITS, "cpu", 5 * made._network.config.vocab_size)
    made.stats.read = 0
    for one, other in zip(made.answer(requests, batch_size=4), expected, strict=True):
        agree(one.logprobs, other.logprobs, 1e-5)
    assert max(seen) <= 5
    rows = -(-len(seen) // 2)
    assert made.stats.read <= sum(seen) <= made.stats.read + 4 * rows


@pytest.mark.parametrize("name", ["llama", "gpt2", "gemma2", "cohere", "bert", "roberta"])
@pytest.mark.parametrize("tile", [1, 100, 10**6])
def test_the_vocabulary_in_tiles_gives_what_it_gives_at_once(name, tile, monkeypatch):
    made = ready(name, torch.float64)
    requests = masked_requests() if made.kind == "masked" else [a for a in causal_requests() if not a.max_new]
    monkeypatch.setitem(TILE, "cpu", None)
    expected = made.answer(requests)
    monkeypatch.setitem(TILE, "cpu", tile)
    assert len(made._network._tiles()) == -(-made._network.config.vocab_size // tile)
    for one, other in zip(made.answer(requests), expected, strict=True):
        agree([*one.logprobs, one.candidate_logprobs], [*other.logprobs, other.candidate_logprobs], 1e-12)


def test_a_tile_of_tokens_that_cannot_be_leaves_the_others_finite(monkeypatch):
    made = Model(copy.deepcopy(network("bert")), text("bert"), kind="masked")
    monkeypatch.setitem(TILE, "cpu", 1)
    before = [x for response in made.answer(masked_requests()) for option in response.logprobs for x in option]
    made._network.head.bias.data[text("bert").mask_token_id] = -math.inf
    after = [x for response in made.answer(masked_requests()) for option in response.logprobs for x in option]
    assert all(a < b < 0 for a, b in zip(before, after, strict=True))


@pytest.mark.parametrize("name", ["llama", "opt"])
def test_a_models_own_sampling_settings_do_not_count(name):
    made = network(name)
    made.generation_config.update(do_sample=True, temperature=0.6, top_p=0.1, repetition_penalty=5.0, max_length=3)
    requests = [a for a in causal_requests() if a.max_new]
    result = Model(made, tokenizer(FAMILIES[name][2]), kind="causal").answer(requests)
    assert [r.text for r in result] == [plain_causal(name)[a.id][2] for a in requests]


@pytest.mark.parametrize("size", [1, 2, 64])
def test_drawn_texts_depend_on_the_seed_and_not_on_the_batch(size):
    made = ready("llama", torch.float64)
    requests = [Request(f"{n}", f"The {j}", max_new=6) for n, j in enumerate(JOBS * 3)]
    drawn = [r.text for r in made.answer(requests, decoding=Decoding(temperature=1.3, top_p=0.95, top_k=100))]
    again = made.answer(requests[::-1], batch_size=size, decoding=Decoding(temperature=1.3, top_p=0.95, top_k=100))
    assert [r.text for r in again][::-1] == drawn
    other = [r.text for r in made.answer(requests, decoding=Decoding(temperature=1.3, top_p=0.95, top_k=100, seed=1))]
    assert other != drawn
    assert len(set(drawn)) > 3


def test_drawn_tokens_follow_their_distribution():
    made = model("llama")
    requests = [Request(f"{n}", "The nurse", max_new=1) for n in range(3000)]
    texts = [r.text for r in made.answer(requests, decoding=Decoding(temperature=2.0))]
    ids = tokenizer("llama")("The nurse", return_tensors="pt").input_ids
    shares = torch.softmax(made.network(ids).logits[0, -1].double() / 2, -1)
    likely = shares.topk(3)
    for share, token in zip(likely.values.tolist(), likely.indices.tolist(), strict=True):
        shown = tokenizer("llama").decode([*ids[0].tolist(), token])[len(tokenizer("llama").decode(ids[0])) :]
        spread = math.sqrt(share * (1 - share) / len(texts))
        assert abs(texts.count(shown) / len(texts) - share) < 5 * spread


def test_a_cut_to_one_token_is_greedy():
    made = ready("gpt2", torch.float64)
    requests = [a for a in causal_requests() if a.max_new]
    for cut in (Decoding(top_k=1), Decoding(top_p=1e-9), Decoding(temperature=1e-6)):
        assert made.answer(requests, decoding=cut) == made.answer(requests)


@pytest.mark.mirror
@pytest.mark.parametrize("name", ["stories260K"])
def test_no_spelling_of_a_banned_word_is_generated(name):
    made = ready(name, torch.float32)
    requests = [Request("a", "Lily was sad. Then", max_new=40), Request("b", "Tim had a ball. Then", max_new=40)]
    free = " ".join(r.text for r in made.answer(requests))
    assert " she " in free or " he " in free
    for response in made.answer(requests, decoding=Decoding(banned=("she", "he"))):
        assert not {"she", "he", "She", "He"} & set(response.text.split())


@pytest.mark.mirror
def test_settings_override_how_much_is_generated():
    made = ready("stories260K", torch.float32)
    requests = [Request("a", "Once upon a time", max_new=3)]
    short, long = (made.answer(requests, decoding=Decoding(max_new=n))[0].text for n in (None, 20))
    assert long.startswith(short)
    assert len(long) > 2 * len(short)


@pytest.mark.mirror
def test_greedy_text_of_the_real_model_is_the_published_sample():
    (response,) = ready("stories260K", torch.float32).answer([Request("a", "", max_new=30)])
    assert response.text.lstrip().startswith("Once upon a time, there was a little girl named Lily.")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"temperature": 0.0}, "The temperature is 0.0; give a positive one, or none for greedy decoding"),
        ({"top_p": 0.0}, r"top_p.*\b0.0\b.*\b0\b.*\b1\b"),
        ({"top_k": 0}, r"top_k.*\b0\b.*\b1\b"),
    ],
)
def test_settings_that_mean_nothing_are_refused(settings, said):
    with pytest.raises(ScoringError, match=said):
        Decoding(**settings)


def test_replies_are_told_as_they_come():
    outcome, told = [], []
    requests = causal_requests()
    result = model("llama").answer(requests, on_response=outcome.append, progress=lambda *counts: told.append(counts))
    assert sorted(map(repr, outcome)) == sorted(map(repr, result))
    assert told[-1] == (len(requests), len(requests))
    assert [done for done, _ in told] == sorted(done for done, _ in told)


@pytest.mark.fault(36)
@pytest.mark.parametrize("name", ["gpt2", "opt", "llama", "neox"])
def test_padding_is_never_seen(name, monkeypatch):
    made = ready(name, torch.float64)
    requests = [a for a in causal_requests() if a.options]
    expected = made.answer(requests, share_contexts=False)
    # An id beyond the vocabulary is what a tokenizer with a padding token added later has.
    for pad in (0, 7, made._network.config.vocab_size):
        monkeypatch.setattr(Tokens, "pad", pad)
        for one, other in zip(made.answer(requests, share_contexts=False), expected, strict=True):
            agree(one.logprobs, other.logprobs, 1e-9)


@pytest.mark.fault(36)
@pytest.mark.parametrize("name", ["gpt2", "bert"])
def test_a_token_that_the_network_does_not_know_is_refused(name):
    words = copy.deepcopy(text(name))
    words.add_tokens([f"made{n}" for n in range(2000)])
    made = Model(network(name), words, kind="masked" if name == "bert" else "causal")
    size = made.tokens.size
    said = f"the number {len(words) - 1}, but the model knows {size} tokens; give the model's own tokenizer"
    with pytest.raises(ScoringError, match=f"'made1999'.*{said}"):
        made.answer(
            [Request("known", "", (Option("The nurse left."),)), Request("new", "", (Option("A made1999 left"),))]
        )
    if name == "gpt2":
        with pytest.raises(ScoringError, match=said):
            made.answer([Request("new", "A made1999", max_new=2)])
        # The last token of a text is asked for and not read, so only its probability can be missed.
        made.tokens.size = None
        with pytest.raises(ScoringError, match=r"^last: .* gave nan as a log-probability"):
            made.answer([Request("last", "", (Option("The nurse made1999"),))])
        made.tokens.size = size
        padded = Option("The nurse left.", width=20)
        made.tokens.padding = size
        with pytest.raises(ScoringError, match=f"{size}"):
            made.answer([Request("pads", "", (padded,))])


@pytest.mark.fault(38)
@pytest.mark.parametrize("name", ["llama", "gpt2", "bert", "roberta"])
def test_a_sentence_longer_than_the_networks_window_is_refused_or_marked(name):
    made = model(name)
    assert made.tokens.window == 96
    long = Request("long/1", "The nurse came. " * 60 + "Then", (Option(" she left"),))
    with pytest.raises(ScoringError, match=r"long/1.*\d+.*\b96\b"):
        made.answer([long])
    (response,) = made.answer([long, Request("short", "The nurse", (Option(" she left"),))], truncate=True)[:1]
    assert made.truncated == {"long/1"}
    assert all(np.isfinite(response.logprobs[0]))


@pytest.mark.fault(39)
@pytest.mark.parametrize("name", ["llama", "bert"])
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_weights_that_are_no_numbers_stop_the_run(name, value):
    made = model(name)
    with torch.no_grad():
        made.network.get_input_embeddings().weight[20:] = value
    request = Request("unstereo/3", "", (Option("The nurse said that she came."),))
    with pytest.raises(ScoringError, match=f"unstereo/3.*{name}"):
        made.answer([request])


@pytest.mark.fault(39)
def test_a_token_without_probability_stops_the_run(monkeypatch):
    made = model("llama")
    plain = made._network.head.forward
    banned = made.tokens.words(("she",))[0]
    monkeypatch.setattr(
        made._network.head, "forward", lambda h: plain(h).index_fill(-1, torch.tensor([banned]), -math.inf)
    )
    assert made.answer([Request("a", "The nurse", candidates=("he",))])
    with pytest.raises(ScoringError, match=r"^a: llama .*-inf"):
        made.answer([Request("a", "The nurse", candidates=("she",))])


@pytest.mark.fault(39)
def test_logits_that_are_no_numbers_are_not_decoded():
    made = model("llama")
    with torch.no_grad():
        made.network.get_input_embeddings().weight[20:] = math.nan
    with pytest.raises(ScoringError, match="neutral/1"):
        made.answer([Request("neutral/1", "The nurse", max_new=3)])


OOM = "CUDA out of memory. Tried to allocate 3.50 GiB. GPU 0 has a total capacity of 1 GiB."


def cramped(made, monkeypatch, rows, error=torch.cuda.OutOfMemoryError, said=OOM):
    """Lets a model run out of memory beyond so many rows; returns the batches tried."""
    tried, plain = [], made.network.forward

    def forward(*args, **kwargs):
        tried.append(len(kwargs["input_ids"]))
        if tried[-1] > rows:
            raise error(said)
        return plain(*args, **kwargs)

    monkeypatch.setattr(made.network, "forward", forward)
    return tried


@pytest.mark.fault(40)
@pytest.mark.parametrize("name", ["llama", "bert"])
def test_a_batch_that_runs_out_of_memory_is_halved_and_gives_the_same_numbers(name, monkeypatch):
    made = model(name)
    requests = masked_requests() if name == "bert" else causal_requests()
    expected = made.answer(requests, share_contexts=False)
    tried = cramped(made, monkeypatch, 3)
    for one, other in zip(made.answer(requests, share_contexts=False), expected, strict=True):
        agree(one.logprobs, other.logprobs, 1e-5)
        assert one.text == other.text
    assert max(tried) > 3
    assert tried.count(max(tried)) == 1


@pytest.mark.fault(40)
@pytest.mark.parametrize(
    "wanted", [Request("a", "The nurse", candidates=("she",)), Request("a", "The nurse", max_new=3)]
)
def test_one_sequence_that_does_not_fit_says_what_memory_is_needed(wanted, monkeypatch):
    made = model("llama")
    cramped(made, monkeypatch, 0)
    said = r"^\d+ tokens at one time do not fit .* GiB in float32 \(Tried to allocate 3.50 GiB\); free that much"
    with pytest.raises(ScoringError, match=said):
        made.answer([wanted])


@pytest.mark.fault(40)
@pytest.mark.parametrize(
    ("error", "said"),
    [
        (torch.OutOfMemoryError, OOM),
        (MemoryError, ""),
        (RuntimeError, "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
        (RuntimeError, "[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes."),
    ],
)
def test_every_lack_of_memory_is_taken_for_one(error, said, monkeypatch):
    made = model("llama")
    requests = [a for a in causal_requests() if a.options]
    expected = made.answer(requests, share_contexts=False, batch_tokens=10**4)
    tried = cramped(made, monkeypatch, 3, error, said)
    for one, other in zip(made.answer(requests, share_contexts=False, batch_tokens=10**4), expected, strict=True):
        agree(one.logprobs, other.logprobs, 1e-5)
    assert max(tried) > 3


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_weights_that_lie_elsewhere_until_they_are_called_in_give_the_same_numbers():
    accelerate = pytest.importorskip("accelerate")
    away = accelerate.cpu_offload(network("llama"), torch.device("cpu"))
    assert away.device.type == "meta"
    made = Model(away, tokenizer("llama"), kind="causal", name="llama")
    assert made.device.type == "cpu"
    assert made._network.head_apart
    assert (made.measurements.shares(64), made.measurements.gaps(64)) == (64, True)
    for one, other in zip(made.answer(causal_requests()), model("llama").answer(causal_requests()), strict=True):
        agree(one.logprobs, other.logprobs, 1e-5)
        assert one.text == other.text


@pytest.mark.fault(40)
def test_an_error_of_another_kind_is_not_taken_for_a_lack_of_memory(monkeypatch):
    made = model("llama")
    tried = cramped(made, monkeypatch, 0, ZeroDivisionError)
    with pytest.raises(ZeroDivisionError):
        made.answer([Request("a", "The nurse", candidates=("she",))])
    assert tried == [1]


@pytest.fixture
def saved(tmp_path):
    """Saves a family's tiny model and its tokenizer."""

    def save(name, **config):
        path = tmp_path / name
        network(name).save_pretrained(path)
        tokenizer(FAMILIES[name][2]).save_pretrained(path)
        settings = json.loads((path / "config.json").read_text())
        (path / "config.json").write_text(json.dumps(settings | config))
        return path

    return save


@pytest.mark.parametrize("name", ["gpt2", "llama", "bert", "roberta"])
def test_a_saved_model_answers_as_before(name, saved):
    loaded = load(saved(name))
    assert loaded.kind == ("masked" if name in MASKED else "causal")
    assert loaded.dtype == "float32"
    assert len(loaded.revision) == 64
    assert loaded.environment["torch"] == torch.__version__
    assert loaded.stats.load_seconds > 0
    requests = [a for a in (masked_requests() if name in MASKED else causal_requests()) if a.options]
    for one, other in zip(loaded.answer(requests), model(name).answer(requests), strict=True):
        agree(one.logprobs, other.logprobs, 1e-6)


def test_a_revision_tells_weights_apart_and_a_copy_not(saved, tmp_path):
    path = saved("llama")
    first = checkpoint.identity(path)
    copy = shutil.copytree(path, tmp_path / "copy")
    assert checkpoint.identity(copy) == first
    weights = bytearray((copy / "model.safetensors").read_bytes())
    weights[-1] ^= 1
    (copy / "model.safetensors").write_bytes(weights)
    assert checkpoint.identity(copy) != first
    commit = shutil.copytree(path, tmp_path / "snapshots" / ("0a" * 20))
    assert checkpoint.identity(commit, "org/model") == commit.name  # as it was fetched by its name
    assert checkpoint.identity(commit, str(commit)) == checkpoint.identity(commit) == first


def test_half_precision_is_read_as_float32_on_a_cpu_unless_asked_for(saved):
    path = saved("llama", dtype="bfloat16")
    assert load(path, device="cpu").dtype == "float32"
    assert load(path, device="cpu", dtype="bfloat16").dtype == "bfloat16"
    assert load(path, device="cpu", dtype="bfloat16", exact=True).dtype == "float32"
    assert checkpoint.dtype("auto", {"dtype": "bfloat16"}, torch.device("cuda"), exact=False) == torch.bfloat16
    with pytest.raises(ScoringError, match="'int8'"):
        load(path, dtype="int8")


@pytest.mark.fault(44)
@pytest.mark.parametrize(
    ("config", "said"),
    [
        (
            {"architectures": ["T5ForConditionalGeneration"], "model_type": "t5", "is_encoder_decoder": True},
            "is an encoder-decoder, which has no head for the next or a masked token; give a causal",
        ),
        (
            {"architectures": ["BartForConditionalGeneration"], "model_type": "bart", "is_encoder_decoder": True},
            "is an encoder-decoder",
        ),
        (
            {"architectures": ["ViTForImageClassification"], "model_type": "vit"},
            "is a ViTForImageClassification, which",
        ),
        (
            {"architectures": ["LlavaForConditionalGeneration"], "model_type": "llava"},
            "is a LlavaForConditionalGenerat",
        ),
        ({"architectures": ["BertModel"], "model_type": "bert"}, "BertModel"),
        ({"model_type": "bert"}, "is a model of unnamed architecture"),
    ],
)
def test_a_model_that_is_no_language_model_is_refused_in_a_sentence(config, said, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(ScoringError, match=said):
        load(tmp_path)


@pytest.mark.fault(44)
def test_a_checkpoint_without_its_head_is_refused(tmp_path):
    transformers.BertModel(network("bert").config).save_pretrained(tmp_path)
    settings = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(settings | {"architectures": ["BertForMaskedLM"]}))
    with pytest.raises(ScoringError, match=r"lack \d+ .*cls"):
        load(tmp_path)


def test_a_folder_without_a_model_is_refused(tmp_path):
    with pytest.raises(ScoringError, match=r"no config.json"):
        load(tmp_path)
    (tmp_path / "adapter_config.json").write_text("{}")
    with pytest.raises(ScoringError, match="is an adapter;"):
        load(tmp_path)


def test_the_file_that_is_broken_or_missing_is_named(tmp_path):
    cut = shutil.copytree(BUNDLED["tiny-causal"], tmp_path / "cut")
    weights = cut / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(ScoringError, match=r"cut/model\.safetensors"):
        load(cut)
    without = shutil.copytree(BUNDLED["tiny-causal"], tmp_path / "without")
    for path in without.glob("tokenizer*"):
        path.unlink()
    with pytest.raises(ScoringError, match=r"without' .*tokenizer"):
        load(without)


def test_a_name_that_cannot_be_had_is_refused(monkeypatch):
    def offline(*_, **__):
        raise OSError("We could not connect. Try again.")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", offline)
    said = r"'org/none' is neither a folder nor a model that the Hub gives at revision 'v1' \(We could not"
    with pytest.raises(ScoringError, match=said):
        load("org/none", revision="v1")
    with pytest.raises(ScoringError, match=r"'tiny-casual'.*'tiny-causal'"):
        load("tiny-casual")


@pytest.mark.parametrize("name", ["./none", "/none", "~/none", "some/folder/none"])
def test_a_path_without_a_folder_is_no_name_on_the_hub(name):
    with pytest.raises(ScoringError, match=f"'{name}'"):
        load(name)


@pytest.mark.fault(46)
def test_code_that_comes_with_a_model_runs_only_when_trusted_and_pinned(tmp_path):
    config = {"model_type": "own", "auto_map": {"AutoConfig": "own.C", "AutoModelForCausalLM": "own.M"}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "own.py").write_text("raise SystemExit('this code must not run')")
    with pytest.raises(ScoringError, match="--trust"):
        load(tmp_path)
    for revision in (None, "main", "abc123"):
        with pytest.raises(ScoringError, match="commit of 40"):
            checkpoint.check_code(tmp_path, config, "org/own", revision, trusted=True)
    checkpoint.check_code(tmp_path, config, "org/own", "0a" * 20, trusted=True)


@pytest.mark.fault(46)
def test_code_beside_a_model_that_transformers_knows_is_not_needed(saved):
    path = saved("llama", auto_map={"AutoModelForCausalLM": "own.M"})
    (path / "own.py").write_text("raise SystemExit('this code must not run')")
    assert load(path).kind == "causal"


@pytest.mark.fault(46)
def test_pickled_weights_are_read_only_when_allowed(saved):
    path = saved("llama")
    expected = load(path).answer(causal_requests()[:3])
    torch.save(network("llama").state_dict(), path / "pytorch_model.bin")
    (path / "model.safetensors").unlink()
    with pytest.raises(ScoringError, match=r"pytorch_model\.bin"):
        load(path)
    assert repr(load(path, allow_pickle=True).answer(causal_requests()[:3])) == repr(expected)
    (path / "pytorch_model.bin").unlink()
    with pytest.raises(ScoringError, match=r"\*.safetensors files"):
        load(path)


def test_truncated_weights_are_refused(saved):
    path = saved("llama")
    weights = (path / "model.safetensors").read_bytes()
    (path / "model.safetensors").write_bytes(weights[: len(weights) // 2])
    with pytest.raises(ScoringError, match=r"model\.safetensors"):
        load(path)


@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing. is deprecated:FutureWarning")
@pytest.mark.parametrize("name", ["llama", "bert"])
def test_an_adapter_changes_the_answers_as_its_merged_weights_do(name, saved, tmp_path):
    peft = pytest.importorskip("peft")
    path = saved(name)
    targets = ["query", "value"] if name == "bert" else ["q_proj", "v_proj", "down_proj"]
    settings = peft.LoraConfig(r=4, target_modules=targets, init_lora_weights=False)
    torch.manual_seed(1)
    wrapped = peft.get_peft_model(network(name), settings)
    wrapped.save_pretrained(tmp_path / "adapter")
    adapted = load(path, adapter=tmp_path / "adapter")
    assert adapted.adapter.startswith(f"{tmp_path / 'adapter'}@")
    merged = Model(wrapped.merge_and_unload(), tokenizer(name), kind=adapted.kind)
    requests = masked_requests() if name == "bert" else causal_requests()
    base = load(path).answer(requests)
    moved = 0.0
    for one, other, before in zip(adapted.answer(requests), merged.answer(requests), base, strict=True):
        agree(one.logprobs, other.logprobs, 1e-4)
        assert one.text == other.text
        moved = max([moved, *(abs(a[0] - b[0]) for a, b in zip(one.logprobs, before.logprobs, strict=True))])
    assert moved > 0.01


def test_an_adapter_that_does_not_fit_is_refused(saved, tmp_path):
    pytest.importorskip("peft")
    path = saved("llama")
    with pytest.raises(ScoringError, match=r"adapter_config.*PEFT"):
        load(path, adapter=tmp_path)
    with pytest.raises(ScoringError, match="whole model"):
        load(path, adapter=path)


def test_quantization_without_its_package_is_refused(monkeypatch):
    monkeypatch.setattr(checkpoint.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(ScoringError, match="package bitsandbytes"):
        checkpoint.quantized("4bit", torch.float32)
    with pytest.raises(ScoringError, match="'2bit'"):
        checkpoint.quantized("2bit", torch.float32)


def test_a_narrow_network_takes_more_tokens_in_a_batch(monkeypatch):
    made, most = model("llama"), []
    requests = [
        Request(str(n), "", (Option(f"The {JOBS[n % 3]} said {'so ' * (n % 40)}that {n} came."),)) for n in range(120)
    ]
    score = made._score
    monkeypatch.setattr(made, "_score", lambda rows, **more: most.append(sum(map(len, rows))) or score(rows, **more))
    result = made.answer(requests)
    assert 1024 < max(most) <= 4096
    most.clear()
    monkeypatch.setattr("scoring.inference.model.CACHED", 0)
    for one, other in zip(result, made.answer(requests), strict=True):
        agree(one.logprobs, other.logprobs, 1e-5)
    assert max(most) <= 1024
