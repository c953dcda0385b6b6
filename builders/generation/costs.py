"""Cost of requests: prices of a model, the highest cost of a request, and a budget that is never exceeded."""

from __future__ import annotations

import json
import threading
import tomllib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from builders.generation.append_log import AppendLog
from builders.generation.responses import ChatError, ChatResponse, request_key
from builders.parsers import read

_MILLION = 1_000_000
# An upper bound on the tokens that a chat template adds to a message.
_TEMPLATE_TOKENS = 16


class BudgetExceeded(ChatError):
    """The next request could cost more than is left."""

    exit_code = 3


@dataclass(frozen=True, slots=True)
class CostModel:
    """Prices of a million tokens of prompts and of replies, in the currency of the bill."""

    prompt: Decimal
    reply: Decimal

    def cost(self, prompt_tokens: int, reply_tokens: int) -> Decimal:
        """The cost of these numbers of tokens.

        >>> CostModel(Decimal("0.5"), Decimal("1.5")).cost(2_000_000, 100_000)
        Decimal('1.15')
        """
        # Decimal, because a budget is compared with sums of many small costs, which floats would round.
        return (self.prompt * prompt_tokens + self.reply * reply_tokens) / _MILLION

    def highest_cost(self, body: Mapping[str, Any]) -> Decimal:
        """The highest possible cost of a request, see :func:`most_tokens`."""
        return self.cost(*most_tokens(body))

    def response_cost(self, response: ChatResponse) -> Decimal:
        """The cost of a response; the highest possible cost where the count of tokens cannot be believed.

        A request without tokens, and a text without tokens, are not believed.
        """
        usage = response.usage or {}
        prompt_tokens, reply_tokens = usage.get("prompt_tokens", 0), usage.get("completion_tokens", 0)
        # A server that reports nothing must not make a request free.
        if prompt_tokens <= 0 or reply_tokens < 0 or (response.text and not reply_tokens):
            return self.highest_cost(response.request)
        return self.cost(prompt_tokens, reply_tokens)


def most_tokens(body: Mapping[str, Any]) -> tuple[int, int]:
    """The most tokens of a request and its response: one a byte, and ``max_tokens``.

    >>> most_tokens({"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 50})
    (21, 50)
    """
    # No tokenizer makes more tokens than bytes, so this needs no tokenizer of the model.
    return len(prompt_text(body).encode()) + _TEMPLATE_TOKENS * len(body["messages"]), body["max_tokens"]


def cost_model(model: str, prompt: str | None, reply: str | None, table: Path | None) -> CostModel | None:
    """The prices of a model: the given ones, else those of a TOML file with a table for each model, else None.

    Raises
    ------
    ChatError
        When one of the two prices is missing, or one is not a number of at least 0.
    """
    # One given price never mixes with one of the file: both must be of the same model.
    if prompt is None and reply is None:
        entry = _read_table(table).get(model) if table else None
        if entry is None:
            return None
        if isinstance(entry, dict):
            prompt, reply = entry.get("prompt"), entry.get("reply")
    advice = "give the prices of a million tokens, for prompts and for replies"
    return CostModel(
        parse_amount("The price of prompts", prompt, advice), parse_amount("The price of replies", reply, advice)
    )


def _read_table(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(read.text(path))
    except tomllib.TOMLDecodeError as error:
        raise ChatError(f"{path} is not TOML ({error}); expected a table of prices for each model.") from None
    except OSError as error:
        raise ChatError(f"The prices in {path} cannot be read ({error.strerror or error}).") from None


def parse_amount(name: str, value: object, advice: str) -> Decimal:
    """An amount of money as an exact number; ``name`` and ``advice`` are parts of the error message.

    Raises
    ------
    ChatError
        When it is not a number, or below 0.

    >>> parse_amount("The budget", "0.10", "")
    Decimal('0.10')
    """
    try:
        amount = Decimal(str(value))
    except InvalidOperation:
        # Refused below with the same sentence as a negative price.
        amount = Decimal(-1)
    if not amount.is_finite() or amount < 0:
        raise ChatError(f"{name} is {value!r}, expected a number of at least 0; {advice}.")
    return amount


def estimate_tokens(text: str) -> int:
    """The estimated number of tokens of a text: one for four bytes, as English has with common tokenizers."""
    # Rounded up, so that a short text costs at least one token.
    return -(-len(text.encode()) // 4)


def prompt_text(body: Mapping[str, Any]) -> str:
    """The text of all messages of a request."""
    return "\n".join(message["content"] for message in body["messages"])


class SentLog(AppendLog):
    """The requests that were sent within a budget, each in a file before it is sent, so that a kill loses no charge.

    A line is JSON: the key and the model of a request, the most tokens of its prompt and reply, 1 when it is sent or -1
    when the server did not process it, and the prices of a million tokens of each. The requests of all models and
    servers count, so that two names do not have a budget each::

        ["<key>", "m", 17, 50, 1, "2.5", "10"]
        ["<key>", "m", 17, 50, -1, "2.5", "10"]

    Parameters
    ----------
    replies:
        The file of recorded replies; the log is a hidden file in the same folder.
    model:
        The model that is asked now.
    prices:
        Its prices, which count for all of its requests; those of other models have the prices at which they were sent.
    server:
        The address that is asked now.

    Raises
    ------
    ChatError
        When a line is none of these, or as :class:`builders.generation.responses.ResponseCache`.
    """

    error = ChatError
    in_use = "Another command adds to {path}; wait until it ends, or give another --replies."
    unusable = "What was sent cannot be noted in {path} ({reason}); give a --replies that can be written and has room."

    def __init__(self, replies: Path, model: str, prices: CostModel | None = None, server: str = "") -> None:
        path = replies.with_name(f".{replies.name}.sent")
        super().__init__(path, path.with_name(f"{path.name}.lock"))
        self.model, self.prices, self.server = model, prices, server
        self._count: Counter[str] = Counter()
        self._tokens: dict[str, tuple[int, int]] = {}
        self._prices: dict[str, CostModel] = {}
        try:
            for number, line in enumerate(self.lines, 1):
                self._read(number, line)
        except BaseException:
            self.close()
            raise

    def _read(self, number: int, line: bytes) -> None:
        """Counts a line of the file."""
        try:
            # Lines of earlier versions have a checksum after a tab, and the first one is an object with their number.
            content = json.loads(line.partition(b"\t")[0])
            if isinstance(content, dict):
                return
            key, sent_to, prompt_tokens, reply_tokens, count, *paid = content
            self._count[key] += int(count)
            self._tokens[key] = int(prompt_tokens), int(reply_tokens)
            if paid and sent_to != self.model:
                prompt, reply = paid
                self._prices[key] = CostModel(Decimal(prompt), Decimal(reply))
        except (ValueError, TypeError, ArithmeticError):
            raise ChatError(
                f"{self.path} line {number} cannot be read, so --budget does not know what was spent; restore the "
                "file, or delete it to count the recorded replies alone."
            ) from None

    def add(self, body: Mapping[str, Any], count: int) -> None:
        """Notes that a request is sent (1), or that one that was noted was not processed (-1)."""
        prompt_tokens, reply_tokens = most_tokens(body)
        line = [request_key(body, self.server), self.model, prompt_tokens, reply_tokens, count]
        if self.prices:
            # As text, because a price is an exact decimal number.
            line += [str(self.prices.prompt), str(self.prices.reply)]
        self.append(json.dumps(line).encode())

    def price(self, key: str, prices: CostModel) -> CostModel:
        """The prices of a request: those at which it was sent to another model, or else the given ones of this one."""
        return self._prices.get(key, prices)

    def unanswered(self, answered: Collection[str], prices: CostModel) -> list[Decimal]:
        """The highest cost of each request of earlier runs that nobody answered; ``answered`` has keys of responses."""
        # Each request that was sent counts up and one that was not processed counts down; an answer settles one.
        costs = []
        for key, count in self._count.items():
            prompt_tokens, reply_tokens = self._tokens[key]
            cost = self.price(key, prices).cost(prompt_tokens, reply_tokens)
            left = count - 1 if key in answered else count
            costs += [cost] * left
        return costs


@dataclass
class Budget:
    """A limit of the cost that threads share: an amount is reserved before a request and paid after it.

    Example: the limit is 10, 6 are spent and a request in progress has reserved 3. A request that can cost 2
    waits; if the one in progress then costs 1 only, 7 are spent and the waiting one is sent. A request that can
    cost 5 is refused when nothing is reserved any more.

    A request that was sent counts its highest possible cost, also without an answer. A response with a plausible
    count of tokens replaces that amount. The limit is exceeded only if a server counts more than :func:`most_tokens`;
    then no further request is sent.

    Parameters
    ----------
    limit:
        The highest cost of all requests together.
    spent:
        The cost of the requests so far.
    sent:
        Keeps what is sent and not answered, for a later command.
    """

    prices: CostModel
    limit: Decimal
    spent: Decimal = Decimal(0)
    sent: SentLog | None = None
    _reserved: Decimal = field(default=Decimal(0), init=False)
    _changed: threading.Condition = field(default_factory=threading.Condition, init=False)

    @classmethod
    def after(
        cls, prices: CostModel, limit: Decimal, responses: Iterable[ChatResponse], sent: SentLog | None = None
    ) -> Budget:
        """A budget from which these responses, and the requests that were sent without one, were already paid."""
        # A request that was sent and not answered may have been paid, so it counts with its highest cost.
        answered = {response.key: response for response in responses}
        spent = Decimal(0)
        for key, response in answered.items():
            # A reply of another model has the prices at which it was requested.
            paid = sent.price(key, prices) if sent else prices
            spent += paid.response_cost(response)
        if sent:
            spent += sum(sent.unanswered(answered.keys(), prices))
        return cls(prices, limit, spent, sent)

    @contextmanager
    def reserve(self, body: Mapping[str, Any]) -> Iterator[list[ChatResponse]]:
        """Reserves the highest cost of a request while the block sends it once.

        At the end the response that was appended to the yielded list is paid; without one, or after an error, the
        highest cost, but nothing after an error that is ``free`` (:class:`builders.sources.client.HttpError`).
        It waits as long as requests in progress may leave enough.

        Raises
        ------
        BudgetExceeded
            When the request could exceed the budget whatever the others cost.
        """
        amount = self.prices.highest_cost(body)
        with self._changed:
            # Another request may cost less than it reserved; only with nothing reserved is the answer final.
            self._changed.wait_for(lambda: self._fits(amount) or not self._reserved)
            if not self._fits(amount):
                raise BudgetExceeded(
                    f"The budget of {self.limit} is reached: {self.spent:.6f} is spent and the next request may cost "
                    f"up to {amount:.6f}; all replies are kept, so run again with a larger --budget to continue."
                )
            self._reserved += amount
        cost, responses = amount, list[ChatResponse]()
        try:
            if self.sent:
                self.sent.add(body, 1)
            yield responses
            if responses:
                cost = self.prices.response_cost(responses[0])
        except Exception as error:
            if getattr(error, "free", False):
                cost = Decimal(0)
                if self.sent:
                    self.sent.add(body, -1)
            raise
        finally:
            with self._changed:
                self._reserved -= amount
                self.spent += cost
                self._changed.notify_all()

    def _fits(self, amount: Decimal) -> bool:
        return self.spent + self._reserved + amount <= self.limit
