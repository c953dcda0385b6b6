"""A loaded model that answers requests, and what that took."""

import inspect
from collections.abc import Iterator, Mapping, Sequence, Sized
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
import transformers

from builders.sources.fetch import default_cache
from cards.common.stored import digest
from scoring.inference import batching, checkpoint, fetching, measurements, network
from scoring.inference.batching import Limits, Tree, in_batches, plan
from scoring.inference.engine import CAPABILITIES, Batching, Capability, Continued, Engine, Scored, Stats, versions
from scoring.inference.generation import Decoding, Generator, TokenizedPrompt
from scoring.inference.measurements import Measurements
from scoring.inference.network import Network
from scoring.inference.responses import not_a_number
from scoring.inference.tokens import Kind, Query, Tokens
from scoring.types import ScoringError

#: The most tokens of a batch, padding included, for a network of the width of GPT-2 (768) and up; narrower
#: networks take more on a CPU, up to ``MOST_TOKENS``, so that a batch fills its caches.
TOKENS = {"cpu": 2**10, "cuda": 2**15}
MOST_TOKENS = 2**12
CACHED = 2**10 * 768
#: The characters of requests that are asked at one time on a CPU, whose batches are small: about 65,000 tokens. With
#: its queries and its trees such a piece takes some 40 MB.
PIECE = 2**18
#: The most tokens of a tree with branches.
BRANCHED = 512
#: Multiplications that the exponential of one attention weight costs.
EXPONENTIAL = 4
#: The most logits that a batch of a network may have whose head is not applied apart.
WHOLE_LOGITS = 2**28


class Model(Engine):
    """A language model of transformers that is loaded in this process.

    Parameters
    ----------
    network, tokenizer:
        A transformers (or PEFT) model in its dtype and on its device, and its tokenizer.
    kind:
        Whether it predicts the next token or a masked one.
    exact:
        Compute every sequence by itself, unpadded and with nothing shared, so that its numbers are
        bit for bit the same whatever else is asked and whatever the batch size is. Slow.
    files:
        A digest of all files that the model and the tokenizer were read from.

    Attributes
    ----------
    content:
        A digest of the files in its folder, by which an adapter knows its base model
        (:func:`scoring.adapters.attach.check_base`); empty where they are not known.
    quantization:
        The ``quantization_config`` of the checkpoint; empty where its weights are not quantized.
    apart:
        Parts of the checkpoint that the network does not need, such as a pooler.
    stored_dtype:
        The dtype of the checkpoint; empty where it is not known.

    Raises
    ------
    ScoringError
        For a network whose answers would not be what they are called
        (:meth:`scoring.inference.measurements.Measurements.check`).
    """

    content: str = ""
    quantization: Mapping[str, Any] = MappingProxyType({})
    apart: Sequence[str] = ()
    stored_dtype: str = ""

    def __init__(
        self,
        network: Any,
        tokenizer: Any,
        kind: Kind,
        name: str = "",
        revision: str = "",
        adapter: str = "",
        *,
        exact: bool = False,
        files: str = "",
    ) -> None:
        self.kind = kind
        self.exact = exact
        self.name = name
        self.revision = revision
        self.adapter = adapter
        self.files = files
        self.stats = Stats()
        bare = network
        if hasattr(network, "get_base_model"):
            bare = network.get_base_model()
        # A few networks have no embedding with weights (Perceiver, I-BERT).
        weight = getattr(bare.get_input_embeddings(), "weight", None)
        if weight is None:
            size = int(bare.config.get_text_config().vocab_size)
        else:
            size = len(weight)
        family = str(getattr(bare.config, "model_type", ""))
        self.tokens = Tokens(tokenizer, kind, _window(bare), size=size, family=family)
        # Sampling settings that come with a model would silently take the place of those left unset.
        if kind == "causal":
            settings: Any = transformers.GenerationConfig
            ends = getattr(getattr(bare, "generation_config", None), "eos_token_id", None)
            if ends is None:
                ends = tokenizer.eos_token_id
            bare.generation_config = settings(eos_token_id=ends, pad_token_id=self.tokens.pad)
        self.network = network
        if self.device.type == "cpu":
            self.piece = PIECE

    @property
    def network(self) -> Any:
        """The transformers (or PEFT) model; another one may take its place, and is measured anew."""
        return self._network.module

    @network.setter
    def network(self, network: Any) -> None:
        self._network = Network(network, self.kind, self.tokens.pad)
        name = self.name or type(self._network.bare).__name__
        special = frozenset(self.tokens.tokenizer.all_special_ids) | {self._network.pad}
        self.measurements = Measurements(self._network, name, self.tokens.window, special)
        self.measurements.check()

    def keep_measurements(self) -> None:
        """Keeps what is measured of this network for later processes, by all that it depends on.

        That are weights, configuration, dtype, device, versions and code. Another network in its place is measured
        anew, because the revision does not say what its weights are.
        """
        bare = self._network.bare
        known_by = {
            **self.environment,
            "processor": torch.backends.cpu.get_cpu_capability(),
            "config": bare.config.to_json_string(use_diff=False),
            "attention": str(bare.config._attn_implementation),
            "places": str(getattr(bare, "hf_device_map", "")),
            "model": (self.revision, self.files, self.adapter, self.kind, self.dtype, self.tokens.window),
            "code": [inspect.getsource(module) for module in (batching, network, measurements)],
        }
        self.measurements.folder = default_cache() / "networks" / digest(known_by)

    def _is_plain(self) -> bool:
        """Whether all weights are in the dtype of the network, as those of no quantization are."""
        return all(weight.dtype == self._network.dtype for weight in self._network.bare.parameters())

    @property
    def device(self) -> torch.device:
        """The device of inputs."""
        return self._network.device

    @property
    def dtype(self) -> str:
        """The dtype of the weights, with their quantization where there is one, also of dequantized ones."""
        bare = self._network.bare
        dtype = str(bare.dtype).removeprefix("torch.")
        stored = self.quantization
        settings = getattr(bare.config, "quantization_config", None)
        if not stored and settings:
            stored = settings if isinstance(settings, Mapping) else settings.to_dict()
        if stored:
            return f"{dtype}-{checkpoint.quantization_name(stored)}"
        return dtype

    @property
    def family(self) -> str:
        """The ``model_type`` of its configuration."""
        return str(getattr(getattr(self.network, "config", None), "model_type", ""))

    @property
    def parameters(self) -> int:
        """The parameters of the network with its adapter; of quantized weights as many as before."""
        return int(self._network.bare.num_parameters())

    @property
    def capabilities(self) -> frozenset[Capability]:
        """All that there is for its kind."""
        if self.kind == "masked":
            return frozenset(CAPABILITIES) - {"generation"}
        return frozenset(CAPABILITIES) - {"masked"}

    @property
    def environment(self) -> dict[str, Any]:
        """Versions and machine, and the ways of batching that this model does not allow, for a report."""
        device = self.device.type
        if device == "cuda":
            device = torch.cuda.get_device_name(self.device) or device
        facts: dict[str, Any] = {
            **versions("torch", "transformers", "tokenizers", "peft", "accelerate", "bitsandbytes", "numpy"),
            "device": device,
            "threads": torch.get_num_threads(),
            "exact": self.exact,
        }
        if self.stored_dtype:
            facts["dtype of the checkpoint"] = self.stored_dtype
        if self.quantization:
            facts["quantization of the checkpoint"] = _plain(self.quantization)
            # Weights that transformers has dequantized are plain ones now.
            facts["computed with"] = "quantized weights"
            if self.quantization.get("quant_method") in ("fp8", "mxfp8", "gguf") and self._is_plain():
                facts["computed with"] = f"weights dequantized to {str(self._network.dtype).removeprefix('torch.')}"
        if self.apart:
            facts["parts of the checkpoint not used"] = list(self.apart)
        if self.measurements.findings:
            facts["batching"] = " ".join(self.measurements.findings.values())
        return facts

    @property
    def remarks(self) -> list[str]:
        """What the dtype of the computation changes."""
        computed = str(self._network.dtype).removeprefix("torch.")
        sentences = []
        # Of quantized weights the report has the quantization.
        if self.stored_dtype not in ("", computed) and not self.quantization:
            sentences.append(f"The checkpoint is in {self.stored_dtype}, and this run computed in {computed}.")
        if self.device.type == "cpu" and computed in ("bfloat16", "float16"):
            sentences.append(
                f"{computed} rounds the scores and is not faster on most processors (docs/checkpoints.md); leave out "
                "--dtype."
            )
        return sentences

    def score(self, queries: Sequence[Query], batching: Batching) -> Iterator[Scored]:
        """Log-probabilities in batches of prefix trees, longest first."""
        before = replace(self.stats)
        trees, limits = self._trees(queries, self._limits(batching), batching.share)
        for _, scored in in_batches(trees, self._score, limits):
            yield scored
        self.stats.flops += self._flops(before)

    def generate(
        self, prompts: Sequence[TokenizedPrompt], decoding: Decoding, batching: Batching
    ) -> Iterator[Continued]:
        """Continuations in batches, longest first."""
        before = replace(self.stats)
        invalid = partial(not_a_number, f"{self.name} in {self.dtype}")
        generator = Generator(self._network, self.tokens, self.measurements, decoding, invalid, exact=self.exact)
        limits = generator.limits(prompts, self._limits(batching))
        for prompts_of_batch, batch in in_batches(prompts, generator.generate, limits):
            self.stats.add(asked=batch.tokens, tokens=batch.tokens, padding=batch.padding, generated=batch.generated)
            for prompt, text in zip(prompts_of_batch, batch.texts, strict=True):
                yield Continued(prompt, text)
        self.stats.flops += self._flops(before)

    def _limits(self, batching: Batching) -> Limits:
        return Limits(batching.tokens or self._batch_tokens, batching.size, self._alone)

    @property
    def _batch_tokens(self) -> int:
        """The most tokens of a batch: enough to fill the device, few enough for its caches and memory."""
        network = self._network
        tokens = TOKENS.get(network.device.type, TOKENS["cpu"])
        if network.device.type == "cpu":
            tokens = int(min(max(CACHED // network.width, tokens), MOST_TOKENS))
        if not network.head_apart:
            # All logits of a batch exist at one time here, which for large vocabularies is most of the memory.
            tokens = min(tokens, max(WHOLE_LOGITS // network.config.vocab_size, 1))
        return tokens

    def _trees(self, queries: Sequence[Query], limits: Limits, share: bool) -> tuple[list[Tree], Limits]:
        """Queries as rows, and the limits of their batches, in the ways that this network allows."""
        spelled = [query.spelled() for query in queries]
        self.stats.asked += sum(len(query.ids) for query in spelled)
        plain = partial(plan, share=False, longest=0, reach=0.0)
        if not queries:
            return plain(spelled, merge=False), replace(limits, size=1)
        longest = max(len(query.ids) for query in spelled)
        self.measurements.check(longest)
        if self.exact:
            return plain(spelled, merge=False), replace(limits, size=1)
        # The longest query with padding on the left, which not every network can leave out.
        longest_hidden = max((len(query.ids) for query in spelled if query.hidden), default=0)
        trees = plain(spelled, merge=True)
        shared = 0
        if share and self.kind == "causal" and (not longest_hidden or self.measurements.gaps(longest_hidden)):
            trees, shared = self._shared(queries, trees)
        if limits.size != 1:
            if not self.measurements.batches(longest):
                limits = replace(limits, size=1)
            padding = self.measurements.pads(longest, hidden=bool(longest_hidden))
            limits = replace(limits, together=partial(_together, padding=padding, shared=shared))
        return trees, limits

    def _shared(self, queries: Sequence[Query], plain: list[Tree]) -> tuple[list[Tree], int]:
        """Trees with branches, and their largest size, as far as the network gives plain sequences' answers.

        The trees are planned first, so that the network is measured at the size that they would have.
        """
        longest = min(BRANCHED, self.tokens.window or BRANCHED)
        while True:
            trees = plan(queries, share=True, merge=True, reach=self._reach, longest=longest)
            size = max((len(tree) for tree in trees if tree.branched), default=0)
            if not size:
                return trees, 0
            allowed = self.measurements.shares(size)
            if not allowed:
                return plain, 0
            if size <= allowed:
                return trees, allowed
            longest = allowed

    @property
    def _reach(self) -> float:
        """Tokens that one token can attend to for the cost of its products with a layer's weights.

        The weights take 24 width² operations a token, attention 4 width a pair of tokens, and an exponential
        for each head, which takes a processor as long as ``EXPONENTIAL`` multiplications.
        """
        heads = getattr(self._network.config, "num_attention_heads", 1)
        width = self._network.width
        # 24 width² divided by 4 (width + EXPONENTIAL · heads).
        return float(6 * width**2 / (width + EXPONENTIAL * heads))

    @torch.inference_mode()
    def _score(self, trees: Sequence[Tree]) -> Scored:
        """The answers of one batch, with one transfer from the device."""
        tokens = sum(len(tree) for tree in trees)
        width = max(len(tree) for tree in trees)
        outputs, places, want = self._network.outputs(trees)
        # The head takes places in ascending order, and the answers go back to the order of the trees.
        order = np.argsort(places, kind="stable")
        values = np.empty(len(want))
        # One transfer to the processor for a batch: each would wait for the device.
        values[order] = self._network.logprobs(outputs, places[order], want[order]).cpu().numpy()
        answers = np.array([number for tree in trees for number in tree.answer], dtype=np.int64)
        self.stats.add(tokens=tokens, padding=len(trees) * width - tokens, read=len(outputs))
        return Scored(answers, values)

    def _flops(self, before: Stats) -> float:
        """Multiplications and additions with weights since: of all but embeddings per token, of the head where read."""
        tokens = self.stats.tokens - before.tokens
        read = self.stats.read + self.stats.generated - before.read - before.generated
        bare = self._network.bare
        embeddings = {}
        for part in (bare.get_input_embeddings(), self._network.head):
            # Head and embedding may be one matrix, which is counted once.
            if hasattr(part, "weight"):
                embeddings[id(part.weight)] = part.weight.numel()
        body = bare.num_parameters() - sum(embeddings.values())
        return float(2 * (body * tokens + self._network.width * self._network.config.vocab_size * read))

    def _alone(self, row: Sized, error: Exception) -> ScoringError:
        weights = self._network.bare.get_memory_footprint() / 2**30
        return ScoringError(
            f"{len(row)} tokens at one time do not fit into the memory of {self.device} beside the weights, "
            f"which take {weights:.2f} GiB in {self.dtype} ({fetching.first_sentence(error)}); free that much, "
            f"or load the model in a smaller dtype, quantized, or on more devices."
        )


def _plain(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of a configuration that have a value, as texts and numbers."""
    plain = {}
    for name, value in settings.items():
        if value is not None and not name.startswith("_"):
            plain[name] = value if isinstance(value, str | int | float | dict) else str(value)
    return plain


def _together(first: Tree, row: Tree, *, padding: bool, shared: int) -> bool:
    """Whether a row may be in the batch of a longer one.

    A batch with branches gets position ids and a 4-D mask for all of its rows, which is measured up to
    ``shared`` tokens; a longer row keeps the network's own mask.
    """
    if not padding and (len(first) != len(row) or first.branched != row.branched):
        return False
    return len(first) <= shared or not row.branched


def _window(network: Any) -> int | None:
    """The most tokens a network takes, or None; position tables that skip padding ids are shorter (RoBERTa)."""
    for name, module in network.named_modules():
        if name.endswith("position_embeddings") and getattr(module, "padding_idx", None) is not None:
            # Positions count from after the padding id.
            return len(module.weight) - int(module.padding_idx) - 1
    config = network.config.get_text_config()
    window = getattr(config, "max_position_embeddings", None) or getattr(config, "max_seq_len", None)
    # XLNet has -1 for no bound.
    if not window or window < 0:
        return None
    return int(window)
