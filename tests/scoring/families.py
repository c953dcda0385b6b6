"""Small random networks of every architecture of transformers, requests to them, and the plain answers.

``families.toml`` has the sizes. :func:`build` makes a network, :func:`examine` compares the answers of a
:class:`scoring.inference.model.Model` with a loop over single sequences without padding.
"""

from __future__ import annotations

import functools
import inspect
import math
import random
import re
import tomllib
import warnings
from dataclasses import dataclass, field
from pathlib import Path

import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import CONFIG_MAPPING, PreTrainedTokenizerFast
from transformers.models.auto import modeling_auto

from scoring.inference.model import Model
from scoring.types import Option, Request, ScoringError

SETTINGS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())
#: Families without a test, by kind, with the reason.
LEFT_OUT = SETTINGS["left_out"]
#: Settings of single families that change numbers after the head or at some positions: name to kind, family, settings.
VARIANTS = SETTINGS["variants"]
KINDS = {
    "causal": (modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, transformers.AutoModelForCausalLM),
    "masked": (modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES, transformers.AutoModelForMaskedLM),
}
#: Families of every `make test`, and of a GPU; `.ci/run` sets PROBES_ALL_FAMILIES and takes all.
FAST = {
    "causal": "bart bert bigbird_pegasus bloom deepseek_v3 falcon_mamba gemma2 gemma3_text gpt2 gpt_neo gpt_neox "
    "granite lfm2 llama llama4_text mamba2 mistral mixtral mpt opt phi3 qwen3_next rwkv xglm".split(),
    "masked": "bert convbert deberta-v2 fnet longformer mobilebert modernbert yoso".split(),
}
#: More than the 2,048 tokens of the vocabulary that a CPU computes at one time.
VOCABULARY = 2400
SPECIAL = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "mask_token": "<mask>", "unk_token": "<unk>"}
#: The largest difference in nats of a log-probability in float32.
CLOSE = 1e-3
#: A greedy continuation may take another token where the plain loop has two this close (in nats).
TIE = 2e-3


def names(kind):
    """The families of a kind that have a test, in order."""
    return sorted(set(KINDS[kind][0]) - set(LEFT_OUT[kind]))


def build(name, kind, dtype=torch.float32, **more):
    """A small network of a family or variant with random weights, the same at every call; ``more`` are settings."""
    variant = VARIANTS.get(name, {})
    family = variant.get("family", name)
    config_class = CONFIG_MAPPING[family]
    known = inspect.signature(config_class.__init__).parameters
    common = {key: value for key, value in SETTINGS["common"].items() if key in known}
    common |= {"is_decoder": True} if kind == "causal" and "is_decoder" in known else {}
    settings = common | SETTINGS[kind].get(family, {}) | variant.get("settings", {}) | more
    settings = {key: value for key, value in settings.items() if value != "default"}
    settings = {key: None if value == "none" else value for key, value in settings.items()}
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        network = KINDS[kind][1].from_config(config_class(**settings)).float().eval()
    _vary(network)
    if "language" in SETTINGS["calls"].get(family, ()):
        network.set_default_language("en_XX")
    return network.to(dtype)


@torch.no_grad()
def _vary(network):
    """Makes biases, gains and small matrices matter: many families begin with ones, zeros or almost zeros."""
    generator = torch.Generator().manual_seed(1)
    for weight in network.parameters():
        noise = torch.randn(weight.shape, generator=generator)
        if weight.dim() < 2:
            weight += 0.1 * noise
        elif weight.numel() > 1 and weight.std() < 0.1:
            weight += 0.15 * noise


@functools.cache
def tokenizer(kind):
    """A tokenizer of words: the word ``w17`` is the token 17."""
    words = [*SPECIAL.values(), "a", *(f"w{number}" for number in range(6, VOCABULARY))]
    made = Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    single = "<s> $A </s>" if kind == "masked" else "<s> $A"
    made.post_processor = processors.TemplateProcessing(single=single, special_tokens=[("<s>", 1), ("</s>", 2)])
    more = {"cls_token": "<s>", "sep_token": "</s>"} if kind == "masked" else {}
    return PreTrainedTokenizerFast(tokenizer_object=made, **SPECIAL, **more)


PAD, BOS, EOS, MASK = range(4)


def _words(length, seed):
    return random.Random(seed).choices(range(10, VOCABULARY), k=length)


def _text(ids):
    return " ".join(f"w{number}" for number in ids)


def _option(ids, **more):
    return Option(" " + _text(ids), **more)


#: Lengths: contexts with the lengths of their options, whole sentences, contexts of candidates, prompts.
SHARED = {"shared": (40, range(3, 31, 2)), "long": (232, (10, 16, 21, 27))}
SENTENCES = (3, 5, 9, 14, 22, 40, 61, 90)
CONTEXTS = (4, 17, 33)
WIDE = (4, 7, 12)
WIDTH = 15
PROMPTS = (3, 9, 20)
NEW = 8
MASKED = (3, 6, 12, 25, 47, 80, 150, 262)
#: Words of the masked sentences that are scored, as shares of the length.
SCORED = (0.0, 0.4, 0.99)


@functools.cache
def requests(kind):
    """Requests by what they ask for: shared contexts, sentences, candidates, padding on the left, continuations."""
    if kind == "masked":
        return {"sentences": [*map(_masked, MASKED)], "spans": [_masked(length, "left") for length in MASKED[1:6]]}
    asked = {
        name: [Request(name, _text(_words(length, length)), tuple(_option(_words(n, n)) for n in options))]
        for name, (length, options) in SHARED.items()
    }
    asked["sentences"] = [
        Request(
            f"sentence-{n}",
            "",
            (
                Option(
                    _text(_words(n, n)),
                ),
            ),
        )
        for n in SENTENCES
    ]
    candidates = tuple(f"w{number}" for number in (10, 500, 2047, 2048, 2049, 2399))
    asked["candidates"] = [Request(f"candidates-{n}", _text(_words(n, n)), (), candidates) for n in CONTEXTS]
    asked["left"] = [Request(f"left-{n}", "", (Option(_text(_words(n, n)), width=WIDTH),)) for n in WIDE]
    asked["continued"] = [Request(f"continued-{n}", _text(_words(n, n)), max_new=NEW) for n in PROMPTS]
    return asked


def _masked(length, mask="each"):
    """A sentence of which three words are scored one at a time, or one span of three words from left to right."""
    text = _text(ids := _words(length, length))
    ends = [len(_text(ids[: number + 1])) for number in range(length)]
    starts = [0, *(end + 1 for end in ends[:-1])]
    chosen = sorted({int(share * length) for share in SCORED})
    spans = tuple((starts[n], ends[n]) for n in chosen)
    if mask == "left":
        spans = ((starts[chosen[1]], ends[chosen[1] + 2]),)
    return Request(f"{mask}-{length}", "", (Option(text, spans, mask),))


#: Padding on the left is asked with whole sentences of other lengths.
APART = ("sentences", "left")


class Plain:
    """The reference: one network, one sequence at a time, without padding, and all logits."""

    def __init__(self, network):
        self.network = network
        self.known = {}

    @torch.inference_mode()
    def logprobs(self, ids, hidden=0):
        """Log-probabilities [tokens, vocabulary]; ``hidden`` tokens after the first are masked."""
        key = tuple(ids), hidden
        if key not in self.known:
            mask = torch.ones(1, len(ids), dtype=torch.long)
            mask[:, 1 : 1 + hidden] = 0
            inputs = {"input_ids": torch.tensor([ids]), "attention_mask": mask}
            inputs = {name: values.to(self.network.device) for name, values in inputs.items()}
            logits = self.network(**inputs).logits[0, : len(ids)]
            self.known[key] = torch.log_softmax(logits.float(), -1).cpu()
        return self.known[key]

    def following(self, ids, start, hidden=0):
        """Log-probabilities of the tokens from ``start`` on."""
        values = self.logprobs(ids, hidden)
        return [values[n - 1, ids[n]].item() for n in range(start, len(ids))]

    def scores(self, request):
        """What a causal or masked model answers to a request, as one list of numbers by option or for candidates."""
        numbers = [[int(word[1:]) for word in option.text.split()] for option in request.options]
        if request.options and request.options[0].spans:
            return [self._masked(request.options[0], numbers[0])]
        context = [BOS, *(int(word[1:]) for word in request.context.split())]
        if request.candidates:
            values = self.logprobs(context)[-1]
            return [[values[int(word[1:])].item() for word in request.candidates]]
        pads = [max(option.width - len(ids), 0) for option, ids in zip(request.options, numbers, strict=True)]
        return [
            self.following(context + [PAD] * pad + ids, len(context) + pad, pad)
            for ids, pad in zip(numbers, pads, strict=True)
        ]

    def _masked(self, option, ids):
        result = []
        for low, high in option.spans:
            first, after = option.text[:low].count(" "), option.text[:high].count(" ") + 1
            for place in range(first, after):
                rest = ids[place + 1 :] if option.mask == "each" else ids[after:]
                values = self.logprobs([BOS, *ids[:place], MASK, *rest, EOS])
                result.append(values[place + 1, ids[place]].item())
        return result

    def continuation(self, request, words):
        """How far continued words are from greedy ones: 0, or how much less likely the first other token is.

        A text has no special tokens, so the greedy ones are passed over.
        """
        ids = [BOS, *(int(word[1:]) for word in request.context.split())]
        taken = [tokenizer("causal").convert_tokens_to_ids(word) for word in words]
        for _ in range(request.max_new):
            values = self.logprobs(ids)[-1]
            best = values.argmax().item()
            if best == EOS:
                break
            ids = [*ids, best]
            if best >= len(SPECIAL):
                # A text that ends too early may also have a special token here, which it does not show.
                token = taken.pop(0) if taken else values[: len(SPECIAL)].argmax().item()
                if token != best:
                    return (values[best] - values[token]).item()
        return math.inf if taken else 0.0


@dataclass
class Finding:
    """What an examination found: by kind of request the largest difference, the sentence of the refusal, or a crash."""

    name: str
    kind: str
    parameters: int = 0
    differences: dict[str, float] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    crashed: dict[str, str] = field(default_factory=dict)
    bounds: dict[str, float] = field(default_factory=dict)
    decided: dict[str, str] = field(default_factory=dict)
    not_half: str = ""

    @property
    def wrong(self):
        """What differs by more than its bound."""
        return {key: value for key, value in self.differences.items() if not value <= self.bounds[key]}

    @property
    def largest(self):
        """The largest difference in float32, in nats."""
        values = [value for key, value in self.differences.items() if not key.startswith("half ")]
        return max(values, default=math.nan)

    @property
    def largest_half(self):
        """The largest difference in bfloat16, in nats."""
        values = [value for key, value in self.differences.items() if key.startswith("half ")]
        return max(values, default=math.nan)


def examine(name, kind, *, exact=False, half=True):
    """Compares the answers of a family or variant with the plain loop, in float32 and in bfloat16."""
    finding, plain = examine_float32(name, kind, build(name, kind), exact=exact)
    if half and not exact and finding.differences:
        examine_coarse(finding, plain, build(name, kind, torch.bfloat16), "half ")
    return finding


def examine_float32(name, kind, network, *, exact=False):
    """What the answers of a network in float32 are found to be, and the plain loop that they are compared with."""
    finding = Finding(name, kind, sum(weight.numel() for weight in network.parameters()))
    plain = Plain(network)
    for aspect, result in _replies(finding, name, kind, network, exact, "").items():
        finding.bounds[aspect] = TIE if aspect == "continued" else CLOSE
        finding.differences[aspect] = max(_differences(plain, requests(kind)[aspect], result))
    return finding, plain


def examine_coarse(finding, plain, network, prefix):
    """Adds what the answers of the same network in a coarser form are found to be, under names with a prefix.

    The bound of a difference is twice what that form changes in the plain loop itself (the larger difference between
    the plain loops of this network and of the one in float32, over all numbers), plus 0.02.
    """
    name, kind = finding.name, finding.kind
    coarse_plain = Plain(network)
    asked = {aspect: some for aspect, some in requests(kind).items() if aspect != "continued"}
    try:
        pairs = [(plain.scores(request), coarse_plain.scores(request)) for some in asked.values() for request in some]
    except Exception as error:  # The code of the family does not run in this form, so a refusal is right.
        finding.not_half = _shown(error)
        _replies(finding, name, kind, network, False, prefix)
        return
    rounding = max(_distance(one, other) for one, other in pairs)
    for aspect, result in _replies(finding, name, kind, network, False, prefix).items():
        if aspect != "continued":
            finding.bounds[prefix + aspect] = 2 * rounding + 0.02
            finding.differences[prefix + aspect] = max(_differences(coarse_plain, asked[aspect], result))


def _distance(one, other):
    if [len(values) for values in one] != [len(values) for values in other]:
        return math.inf
    pairs = [(a, b) for first, second in zip(one, other, strict=True) for a, b in zip(first, second, strict=True)]
    return max((abs(a - b) if math.isfinite(a - b) else math.inf) for a, b in pairs)


def _differences(plain, asked, replies):
    for request, reply in zip(asked * (len(replies) // len(asked)), replies, strict=True):
        if request.max_new:
            yield plain.continuation(request, reply.text.split())
        else:
            result = [reply.candidate_logprobs] if request.candidates else reply.logprobs
            yield _distance(result, plain.scores(request))


def _replies(finding, name, kind, network, exact, prefix):
    """Responses by kind of request: of all requests at one time, or of each kind apart when not all are answered."""
    try:
        model = Model(network, tokenizer(kind), kind=kind, name=name, exact=exact)
    except ScoringError as error:
        finding.refused[prefix + "all"] = str(error)
        return {}
    except Exception as error:
        finding.crashed[prefix + "all"] = _shown(error)
        return {}
    asked = requests(kind)
    # A model may answer all of a call without sharing when one request is padded on the left, so those are apart.
    calls = [[aspect for aspect in asked if aspect != "left"], [aspect for aspect in asked if aspect in APART]]
    result = {}
    try:
        for aspects in calls if kind == "causal" else calls[:1]:
            replies = iter(model.answer([request for aspect in aspects for request in asked[aspect]]))
            for aspect in aspects:
                result.setdefault(aspect, []).extend(next(replies) for _ in asked[aspect])
    except Exception:
        result = {}
    if not prefix:
        finding.decided = decided(model)
    if result:
        return result
    for aspect, some in asked.items():
        try:
            result[aspect] = model.answer(some)
        except ScoringError as error:
            finding.refused[prefix + aspect] = str(error)
        except Exception as error:
            finding.crashed[prefix + aspect] = _shown(error)
    return result


def _shown(error):
    return f"{type(error).__name__}: {str(error)[:200]}"


def decided(model):
    """What the probes of a model found after it has answered: what is done for all texts of a batch at once."""
    if not (probes := getattr(model, "probes", None)):
        return {}
    findings = probes.findings
    result = {"Pads right": "no" if findings.keys() & {"batches", "padsFalse", "padsTrue"} else "yes"}
    if model.kind == "causal":
        shorter = re.search(r"shorter than (\d+) tokens", findings.get("shares", ""))
        result["Shares contexts"] = f"< {shorter[1]}" if shorter else "no" if "shares" in findings else "yes"
        result["Pads left"] = "no" if "generates" in findings else "yes"
    return result
