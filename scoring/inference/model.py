"""The one file that runs a network: loads it, requests it, and counts what that took."""

from __future__ import annotations

import gc
import importlib.metadata
import importlib.util
import inspect
import platform
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

import numpy as np
import torch
import transformers

from scoring.inference import checkpoint, workers
from scoring.inference.batch import Ints, Limits, Price, Row, Sized, even, packed, padded, plan, run
from scoring.inference.decoding import Decoding, Next, Prompt, banned, until
from scoring.inference.fused import fused, untouched
from scoring.inference.responses import Responses
from scoring.inference.tokens import Kind, Query, Tokens
from scoring.types import Floats, Request, Response, ScoringError

#: Logits that exist at one time, so that scoring a large vocabulary takes a bounded amount of memory.
LOGITS = {"cpu": 2**23, "cuda": 2**28}
#: Tokens of the vocabulary whose logits are computed at one time: on a CPU so few that they stay in its caches.
TILE = {"cpu": 2**11}
#: The fewest and the most padded tokens of a batch. Between them it has, on a CPU, so many that they stay in its
#: caches: 1024 of the width of GPT-2.
TOKENS = {"cpu": (2**10, 2**12), "cuda": (2**15, 2**15)}
CACHED = 2**10 * 768
#: A row takes branches up to this many tokens.
BRANCHED = 512
#: Multiplications and additions that one head's look at one token costs besides its product.
LOOK = 4
#: What a token of a row costs besides, in looks, for each by which the row is beyond an even width, on a CPU.
UNEVEN = 10


@dataclass(slots=True)
class Stats:
    """What a model has computed.

    ``asked`` counts the tokens of all sequences apart, ``tokens`` those computed after sharing,
    ``padding`` what batches added to them, ``read`` positions at which the vocabulary was computed,
    ``generated`` new tokens, ``flops`` the multiplications and additions of the matrix products with
    weights (2 per weight and token, PaLM appendix B, without attention and padding).
    """

    asked: int = 0
    tokens: int = 0
    padding: int = 0
    read: int = 0
    generated: int = 0
    flops: float = 0.0
    seconds: float = 0.0
    load_seconds: float = 0.0

    def speed(self) -> dict[str, float]:
        """Tokens per second and the shares of padding and of tokens saved, for a report."""
        return {
            "tokens_per_second": self.tokens / self.seconds if self.seconds else 0.0,
            "padding_share": self.padding / max(self.tokens + self.padding, 1),
            "shared_share": 1 - self.tokens / self.asked if self.asked else 0.0,
            "flops_per_second": self.flops / self.seconds if self.seconds else 0.0,
            "generated": float(self.generated),
            "seconds": self.seconds,
            "load_seconds": self.load_seconds,
        }


class _Scored(NamedTuple):
    """Numbers of answers and their log-probabilities, and the tokens, padding and read positions behind them."""

    answers: Ints
    values: Floats
    tokens: int
    padding: int
    read: int


class _Catch(threading.local):
    """A hook before a vocabulary head that catches what goes in, for the thread whose network is running.

    One position goes on, so that the network's own code decides all that comes before the head.
    """

    waiting = False
    values: torch.Tensor | None = None

    def __call__(self, _: Any, arguments: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        if not self.waiting:
            return arguments
        self.values = arguments[0]
        return (arguments[0][:, :1], *arguments[1:])

    def during(self, network: Callable[[], Any]) -> torch.Tensor:
        """What goes into the head while the network runs.

        Raises
        ------
        RuntimeError
            When nothing does.
        """
        self.waiting = True
        try:
            network()
            if self.values is None:
                raise RuntimeError("The network did not call its vocabulary head.")
            return self.values
        finally:
            self.waiting, self.values = False, None


class Model:
    """A loaded language model that answers requests.

    Parameters
    ----------
    network, tokenizer:
        A transformers (or PEFT) model in its dtype and on its device, and its tokenizer.
    kind:
        Whether it predicts the next token or a masked one.
    exact:
        Compute every sequence by itself, unpadded and with nothing shared, so that its numbers are
        bit for bit the same whatever else is asked and whatever the batch size is. Slow.
    """

    def __init__(
        self,
        network: Any,
        tokenizer: Any,
        *,
        kind: Kind,
        name: str = "",
        revision: str = "",
        adapter: str = "",
        exact: bool = False,
    ) -> None:
        _keep_memory()
        self.network = network.eval()
        self.kind = kind
        self.name = name
        self.revision = revision
        self.adapter = adapter
        self.exact = exact
        self.stats = Stats()
        self.tokens = Tokens(tokenizer, kind, _window(self._bare), size=len(self._bare.get_input_embeddings().weight))
        self._head = self._bare.get_output_embeddings()
        self._catch = _Catch()
        self._tiles = [slice(None)]
        self._gathers = False
        self._gathers = self._same_logits()
        self._branches = kind == "causal" and not exact and self._same_branches()
        self._gaps = self._branches and self._same_gaps()
        # Sampling settings that come with a model would silently take the place of those left unset.
        if kind == "causal":
            settings: Any = transformers.GenerationConfig
            ends = getattr(self._bare.generation_config, "eos_token_id", None)
            ends = tokenizer.eos_token_id if ends is None else ends
            self._bare.generation_config = settings(eos_token_id=ends, pad_token_id=self._pad)

    @property
    def _bare(self) -> Any:
        """The transformers model inside an adapter's wrapper."""
        return self.network.get_base_model() if hasattr(self.network, "get_base_model") else self.network

    @property
    def _config(self) -> Any:
        return self._bare.config.get_text_config()

    @property
    def _pad(self) -> int:
        return self.tokens.pad if self.tokens.pad < self._config.vocab_size else 0

    @property
    def _batch_tokens(self) -> int:
        fewest, most = TOKENS.get(self.device.type, TOKENS["cpu"])
        return int(min(max(CACHED // self._config.hidden_size, fewest), most))

    @property
    def device(self) -> torch.device:
        """Where inputs go; layers may lie elsewhere under a device map, and weights that are called in on none."""
        hook = getattr(self._bare.get_input_embeddings(), "_hf_hook", None)
        place = getattr(hook, "execution_device", None)
        return cast(torch.device, self._bare.device) if place is None else torch.device(place)

    @property
    def dtype(self) -> str:
        """The dtype of the weights, with their quantization where there is one."""
        how = getattr(self._bare, "quantization_method", None)
        bits = "4bit" if getattr(self._bare, "is_loaded_in_4bit", False) else "8bit" if how else ""
        return "-".join(filter(None, (str(self._bare.dtype).removeprefix("torch."), bits)))

    @property
    def truncated(self) -> frozenset[str]:
        """Ids of the requests whose text was cut to the context window."""
        return frozenset(self.tokens.truncated)

    @property
    def environment(self) -> dict[str, Any]:
        """Versions and machine, for a report."""
        packages = ("torch", "transformers", "tokenizers", "peft", "accelerate", "bitsandbytes", "numpy")
        found = {p: importlib.metadata.version(p) for p in packages if importlib.util.find_spec(p)}
        gpu = torch.cuda.get_device_name(self.device) if self.device.type == "cuda" else ""
        return {
            "python": platform.python_version(),
            **found,
            "device": gpu or self.device.type,
            "threads": torch.get_num_threads(),
            "exact": self.exact,
        }

    def answer(
        self,
        requests: Sequence[Request],
        *,
        batch_tokens: int | None = None,
        batch_size: int | None = None,
        share_contexts: bool = True,
        truncate: bool = False,
        decoding: Decoding | None = None,
        on_response: Callable[[Response], None] | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> list[Response]:
        """Answers all requests and returns the responses in their order.

        Parameters
        ----------
        batch_tokens, batch_size:
            The most padded tokens and rows of a batch; ``exact`` always takes one row.
        share_contexts:
            Whether what sequences have in common is computed once, where that pays.
        truncate:
            Whether a text longer than the context window is cut and its id put into ``truncated``.
        decoding:
            How contexts are continued; greedily when None.
        on_response:
            Called with every response as soon as it is complete, in the order of computation. On a CPU batches run
            side by side (see :mod:`scoring.inference.workers`), and this is called between them.
        progress:
            Called with the number of complete responses and of requests.

        Raises
        ------
        ScoringError
            Before anything is computed, for an request that cannot be put to this model; later, for a
            logit that is not a number and for memory that does not suffice for one sequence.
        """
        started, before = time.perf_counter(), replace(self.stats)
        decoding = decoding or Decoding()
        self.tokens.truncate = truncate
        limits = Limits(batch_tokens or self._batch_tokens, 1 if self.exact else batch_size, _too_big, self._alone)
        with _uncollected() as made:
            responses = Responses(self.tokens, requests, f"{self.name} in {self.dtype}", on_response, progress)
            prompts = self._prompts(requests, decoding)
            rows = self._rows(responses.queries, limits, share=share_contexts)
            made()
            generate = partial(self._generate, decoding=decoding, invalid=responses.invalid)
            beside = 1 if self.exact else workers.number(self.network)
            with nullcontext() if self.exact else fused(self.network):
                with self._catching(), workers.side_by_side(beside) as each:
                    for _, scored in run(rows, self._score, limits, each, beside):
                        responses.score(scored.answers, scored.values)
                        self.stats.tokens += scored.tokens
                        self.stats.padding += scored.padding
                        self.stats.read += scored.read
                for some, texts in run(prompts, generate, limits):
                    for prompt, text in zip(some, texts, strict=True):
                        responses.write(prompt.request, text)
        self.stats.flops += self._flops(before)
        self.stats.seconds += time.perf_counter() - started
        return responses.all()

    def _rows(self, queries: Sequence[Query], limits: Limits, *, share: bool) -> list[Row]:
        """Rows for queries, behind one another where the network can be told of places and sights."""
        back = getattr(self._config, "sliding_window", None)
        bounds = (BRANCHED, self.tokens.window, back)
        longest = min(bound for bound in bounds if bound)
        spelled = [q.spelled() for q in queries]
        # A sequence longer than a network looks back, and hidden tokens where it counts places without them, are
        # seen right in its own way alone: one row of a batch that tells it another would tell it of all.
        free = self._branches and all(len(q.ids) <= (back or len(q.ids)) for q in spelled)
        free = free and (self._gaps or not any(q.hidden for q in queries))
        queries = queries if free else spelled
        self.stats.asked += sum(len(q.ids) for q in queries)
        rows = plan(queries, share=share and free, merge=not self.exact, reach=self._price.reach, longest=longest)
        return packed(rows, self._price, limits.tokens, longest) if free and not limits.size else rows

    @property
    def _price(self) -> Price:
        """What rows cost this network.

        A token takes 24 width² operations in the weights of a layer and 4 width a look, and an exponential
        for each head, which takes a processor as long as ``LOOK`` multiplications and additions.
        """
        heads = getattr(self._config, "num_attention_heads", 1)
        width = self._config.hidden_size
        return Price(6 * width**2 / (width + LOOK * heads), UNEVEN)

    @torch.inference_mode()
    def _score(self, rows: Sequence[Row]) -> _Scored:
        """The answers that rows give: one synchronisation."""
        tokens = sum(map(len, rows))
        outputs, places, want = self._outputs(rows)
        order = np.argsort(places, kind="stable")
        values = np.empty(len(want))
        values[order] = self._logprobs(outputs, places[order], want[order]).cpu().numpy()
        answers = np.array([n for row in rows for n in row.answer], dtype=np.int64)
        return _Scored(answers, values, tokens, len(rows) * self._width(rows) - tokens, len(outputs))

    def _flops(self, before: Stats) -> float:
        """Multiplications and additions with weights since: of all but embeddings per token, of the head where read."""
        tokens = self.stats.tokens - before.tokens
        read = self.stats.read + self.stats.generated - before.read - before.generated
        embeddings = {id(m.weight): m.weight.numel() for m in (self._bare.get_input_embeddings(), self._head) if m}
        body = self._bare.num_parameters() - sum(embeddings.values())
        return float(2 * (body * tokens + self._config.hidden_size * self._config.vocab_size * read))

    def _outputs(self, rows: Sequence[Row]) -> tuple[torch.Tensor, Ints, Ints]:
        """What the network gives at each read position, and per wanted token that position's number and the token.

        It gives the input of the vocabulary head, or logits where the head cannot be called apart.
        """
        width = self._width(rows)
        where = np.concatenate([np.array(row.at) + n * width for n, row in enumerate(rows)])
        read, places = np.unique(where, return_inverse=True)
        # Soft prompts of an adapter come before the row.
        found = self._forward(self._inputs(rows, width))[:, -width:].flatten(0, 1)
        return found[self._sent(read).to(found.device)], places, np.concatenate([row.want for row in rows])

    def _width(self, rows: Sequence[Row]) -> int:
        """The padded length: even on a GPU, whose matrix units want it so, and on a CPU where that is cheaper."""
        longest = max(map(len, rows))
        if self.exact:
            return longest
        width = self._price.width(longest) if self.device.type == "cpu" else even(longest)
        return max(longest, min(width, self.tokens.window or width))

    def _inputs(self, rows: Sequence[Row], width: int) -> dict[str, torch.Tensor]:
        ids = self._sent(padded([row.ids for row in rows], self._pad, width))
        # Padding is seen by the padding behind it alone; a masked model would see it all.
        ends = self._sent(padded([row.ends for row in rows], width if self.kind == "causal" else 0, width))
        if any(row.branched for row in rows):
            position_ids = self._sent(padded([row.position_ids for row in rows], 0, width))
            return {"input_ids": ids, "position_ids": position_ids, "attention_mask": self._seen(ends)}
        return {"input_ids": ids, "attention_mask": (torch.arange(width, device=ids.device) < ends).long()}

    def _seen(self, ends: torch.Tensor) -> torch.Tensor:
        """The additive attention mask [rows, 1, queries, keys] of trees whose token j is seen up to ends[j]."""
        place = torch.arange(ends.shape[1], device=ends.device)
        seen = (place[:, None] >= place) & (place[:, None] < ends[:, None, :])
        mask = torch.zeros(seen.shape, dtype=self._bare.dtype, device=ends.device)
        return mask.masked_fill_(~seen, torch.finfo(mask.dtype).min)[:, None]

    def _sent(self, table: Any) -> torch.Tensor:
        return torch.from_numpy(table).to(self.device, non_blocking=True)

    @contextmanager
    def _catching(self) -> Iterator[None]:
        """Catches what goes into the vocabulary head, which is then called apart, in tiles where it has some."""
        if not self._gathers:
            yield
            return
        self._tiles = self._tiled()
        handle = self._head.register_forward_pre_hook(self._catch)
        try:
            yield
        finally:
            handle.remove()

    def _forward(self, inputs: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """Runs the network: the vocabulary head's input [rows, tokens, width] where it is caught, or its logits."""
        cached = {"use_cache": False} if self.kind == "causal" else {}
        network = partial(self.network, **inputs, **cached)
        return self._catch.during(network) if self._gathers else cast(torch.Tensor, network().logits)

    def _tiled(self) -> list[slice]:
        """Parts of the vocabulary to compute apart; only a linear head that nobody has put anything on has several."""
        head, size = self._head, TILE.get(self.device.type)
        plain = type(head) is torch.nn.Linear and untouched(head)
        if size is None or not plain:
            return [slice(None)]
        return [slice(first, first + size) for first in range(0, len(head.weight), size)]

    def _logits(self, outputs: torch.Tensor, tile: slice = slice(None)) -> torch.Tensor:
        """Logits of outputs for a part of the vocabulary, with what some families do to them after the head."""
        if not self._gathers:
            return outputs
        head = self._head
        if tile == slice(None):
            logits: torch.Tensor = head(outputs)
        else:
            bias = None if head.bias is None else head.bias[tile]
            logits = torch.nn.functional.linear(outputs, head.weight[tile], bias)
        scale = getattr(self._config, "logit_scale", None)
        if isinstance(scale, float):
            logits = logits * scale
        if scaling := getattr(self._config, "logits_scaling", None):
            logits = logits / scaling
        cap = getattr(self._config, "final_logit_softcapping", None)
        return torch.tanh(logits / cap) * cap if cap else logits

    def _logprobs(self, outputs: torch.Tensor, places: Ints, want: Ints) -> torch.Tensor:
        """Log-probabilities of tokens wanted at ascending places among the outputs.

        In float32 or better, a chunk of positions and a tile of the vocabulary at a time, so the
        vocabulary of all positions never exists at once.
        """
        tiles = self._tiles
        width = tiles[0].stop or self._config.vocab_size
        chunk = max(1, LOGITS.get(self.device.type, LOGITS["cpu"]) // width)
        numbers = torch.promote_types(outputs.dtype, torch.float32)
        bounds = np.searchsorted(places, np.arange(0, len(outputs) + chunk, chunk))
        place, token = self._sent(places).to(outputs.device), self._sent(want).to(outputs.device)
        found = []
        for n, (low, high) in enumerate(pairwise(bounds.tolist())):
            part = outputs[n * chunk : (n + 1) * chunk]
            row, wanted = place[low:high] - n * chunk, token[low:high]
            # No number for a token that is in no tile: a probability made up would look like any other.
            chosen, tops, sums = torch.full_like(wanted, torch.nan, dtype=numbers), [], []
            for tile in tiles:
                logits = self._logits(part, tile).to(numbers)
                row, wanted, chosen = (each.to(logits.device) for each in (row, wanted, chosen))
                here = wanted - (tile.start or 0)
                inside = (here >= 0) & (here < logits.shape[1])
                chosen = torch.where(inside, logits[row, here.clamp(0, logits.shape[1] - 1)], chosen)
                # A floor, because a tile may hold nothing but tokens that cannot be.
                tops.append(logits.amax(-1).clamp(min=torch.finfo(numbers).min))
                sums.append((logits - tops[-1][:, None]).exp_().sum(-1))
            top = torch.stack(tops).amax(0)
            total = (torch.stack(sums) * (torch.stack(tops) - top).exp()).sum(0)
            found.append((chosen - top[row]) - total.log()[row])
        return torch.cat(found)

    @torch.inference_mode()
    def _same_logits(self) -> bool:
        """Whether the head applied apart gives the network's own logits, as found by trying."""
        if self._head is None:
            return False
        ids = self._sent(np.arange(16).reshape(2, 8) * 7 % self._config.vocab_size)
        inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
        whole = self._forward(inputs)
        self._gathers = True
        try:
            with self._catching():
                apart = self._logits(self._forward(inputs))
        except (IndexError, RuntimeError):  # The head is not called, or not with [rows, tokens, width].
            return False
        finally:
            self._gathers = False
        if not whole.isfinite().all():  # A broken network: its requests will say so, each by its id.
            return False
        close = 4 * torch.finfo(whole.dtype).eps * whole.abs().max().item()
        return apart.shape == whole.shape and torch.allclose(apart, whole, rtol=0, atol=close, equal_nan=True)

    def _same_branches(self) -> bool:
        """Whether branches of a row, and rows behind one another, give what their sequences do by themselves."""
        if "position_ids" not in inspect.signature(self._bare.forward).parameters:
            return False
        ids = [self._some(*numbers) for numbers in ((1, 2, 3, 4, 5, 8, 9), (1, 2, 3, 4, 5, 7), (11, 6, 4))]
        return self._same([Query(i, tuple(range(len(i))), i) for i in ids])

    def _same_gaps(self) -> bool:
        """Whether tokens that stand behind a gap give what they do behind as much padding that is not seen."""
        ids = [self._some(*numbers) for numbers in ((1, 2, 3, 4), (1, 2, 5, 6, 7))]
        gaps = zip(ids, (9, 4), strict=True)
        return self._same([Query(i, tuple(range(1, len(i))), i[1:], hidden=1, gap=gap) for i, gap in gaps])

    def _some(self, *numbers: int) -> tuple[int, ...]:
        """Ids of tokens to try something with."""
        return tuple(7 * n % self._config.vocab_size for n in numbers)

    @torch.inference_mode()
    def _same(self, queries: Sequence[Query]) -> bool:
        """Whether sequences give the same in one row as by themselves, as found by trying.

        A network may not take positions or a mask of four dimensions, or may pass them by. How near is
        near enough is measured: what a batch with padding changes.
        """
        rows = partial(plan, merge=True, reach=64.0, longest=64)
        plain = [q.spelled() for q in queries]
        together = packed(rows(queries, share=True), Price(64, UNEVEN), tokens=64, longest=64)
        with self._catching():
            batched = self._by_answer(rows(plain, share=False))
            alone = torch.cat([self._by_answer(rows([q], share=False)) for q in plain])
            try:
                told = self._by_answer(together)
            except (TypeError, ValueError, RuntimeError, IndexError, AttributeError):  # As a model's code takes it.
                return False
        eps = max(2 * torch.finfo(batched.dtype).eps, 32 * torch.finfo(torch.float32).eps)
        return bool((told - batched).abs().max() <= 4 * (batched - alone).abs().max() + eps * batched.abs().max())

    def _by_answer(self, rows: Sequence[Row]) -> torch.Tensor:
        outputs, places, _ = self._outputs(rows)
        order = np.argsort([n for row in rows for n in row.answer])
        return outputs[self._sent(places[order]).to(outputs.device)].float()

    def _prompts(self, requests: Sequence[Request], decoding: Decoding) -> list[Prompt]:
        wanted = [request for request in requests if request.max_new]
        contexts = self.tokens.encode([request.context for request in wanted])
        new = [decoding.max_new or request.max_new for request in wanted]
        found = [
            Prompt(request, self.tokens.prompt(request, context, room), room)
            for request, context, room in zip(wanted, contexts, new, strict=True)
        ]
        return sorted(found, key=len, reverse=True)

    @torch.inference_mode()
    def _generate(
        self, prompts: Sequence[Prompt], decoding: Decoding, invalid: Callable[[Request, float], ScoringError]
    ) -> list[str]:
        """Continues prompts in one batch, padded on the left."""
        width, new = max(len(p.ids) for p in prompts), max(p.new for p in prompts)
        lengths = np.array([[len(p.ids)] for p in prompts])
        step = Next(prompts, decoding, new, self.device)
        made = self.network.generate(
            input_ids=self._sent(padded([p.ids for p in prompts], self._pad, width, left=True)),
            attention_mask=self._sent((np.arange(width) >= width - lengths).astype(np.int64)),
            logits_processor=transformers.LogitsProcessorList([step]),
            bad_words_ids=banned(self.tokens, decoding.banned),
            max_new_tokens=new,
            do_sample=False,
            num_beams=1,
        )
        rows: list[list[int]] = made[:, width:].tolist()
        for prompt, bad in zip(prompts, step.bad.tolist(), strict=True):
            if bad:
                raise invalid(prompt.request, float("nan"))
        ends = self._ends()
        texts = [self._continued(p.ids, until(row[: p.new], ends)) for p, row in zip(prompts, rows, strict=True)]
        total = sum(len(p.ids) for p in prompts)
        generated = sum(len(until(row[: p.new], ends)) for p, row in zip(prompts, rows, strict=True))
        self.stats.asked += total + generated
        self.stats.tokens += total + generated
        self.stats.padding += len(prompts) * width - total
        self.stats.generated += generated
        return texts

    def _ends(self) -> set[int]:
        ends = self._bare.generation_config.eos_token_id
        return set() if ends is None else set(ends) if isinstance(ends, list) else {ends}

    def _continued(self, prompt: list[int], new: list[int]) -> str:
        """The text of new tokens, with the leading space that many tokenizers drop from a text's first token."""
        plain = partial(self.tokens.tokenizer.decode, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        before, whole = plain(prompt), plain(prompt + new)
        return str(whole[len(before) :] if whole.startswith(before) else plain(new))

    def _alone(self, row: Sized, error: Exception) -> ScoringError:
        weights = self._bare.get_memory_footprint() / 2**30
        return ScoringError(
            f"{len(row)} tokens at one time do not fit into the memory of {self.device} beside the weights, "
            f"which take {weights:.2f} GiB in {self.dtype} ({checkpoint.first_sentence(error)}); free that much, "
            f"or load the model in a smaller dtype, quantized, or on more devices."
        )


@contextmanager
def _uncollected() -> Iterator[Callable[[], None]]:
    """No garbage collection until the given function is called, and then none among what was there, to the end.

    While much is made that stays, a collection would go over all objects of all libraries again and again.
    """
    collects, frozen = gc.isenabled(), gc.get_freeze_count() > 0
    gc.disable()

    def made() -> None:
        if collects and not frozen:
            gc.freeze()
        if collects:
            gc.enable()

    try:
        yield made
    finally:
        if collects:
            gc.enable()
        if collects and not frozen:
            gc.unfreeze()


def _keep_memory() -> None:
    """Has the C library keep pieces of memory of up to 32 MiB that are freed, where it is glibc.

    It gives a piece larger than any it has seen freed back to the system, which clears it again for every
    batch. So here it sees one.
    """
    torch.empty(2**25 - 2**16, dtype=torch.uint8)


def _too_big(error: Exception) -> bool:
    said = ("can't allocate memory", "CUBLAS_STATUS_ALLOC_FAILED")
    return isinstance(error, (torch.OutOfMemoryError, MemoryError)) or any(text in str(error) for text in said)


def _window(network: Any) -> int | None:
    """The most tokens a network takes, or None; position tables that skip padding ids are shorter (RoBERTa)."""
    config = network.config.get_text_config()
    window = getattr(config, "max_position_embeddings", None) or getattr(config, "max_seq_len", None)
    for name, module in network.named_modules():
        if name.endswith("position_embeddings") and getattr(module, "padding_idx", None) is not None:
            return int(module.num_embeddings - module.padding_idx - 1)
    return window


def load(
    model: str | Path,
    *,
    revision: str | None = None,
    adapter: str | Path | None = None,
    adapter_revision: str | None = None,
    dtype: str = "auto",
    device: str | None = None,
    quantize: Literal["4bit", "8bit"] | None = None,
    trust_remote_code: bool = False,
    allow_pickle: bool = False,
    device_map: str | Mapping[str, Any] | None = None,
    exact: bool = False,
) -> Model:
    """Loads a model of the Hub or of a folder, with its tokenizer and an adapter if one is given.

    Parameters
    ----------
    model, revision:
        A folder, or a name on the Hub and the branch, tag or commit of it.
    adapter, adapter_revision:
        A PEFT adapter, as a folder or a name on the Hub and the branch, tag or commit of it.
    dtype:
        A dtype of torch; ``auto`` is the checkpoint's own, but float32 for half precision on a CPU,
        where half precision is emulated. ``exact`` is float32 always.
    device:
        Where to run; the first GPU where there is one.
    quantize:
        Load weights in 4 (NF4) or 8 bits, with bitsandbytes.
    trust_remote_code:
        Run Python code that comes with the model, from a folder or a revision pinned to a commit.
    allow_pickle:
        Read weights from pickle files, which can run code as well, when there are no safetensors.
    device_map:
        How to spread the model over devices, as in accelerate (``auto``).
    exact:
        See :class:`Model`.

    Raises
    ------
    ScoringError
        For a model that is not there, is no causal or masked language model, lacks weights, or needs
        a permission that was not given.
    """
    started = time.perf_counter()
    folder = checkpoint.fetched(str(model), revision, ["config.json", "adapter_config.json"])
    config = checkpoint.config(folder, str(model))
    kind = checkpoint.kind(config, str(model))
    checkpoint.check_code(config, str(model), revision, trusted=trust_remote_code)
    folder = checkpoint.fetched(str(model), revision, None)
    checkpoint.check_pickle(folder, str(model), allowed=allow_pickle)
    place = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    numbers = checkpoint.dtype(dtype, config, place, exact=exact)
    code = {"trust_remote_code": trust_remote_code}
    network = checkpoint.network(
        folder,
        str(model),
        kind,
        use_safetensors=not allow_pickle or None,
        dtype=numbers,
        device_map=device_map or ({"": place} if quantize else None),
        quantization_config=checkpoint.quantized(quantize, numbers),
        **code,
    )
    if not (device_map or quantize):
        network = network.to(place)
    stamp, revision = "", checkpoint.identity(folder)
    if adapter is not None:
        network, stamp = checkpoint.adapted(
            network, str(adapter), adapter_revision, base=str(model), identity_of_base=revision, allowed=allow_pickle
        )
    found = Model(
        network,
        checkpoint.tokenizer(folder, str(model), code),
        kind=kind,
        name=str(model),
        revision=revision,
        adapter=stamp,
        exact=exact,
    )
    found.stats.load_seconds = time.perf_counter() - started
    return found
