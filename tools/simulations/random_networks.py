"""How many random networks get a verdict: 200 of ten families, and twins of the bundled models with other tokens.

``python -m tools.simulations.random_networks`` builds small networks with random weights, each with the tokenizer of a
bundled model, and twins of the bundled models whose tokens are exchanged: every token has the embedding of another one,
in the input alone or in input and output. Each is asked the control sentences of :mod:`scoring.asking.language`, as
every run does. None may be better than chance; the bundled models and those given as arguments have to be. The numbers
are written into ``random_networks.json`` beside this file (about a minute).
"""

from __future__ import annotations

import argparse
import inspect
import json
import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from transformers import AutoModelForCausalLM, AutoModelForMaskedLM, AutoTokenizer
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

import scoring
from cards.results import Language
from scoring.asking import language
from scoring.inference.model import Model

#: The families, by the bundled model whose tokenizer they have.
FAMILIES = {
    "causal": ("gpt2", "llama", "opt", "gpt_neox", "bloom", "mistral"),
    "masked": ("bert", "distilbert", "electra", "albert"),
}
CLASSES: dict[str, Any] = {"causal": AutoModelForCausalLM, "masked": AutoModelForMaskedLM}
#: Sizes, by all the names that configurations have for them.
SIZES = {
    **dict.fromkeys(("hidden_size", "n_embd", "dim", "embedding_size", "word_embed_proj_dim"), 32),
    **dict.fromkeys(("num_hidden_layers", "n_layer", "n_layers"), 2),
    **dict.fromkeys(("num_attention_heads", "n_head", "n_heads", "num_key_value_heads"), 4),
    **dict.fromkeys(("intermediate_size", "ffn_dim", "hidden_dim"), 64),
    **dict.fromkeys(("max_position_embeddings", "n_positions"), 256),
}
#: Standard deviations of the weights: as usual, and so large that the network is sure of what it says.
SPREADS = (0.02, 0.1, 0.5, 1.0)
#: Seeds of each family.
SEEDS = 20
BUNDLED = {kind: Path(scoring.__file__).parent / "data" / f"tiny-{kind}" for kind in FAMILIES}


def random_network(family: str, kind: str, seed: int) -> Any:
    """A small network of a family with random weights and the vocabulary of the bundled model of its kind."""
    tokenizer = tokenizer_of(kind)
    config_class = CONFIG_MAPPING[family]
    known = inspect.signature(config_class.__init__).parameters
    settings: dict[str, Any] = {name: value for name, value in SIZES.items() if name in known}
    settings["vocab_size"] = len(tokenizer)
    spread = SPREADS[seed % len(SPREADS)]
    settings |= {name: spread for name in ("initializer_range", "init_std") if name in known}
    settings |= {
        f"{name}_token_id": getattr(tokenizer, f"{name}_token_id")
        for name in ("pad", "bos", "eos")
        if f"{name}_token_id" in known and getattr(tokenizer, f"{name}_token_id") is not None
    }
    torch.manual_seed(seed)
    return CLASSES[kind].from_config(config_class(**settings)).float().eval()


@torch.no_grad()
def twin(kind: str, seed: int, *, whole: bool) -> Any:
    """The bundled model with its tokens exchanged at random, in the input alone or in input and output."""
    network = CLASSES[kind].from_pretrained(BUNDLED[kind]).float().eval()
    inputs, outputs = network.get_input_embeddings(), network.get_output_embeddings()
    order = torch.randperm(len(inputs.weight), generator=torch.Generator().manual_seed(seed))
    exchanged = inputs.weight[order].clone()
    if whole:
        outputs.weight.copy_(outputs.weight[order].clone())
        inputs.weight.copy_(exchanged)
    else:
        # Tied weights are one parameter, so the input gets one of its own.
        inputs.weight = torch.nn.Parameter(exchanged)
    return network


@cache
def tokenizer_of(kind: str) -> Any:
    """The tokenizer of the bundled model of a kind."""
    return AutoTokenizer.from_pretrained(BUNDLED[kind])


def found(network: Any, kind: Any, name: str) -> Language:
    """What the control sentences say of a network, by the engine of a run."""
    return _asked(Model(network, tokenizer_of(kind), kind=kind, name=name))


def _asked(model: Model) -> Language:
    responses = {response.id: response for response in model.answer(language.requests())}
    return language.measured(model, responses)


@torch.no_grad()
def found_plainly(network: Any, kind: str) -> Language:
    """The same by plain batches of sequences of one length, which costs a tenth for so small a network."""
    tokenizer = tokenizer_of(kind)
    texts = [*language.sentences(), *map(language.in_other_order, language.sentences())]
    encoded = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts]
    nats = np.empty(len(texts))
    for length in sorted(set(map(len, encoded))):
        places = [place for place, ids in enumerate(encoded) if len(ids) == length]
        ids = torch.tensor([encoded[place] for place in places])
        scores = causal_scores(network, tokenizer, ids) if kind == "causal" else masked_scores(network, tokenizer, ids)
        nats[places] = -scores.double().sum(dim=1).numpy()
    sentences = encoded[: len(language.sentences())]
    half = len(sentences)
    baseline = language.unigram(sentences, len(tokenizer))
    return language.judged(nats[:half], nats[half:], baseline, sum(map(len, sentences)))


def causal_scores(network: Any, tokenizer: Any, ids: torch.Tensor) -> torch.Tensor:
    """Log-probabilities [texts, tokens] of tokens after the beginning-of-sequence token and those before them."""
    first = torch.full((len(ids), 1), tokenizer.bos_token_id)
    logits = network(torch.cat([first, ids], dim=1)).logits[:, :-1]
    scores: torch.Tensor = logits.log_softmax(-1).gather(-1, ids[..., None])[..., 0]
    return scores


def masked_scores(network: Any, tokenizer: Any, ids: torch.Tensor) -> torch.Tensor:
    """Log-probabilities [texts, tokens] of tokens, each masked alone."""
    count, length = ids.shape
    sides = [torch.full((count, 1), token) for token in (tokenizer.cls_token_id, tokenizer.sep_token_id)]
    whole = torch.cat([sides[0], ids, sides[1]], dim=1)
    scores = torch.empty(count, length)
    for place in range(length):
        masked = whole.clone()
        masked[:, 1 + place] = tokenizer.mask_token_id
        logits = network(masked).logits[:, 1 + place]
        scores[:, place] = logits.log_softmax(-1).gather(-1, ids[:, place, None])[:, 0]
    return scores


def networks(seeds: int) -> Iterator[tuple[str, str, Any]]:
    """Random networks and twins: group, kind and network."""
    for kind, families in FAMILIES.items():
        for family in families:
            for seed in range(seeds):
                yield family, kind, random_network(family, kind, seed)
    for kind in FAMILIES:
        for seed in range(max(1, seeds // 2)):
            yield f"twin of tiny-{kind}, input", kind, twin(kind, seed, whole=False)
            yield f"twin of tiny-{kind}, input and output", kind, twin(kind, seed, whole=True)


def summary(seeds: int, models: list[Path]) -> dict[str, Any]:
    """By group: networks, those that are better than chance, and the extremes of both tests."""
    results: dict[str, Any] = {}
    for group, kind, network in networks(seeds):
        one = found_plainly(network, kind)
        row = results.setdefault(group, {"networks": 0, "better than chance": 0, "orders": [], "gains": []})
        row["networks"] += 1
        row["better than chance"] += one.speaks
        row["orders"].append(one.order)
        row["gains"].append(round(one.unigram - one.nats, 3))
    for group, row in results.items():
        orders, gains = row.pop("orders"), row.pop("gains")
        row |= {"largest share of the right order": max(orders), "largest gain over a unigram model, nats": max(gains)}
        print(group, row, flush=True)
    real = {
        f"tiny-{kind}": found(CLASSES[kind].from_pretrained(path).float().eval(), kind, kind)
        for kind, path in BUNDLED.items()
    }
    for path in models:
        trained = CLASSES["causal"].from_pretrained(path).float().eval()
        real[path.name] = _asked(Model(trained, AutoTokenizer.from_pretrained(path), kind="causal", name=path.name))
    shown = {
        name: {"better than chance": one.speaks, "order": one.order, "gain, nats": round(one.unigram - one.nats, 3)}
        for name, one in real.items()
    }
    total = sum(row["networks"] for row in results.values())
    passed = sum(row["better than chance"] for row in results.values())
    return {"networks": total, "better than chance": passed, "groups": results, "trained models": shown}


def main() -> None:
    """Asks all networks and writes the numbers beside this file."""
    parser = argparse.ArgumentParser(description="How many random networks are taken for models of language.")
    parser.add_argument("models", nargs="*", type=Path, help="folders of trained causal models, as positive controls")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="networks of each family")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    arguments = parser.parse_args()
    transformers.logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    results = summary(arguments.seeds, arguments.models)
    print({name: results[name] for name in ("networks", "better than chance", "trained models")})
    arguments.out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
