"""The network: from prefix trees to log-probabilities of tokens.

The largest part of a small model's work is its vocabulary: logits of 50,000 tokens at every position. So
the head runs only at positions that are read, apart from the rest of the network, and on a CPU in tiles
of the vocabulary that stay in its caches. Whether the head applied apart gives the network's own logits
is measured once; where it does not, the network's own logits are used.
"""

import inspect
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any, cast

import numpy as np
import torch
import transformers

from scoring.inference.batching import Ints, Tree, padded
from scoring.inference.tokens import Kind

#: The most logits that exist at one time, by device.
LOGITS = {"cpu": 2**22, "cuda": 2**28}
#: Tokens of the vocabulary whose logits are computed at one time on a CPU, so that they stay in its caches.
TILE = {"cpu": 2**11}
#: Errors by which a network's code shows that it does not take an input.
UNSUITED = (TypeError, ValueError, RuntimeError, LookupError, AttributeError, AssertionError, MemoryError)


class Network:
    """A network of transformers (or PEFT) and what scoring computes with it.

    Parameters
    ----------
    module:
        The network in its dtype and on its device.
    kind:
        Whether it predicts the next token or a masked one.
    pad:
        The token id to fill rows with.
    """

    def __init__(self, module: Any, kind: Kind, pad: int) -> None:
        self.module = module.eval()
        self.kind = kind
        # Padding is never read, but an id outside the vocabulary would fail.
        self.pad = 0
        if pad < self.config.vocab_size:
            self.pad = pad
        self.head = self.bare.get_output_embeddings()
        # Measured at two shapes of batch.
        self.head_apart = self.head is not None and self._same_logits((2, 8)) and self._same_logits((1, 5))

    @property
    def bare(self) -> Any:
        """The network of transformers inside an adapter's wrapper."""
        if hasattr(self.module, "get_base_model"):
            return self.module.get_base_model()
        return self.module

    @property
    def config(self) -> Any:
        """The configuration of the part that reads text."""
        return self.bare.config.get_text_config()

    @property
    def width(self) -> int:
        """The width of hidden states, which decides how many tokens a batch has."""
        return getattr(self.config, "hidden_size", None) or getattr(self.config, "d_model", None) or 768

    @property
    def device(self) -> torch.device:
        """The device of inputs; layers may be elsewhere under a device map, and offloaded weights on none."""
        hook = getattr(self.bare.get_input_embeddings(), "_hf_hook", None)
        place = getattr(hook, "execution_device", None)
        if place is None:
            return cast(torch.device, self.bare.device)
        return torch.device(place)

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of computation."""
        return cast(torch.dtype, self.bare.dtype)

    @cached_property
    def _takes_cache(self) -> bool:
        parameters = inspect.signature(self.bare.forward).parameters
        # A forward with **kwargs passes the option on.
        return "use_cache" in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())

    def tensor(self, values: Any) -> torch.Tensor:
        """A NumPy array on the device of inputs."""
        return torch.from_numpy(values).to(self.device, non_blocking=True)

    def inputs(self, trees: Sequence[Tree]) -> dict[str, torch.Tensor]:
        """The network's input for trees, padded on the right to the longest.

        Ordinary sequences get a 2-D attention mask (0 for padding and hidden tokens). Where a tree has
        branches, all get position ids and an additive mask of shape (trees, 1, tokens, tokens).
        """
        width = max(len(tree) for tree in trees)
        ids = self.tensor(padded([tree.ids for tree in trees], self.pad, width))
        place = torch.arange(width, device=ids.device)
        ends_of_trees = [tree.ends for tree in trees]
        if not any(tree.branched for tree in trees):
            ends = self.tensor(padded(ends_of_trees, 0, width))
            return {"input_ids": ids, "attention_mask": (place < ends).long()}
        # In a causal network later padding attends to padding, so that no position attends to nothing.
        ends = self.tensor(padded(ends_of_trees, width, width))
        # Token i attends to token j where j is not later, and i is before the end of j.
        visible = (place[:, None] >= place) & (place[:, None] < ends[:, None, :])
        mask = torch.zeros(visible.shape, dtype=self.dtype, device=ids.device)
        # The lowest finite number instead of -inf: a row that sees nothing would be NaN after the softmax.
        mask = mask.masked_fill_(~visible, torch.finfo(mask.dtype).min)[:, None]
        position_ids = self.tensor(padded([tree.position_ids for tree in trees], 0, width))
        return {"input_ids": ids, "position_ids": position_ids, "attention_mask": mask}

    @torch.inference_mode()
    def outputs(self, trees: Sequence[Tree]) -> tuple[torch.Tensor, Ints, Ints]:
        """What the network gives at the positions that trees read.

        Returns
        -------
        outputs:
            Input of the head, shape (positions, width), or logits where the head is not applied apart.
        places, want:
            For each answer, in the order of the trees, its row of ``outputs`` and its token.
        """
        width = max(len(tree) for tree in trees)
        # Places in the flattened batch; a position that several answers are read from is computed once.
        where = np.concatenate([np.array(tree.at) + row * width for row, tree in enumerate(trees)])
        # The head costs as much as many layers where the vocabulary is large, so it sees each position once.
        read, places = np.unique(where, return_inverse=True)
        states = self.forward(self.inputs(trees))
        # An adapter (prompt tuning) may put tokens before each row.
        virtual = 0
        adapter: Any = getattr(self.module, "active_peft_config", None)
        if getattr(adapter, "is_prompt_learning", False):
            virtual = int(adapter.num_virtual_tokens)
        if states.shape[1] != virtual + width:
            raise RuntimeError(f"The network gives {states.shape[1]} outputs for {virtual + width} tokens.")
        states = states[:, virtual:].flatten(0, 1)
        return states[self.tensor(read).to(states.device)], places, np.concatenate([tree.want for tree in trees])

    @torch.inference_mode()
    def generate(self, prompts: Sequence[Sequence[int]], new: int, processors: Sequence[Any], **more: Any) -> Any:
        """What transformers generates greedily, so many ``new`` tokens after prompts that are padded on the left."""
        width = max(len(prompt) for prompt in prompts)
        lengths = np.array([[len(prompt)] for prompt in prompts])
        return self.module.generate(
            input_ids=self.tensor(padded(prompts, self.pad, width, left=True)),
            attention_mask=self.tensor((np.arange(width) >= width - lengths).astype(np.int64)),
            logits_processor=transformers.LogitsProcessorList(processors),
            max_new_tokens=new,
            do_sample=False,
            num_beams=1,
            **more,
        )

    def forward(self, inputs: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """The head's input where it is applied apart, else logits; shape (rows, tokens, ...)."""
        if self.head_apart:
            return self._head_input(inputs)
        return cast(torch.Tensor, self._forward(inputs).logits)

    def _forward(self, inputs: Mapping[str, torch.Tensor]) -> Any:
        # A cache would be made for a continuation that never comes.
        if self.kind == "causal" and self._takes_cache:
            return self.module(**inputs, use_cache=False)
        return self.module(**inputs)

    def _head_input(self, inputs: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """The input of the head, which itself runs at one position only."""
        # The hook gives the head one position of each row, so that the vocabulary costs nothing here.
        caught: list[torch.Tensor] = []

        def keep_one(_: Any, arguments: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
            states = arguments[0]
            caught.append(states)
            return (states[:, :1], *arguments[1:])

        handle = self.head.register_forward_pre_hook(keep_one)
        try:
            self._forward(inputs)
        finally:
            handle.remove()
        if len(caught) != 1:
            raise RuntimeError(f"The network called its vocabulary head {len(caught)} times.")
        return caught[0]

    @torch.inference_mode()
    def _same_logits(self, shape: tuple[int, int]) -> bool:
        """Whether the head applied apart gives the network's own logits, for a batch of a shape."""
        ids = self.tensor(np.arange(shape[0] * shape[1]).reshape(shape) * 7 % self.config.vocab_size)
        inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
        try:
            whole = self._forward(inputs).logits
            apart = self._from_head(self._head_input(inputs), slice(None))
        except UNSUITED:  # The head is not called, or not with (rows, tokens, width), or the network cannot be run.
            return False
        if not whole.isfinite().all() or apart.shape != whole.shape:
            return False
        # The same products at other places of a matrix differ by a rounding or two.
        within = 4 * torch.finfo(whole.dtype).eps * whole.abs().max().item()
        return bool((apart - whole).abs().max() <= within)

    def logits(self, outputs: torch.Tensor) -> torch.Tensor:
        """Logits of outputs, in float32 or better."""
        logits = outputs
        if self.head_apart:
            logits = self._from_head(outputs, slice(None))
        return logits.to(torch.promote_types(logits.dtype, torch.float32))

    def _from_head(self, outputs: torch.Tensor, tile: slice) -> torch.Tensor:
        """Logits for a tile of the vocabulary, with what some architectures do to them after the head."""
        head = self.head
        if tile == slice(None):
            logits: torch.Tensor = head(outputs)
        else:
            bias = head.bias
            if bias is not None:
                bias = bias[tile]
            logits = torch.nn.functional.linear(outputs, head.weight[tile], bias)
        # Each of these three changes log-probabilities, and is applied after the module that counts as the head.
        scale = getattr(self.config, "logit_scale", None)
        if isinstance(scale, float):  # Cohere; MPT has a text or None.
            logits = logits * scale
        scaling = getattr(self.config, "logits_scaling", None)  # Granite
        if scaling:
            logits = logits / scaling
        cap = getattr(self.config, "final_logit_softcapping", None)  # Gemma 2
        if cap:
            logits = torch.tanh(logits / cap) * cap
        return logits

    def _tiles(self) -> list[slice]:
        """Parts of the vocabulary to compute one at a time; several only for a linear head without hooks."""
        size = TILE.get(self.device.type)
        if size is None or not self.head_apart or type(self.head) is not torch.nn.Linear or not _untouched(self.head):
            return [slice(None)]
        return [slice(first, first + size) for first in range(0, len(self.head.weight), size)]

    @torch.inference_mode()
    def logprobs(self, outputs: torch.Tensor, places: Ints, want: Ints) -> torch.Tensor:
        """Log-probabilities of tokens, shape (answers,), in float32 or better.

        Parameters
        ----------
        outputs, places, want:
            As :meth:`outputs` gives them, with ``places`` ascending.

        The logits of a chunk of positions exist at one time, and of these one tile of the vocabulary. A tile
        adds to a running log-sum-exp: its maximum and its sum of exponentials are kept, and combined at the end.
        """
        tiles = self._tiles()
        if tiles[0].stop:
            width = tiles[0].stop
        elif self.head_apart:
            width = len(self.head.weight)
        else:
            width = outputs.shape[-1]
        chunk = max(1, LOGITS.get(self.device.type, LOGITS["cpu"]) // width)
        numbers = torch.promote_types(outputs.dtype, torch.float32)
        # Chunks bound the memory and tiles fit the caches; both leave each number as it is, but for the order of sums.
        bounds = np.searchsorted(places, np.arange(0, len(outputs) + chunk, chunk))
        place = self.tensor(places).to(outputs.device)
        token = self.tensor(want).to(outputs.device)
        parts = []
        for number, (low, high) in enumerate(pairwise(bounds.tolist())):
            states = outputs[number * chunk : (number + 1) * chunk]
            row = place[low:high] - number * chunk
            wanted = token[low:high]
            # A token in no tile stays NaN, which is refused; any number would look like a probability.
            chosen = torch.full_like(wanted, torch.nan, dtype=numbers)
            tops = []
            sums = []
            for tile in tiles:
                logits = states
                if self.head_apart:
                    logits = self._from_head(states, tile)
                logits = logits.to(numbers)
                # The head may be on another device than the layers before it.
                row = row.to(logits.device)
                wanted = wanted.to(logits.device)
                chosen = chosen.to(logits.device)
                column = wanted - (tile.start or 0)
                inside = (column >= 0) & (column < logits.shape[1])
                chosen = torch.where(inside, logits[row, column.clamp(0, logits.shape[1] - 1)], chosen)
                # A floor, because all tokens of a tile may have a logit of -inf.
                top_of_tile = logits.amax(-1).clamp(min=torch.finfo(numbers).min)
                tops.append(top_of_tile)
                sums.append((logits - top_of_tile[:, None]).exp_().sum(-1))
            # log Σ exp over all tiles from those of each: Σ exp(x − top) with the largest of the tops, which cannot
            # overflow.
            top = torch.stack(tops).amax(0)
            total = (torch.stack(sums) * (torch.stack(tops) - top).exp()).sum(0)
            parts.append((chosen - top[row]) - total.log()[row])
        return torch.cat(parts)


def _untouched(module: torch.nn.Module) -> bool:
    """Whether a module computes what its class says: its forward is neither hooked nor replaced."""
    return not (module._forward_hooks or module._forward_pre_hooks or "forward" in vars(module))
