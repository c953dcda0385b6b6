"""Cost of requests: prices of a model, the highest cost of a request, and a budget that is never exceeded."""

from __future__ import annotations

import threading
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from builders.generation.responses import ChatError, Response
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
        return (self.prompt * prompt_tokens + self.reply * reply_tokens) / _MILLION

    def highest_cost(self, body: Mapping[str, Any]) -> Decimal:
        """The highest possible cost of a request: one token a byte, and a response of ``max_tokens`` tokens."""
        tokens = len(prompt_text(body).encode()) + _TEMPLATE_TOKENS * len(body["messages"])
        return self.cost(tokens, body["max_tokens"])

    def response_cost(self, response: Response) -> Decimal:
        """The cost of a response; the highest possible cost where the server did not count the tokens."""
        if response.usage is None:
            return self.highest_cost(response.request)
        return self.cost(response.usage["prompt_tokens"], response.usage["completion_tokens"])


def cost_model(model: str, prompt: str | None, reply: str | None, table: Path | None) -> CostModel | None:
    """The prices of a model: the given ones, else those of a TOML file with a table for each model, else None.

    Raises
    ------
    ChatError
        When one of the two prices is missing, or one is not a number of at least 0.
    """
    if prompt is None and reply is None:
        entry = _read_table(table).get(model) if table else None
        if entry is None:
            return None
        prompt, reply = (entry.get(name) if isinstance(entry, dict) else None for name in ("prompt", "reply"))
    advice = "give the prices of a million tokens, for prompts and for replies"
    prices = (("prompts", prompt), ("replies", reply))
    return CostModel(*(parse_amount(f"The price of {tokens}", price, advice) for tokens, price in prices))


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
        amount = Decimal(-1)
    if not amount.is_finite() or amount < 0:
        raise ChatError(f"{name} is {value!r}, expected a number of at least 0; {advice}.")
    return amount


def estimate_tokens(text: str) -> int:
    """The estimated number of tokens of a text: one for four bytes, as English has with common tokenizers."""
    return -(-len(text.encode()) // 4)


def prompt_text(body: Mapping[str, Any]) -> str:
    """The text of all messages of a request."""
    return "\n".join(message["content"] for message in body["messages"])


@dataclass
class Budget:
    """A limit of the cost that threads share: an amount is reserved before a request and paid after it.

    Example: the limit is 10, 6 are spent and a request in progress has reserved 3. A request that can cost 2
    waits; if the one in progress then costs 1 only, 7 are spent and the waiting one is sent. A request that can
    cost 5 is refused when nothing is reserved any more.

    Parameters
    ----------
    limit:
        The highest cost of all responses together.
    spent:
        The cost of the responses so far.
    """

    prices: CostModel
    limit: Decimal
    spent: Decimal = Decimal(0)
    _reserved: Decimal = field(default=Decimal(0), init=False)
    _changed: threading.Condition = field(default_factory=threading.Condition, init=False)

    @classmethod
    def after(cls, prices: CostModel, limit: Decimal, responses: Iterable[Response]) -> Budget:
        """A budget from which these responses were already paid."""
        return cls(prices, limit, sum(map(prices.response_cost, responses), Decimal(0)))

    @contextmanager
    def reserve(self, body: Mapping[str, Any]) -> Iterator[list[Response]]:
        """Reserves the highest cost of a request; the responses appended to the yielded list are paid at the end.

        It waits as long as requests in progress may leave enough.

        Raises
        ------
        BudgetExceeded
            When the request could exceed the budget whatever the others cost.
        """
        amount = self.prices.highest_cost(body)
        with self._changed:
            self._changed.wait_for(lambda: self._fits(amount) or not self._reserved)
            if not self._fits(amount):
                raise BudgetExceeded(
                    f"The budget of {self.limit} is reached: {self.spent:.6f} is spent and the next request may cost "
                    f"up to {amount:.6f}; all replies are kept, so run again with a larger --budget to continue."
                )
            self._reserved += amount
        responses: list[Response] = []
        try:
            yield responses
        finally:
            with self._changed:
                self._reserved -= amount
                self.spent += sum(map(self.prices.response_cost, responses), Decimal(0))
                self._changed.notify_all()

    def _fits(self, amount: Decimal) -> bool:
        return self.spent + self._reserved + amount <= self.limit
