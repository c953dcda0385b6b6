"""Hidden states of a network: the map that reads the last one, means over sentences, and how these differ."""

from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from transformers.pytorch_utils import Conv1D

from mitigation.recipe import MitigationError, Model
from mitigation.training.train import network_inputs
from scoring.adapters.attach import without_remarks
from scoring.types import Floats


@torch.inference_mode()
def reading_map(model: Model) -> tuple[str, torch.nn.Linear]:
    """Name and module of the linear map that reads the last hidden state at every position.

    That is the vocabulary head of a causal model, and the first map of the prediction head of a masked one. It
    is found by running the network: its input equals the last hidden state.

    Raises
    ------
    MitigationError
        If there is not exactly one such map, or its weights are not plain numbers (4 or 8 bits).
    """
    network = model.network
    readers: dict[str, Any] = {}
    inputs: dict[str, torch.Tensor] = {}

    def see(name: str, _: Any, arguments: tuple[Any, ...]) -> None:
        if arguments:
            inputs[name] = arguments[0].detach()

    # By its input and not by its name, which each architecture gives otherwise.
    ids = probe_ids(model)
    with ExitStack() as hooks:
        for name, module in network.named_modules():
            if isinstance(module, torch.nn.Linear):
                hooks.enter_context(module.register_forward_pre_hook(partial(see, name)))
        network(input_ids=ids)
        last = last_hidden_state(network, {"input_ids": ids})
    for name, states in inputs.items():
        if states.shape == last.shape and torch.equal(states, last):
            readers[name] = network.get_submodule(name)
    if len(readers) != 1:
        names = ", ".join(readers) or "none"
        raise MitigationError(
            f"In {model.name} the last hidden state is read by {names} of its linear maps, and a projection needs "
            "exactly one; use a recipe that changes no hidden state."
        )
    ((name, module),) = readers.items()
    if type(module) is not torch.nn.Linear or not module.weight.is_floating_point():
        raise MitigationError(
            f"The weights of {name} in {model.name} are of type {type(module).__name__}; load the model without "
            "quantization (--quantize none)."
        )
    return name, module


class Words(NamedTuple):
    """The words in which two texts differ: their ids [2, words], the texts' [2, 1, tokens], and where they are read."""

    ids: torch.Tensor
    inputs: torch.Tensor
    at: torch.Tensor


def differing_words(model: Model, texts: Sequence[str], most_tokens: int) -> Words | None:
    """The words in which two texts differ, which a masked model reads as masks; None for other numbers of tokens.

    A causal model is read at the token before a word, a masked one at the word.
    """
    tokenizer, causal = model.tokens.tokenizer, model.kind == "causal"
    rows = [tokenizer(text, truncation=True, max_length=most_tokens)["input_ids"] for text in texts]
    places = [n for n, both in enumerate(zip(*rows, strict=False)) if len(set(both)) == 2]
    if len(rows[0]) != len(rows[1]) or not places or (causal and not places[0]):
        return None
    inputs = torch.tensor(rows, device=model.device)[:, None]
    ids = inputs[:, 0, places]
    if not causal:
        inputs[:, 0, places] = tokenizer.mask_token_id
    return Words(ids, inputs, torch.tensor(places, device=model.device) - int(causal))


def prediction_gradients(model: Model, pairs: Sequence[Sequence[str]], most_tokens: int) -> Floats:
    """How the log-odds of a word and its partner change with the state that predicts them [places, width].

    The two texts of a pair differ in these words, each of one token, which a masked model reads as masks; other pairs
    are left out. The direction goes to the word of the first text.
    """
    _, module = reading_map(model)
    gradients = []
    for texts in pairs:
        words = differing_words(model, texts[:2], most_tokens)
        if words is None:
            continue
        states: list[torch.Tensor] = []

        # The state becomes a leaf of the graph, so nothing before it is differentiated; the head reads the words alone.
        def follow(_: Any, inputs: tuple[Any, ...], states: list[Any] = states, at: torch.Tensor = words.at) -> Any:
            states.append(inputs[0][:, at].detach().requires_grad_())
            return (states[0], *inputs[1:])

        with torch.enable_grad(), module.register_forward_pre_hook(follow):
            answers = model.network(input_ids=words.inputs[0]).logits[0]
            odds = answers.gather(1, words.ids[0][:, None]) - answers.gather(1, words.ids[1][:, None])
            (gradient,) = torch.autograd.grad(odds.sum(), states)
        gradients.append(gradient[0].double().cpu().numpy())
    if not gradients:
        return np.empty((0, 0))
    return np.concatenate(gradients)


def last_hidden_state(network: Any, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
    """The output [rows, tokens, width] of a network without its prediction head.

    Raises
    ------
    MitigationError
        If the network has no such part.
    """
    base = getattr(network, "base_model", network)
    states = None
    if base is not network:
        states = getattr(base(**inputs), "last_hidden_state", None)
    if states is None:
        raise MitigationError(
            f"{type(network).__name__} has no part that gives the last hidden state; use a recipe that changes none."
        )
    return states  # type: ignore[no-any-return]


def outputs_of(network: Any, names: Sequence[str], inputs: dict[str, torch.Tensor]) -> list[torch.Tensor]:
    """The outputs [rows, tokens, width] of modules of a network, such as blocks, for inputs."""
    seen: dict[str, torch.Tensor] = {}

    def see(name: str, _: Any, __: Any, output: Any) -> None:
        seen[name] = output[0] if isinstance(output, tuple) else output

    with ExitStack() as hooks:
        for name in names:
            hooks.enter_context(network.get_submodule(name).register_forward_hook(partial(see, name)))
        last_hidden_state(network, inputs)
    return [seen[name] for name in names]


@torch.inference_mode()
def writing_maps(model: Model, blocks: Sequence[str]) -> dict[str, torch.Tensor]:
    """Name to weights [width, inputs] of the maps that write into the residual stream, and of the word embedding.

    In each part of a block, such as its attention, that is the last linear map that runs. The inputs of the embedding
    are the tokens.

    Raises
    ------
    MitigationError
        If their weights are not plain numbers (4 or 8 bits).
    """
    network = model.network
    last: dict[tuple[str, str], str] = {}

    def see(block: str, name: str, *_: Any) -> None:
        # Modules run in their order, so the last map of a part replaces those before it.
        part = name.split(".")[0] if "." in name else ""
        last[block, part] = f"{block}.{name}"

    with ExitStack() as hooks:
        for block in blocks:
            for name, module in network.get_submodule(block).named_modules():
                if name and isinstance(module, (torch.nn.Linear, Conv1D)):
                    hooks.enter_context(module.register_forward_hook(partial(see, block, name)))
        network(input_ids=probe_ids(model))
    embedding = network.get_input_embeddings()
    width = embedding.weight.shape[1]
    name_of_embedding = next(name for name, module in network.named_modules() if module is embedding)
    weights = {name_of_embedding: embedding.weight.T}
    for name in last.values():
        module = network.get_submodule(name)
        weight = module.weight
        if isinstance(module, Conv1D):
            weight = weight.T  # Conv1D of GPT-2 stores its weights with inputs first
        if not weight.is_floating_point():
            raise MitigationError(
                f"The weights of {name} in {model.name} are of type {weight.dtype}; load the model without "
                "quantization (--quantize none)."
            )
        if len(weight) == width:  # others widen, as the first map of a feed-forward part without a second
            weights[name] = weight
    return weights


def probe_ids(model: Model) -> torch.Tensor:
    """A row of six token ids [1, 6], to see which parts of a network run."""
    ids: torch.Tensor = torch.arange(5, 11, device=model.device)[None]
    return ids % int(model.network.config.get_text_config().vocab_size)


@torch.inference_mode()
def predicting_states(model: Model, pairs: Sequence[Sequence[str]], most_tokens: int, block: str = "") -> Floats:
    """The last hidden states, or those of a block, that predict the words in which two texts differ [words, width].

    Raises
    ------
    MitigationError
        If in each pair the texts have other numbers of tokens.
    """
    states_of_words = []
    for texts in pairs:
        words = differing_words(model, texts, most_tokens)
        if words is None:
            continue
        inputs = {"input_ids": words.inputs[0], "attention_mask": torch.ones_like(words.inputs[0])}
        states = _states(model.network, inputs, block)
        states_of_words.append(states[0, words.at].double().cpu().numpy())
    if not states_of_words:
        raise MitigationError(f"{model.name} has no two words of a choice in equally many tokens; give other words.")
    return np.concatenate(states_of_words)


def _states(network: Any, inputs: dict[str, torch.Tensor], block: str) -> torch.Tensor:
    """The output [rows, tokens, width] of a block, or the last hidden state where its name is empty."""
    if not block:
        return last_hidden_state(network, inputs)
    (states,) = outputs_of(network, [block], inputs)
    return states


@torch.inference_mode()
def mean_states(model: Model, texts: Sequence[str], most_tokens: int, batch: int = 32, block: str = "") -> Floats:
    """The mean of the last hidden state over all tokens, special ones too, of each text [texts, width], in float64.

    Texts are cut after ``most_tokens`` tokens, or at the model's window if that is shorter. With the name of a
    ``block`` it is the mean of that block's output.
    """
    tokenizer = model.tokens.tokenizer
    longest = min(most_tokens, model.tokens.window or most_tokens)
    with without_remarks():  # transformers would warn of texts longer than the window, which are cut here
        rows = [ids[:longest] or [model.tokens.pad] for ids in tokenizer(list(texts))["input_ids"]]
    # By length, so that a batch has little padding; the means go back to their places.
    order = sorted(range(len(rows)), key=lambda number: len(rows[number]))
    states: list[Any] = [None] * len(rows)
    for start in range(0, len(order), batch):
        numbers = order[start : start + batch]
        inputs = network_inputs([rows[number] for number in numbers], model.tokens.pad, model.device)
        hidden = _states(model.network, inputs, block).double()
        # Padding counts as zero in the sum and not in the number of tokens.
        mask = inputs["attention_mask"].to(hidden.device)[..., None]
        means = ((hidden * mask).sum(1) / mask.sum(1)).cpu().numpy()
        for number, mean in zip(numbers, means, strict=True):
            states[number] = mean
    return np.array(states)


def predicting_difference(
    model: Model, kinds: Sequence[Sequence[Sequence[str]]], block: str, most_tokens: int
) -> Floats:
    """The mean state that predicts the word in the second kind of texts less that in the first [width].

    It is read at a block's output, or last where ``block`` is empty.
    """
    # Each kind has its own number of words, so means are subtracted and not pairs.
    first = predicting_states(model, kinds[0], most_tokens, block).mean(0)
    second = predicting_states(model, kinds[1], most_tokens, block).mean(0)
    return np.asarray(second - first, np.float64)


def difference(model: Model, pairs: Sequence[Sequence[str]], block: str, most_tokens: int) -> Floats:
    """The mean over pairs of the second sentence's state less the first one's [width], at a block's output or last.

    Raises
    ------
    MitigationError
        If it is zero or not a number.
    """
    first = mean_states(model, [pair[0] for pair in pairs], most_tokens, block=block)
    second = mean_states(model, [pair[1] for pair in pairs], most_tokens, block=block)
    # Pairs differ in the listed words alone, so all else cancels.
    direction: Floats = (second - first).mean(0)
    if not np.linalg.norm(direction) > 0:
        raise MitigationError(
            f"The states of both groups have the same mean at {block} of {model.name}, so there is no direction; "
            "choose another block."
        )
    return direction


def spread_along(model: Model, blocks: Sequence[str], direction: Any) -> float:
    """By how much two texts of the same length differ along a direction at the outputs of blocks, at most."""
    first = probe_ids(model)
    # The second text has other tokens, half a vocabulary away.
    size = model.network.config.get_text_config().vocab_size
    bare = model.network.get_base_model() if hasattr(model.network, "get_base_model") else model.network
    rows = torch.cat([first, (first + size // 2) % size])
    with torch.inference_mode():
        inputs = {"input_ids": rows, "attention_mask": torch.ones_like(rows)}
        outputs = torch.stack([output.double() for output in outputs_of(bare, blocks, inputs)])
    along = outputs @ direction.to(outputs)  # [blocks, 2, tokens]
    return float((along[:, 0] - along[:, 1]).abs().max())
