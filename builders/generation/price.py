"""What asking costs: prices by model, the most that a call can cost, and a budget that is never exceeded."""

from __future__ import annotations

import threading
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from builders.generation.chat import ChatError, Record
from builders.parsers import read

_MILLION = 1_000_000
# Tokens that a chat template may put around a message, generously.
_AROUND = 16


class OverBudget(ChatError):
    """The next call could cost more than is left."""

    exit_code = 3


@dataclass(frozen=True, slots=True)
class Price:
    """What a million tokens of prompts and of replies cost, in the currency of the bill."""

    prompt: Decimal
    reply: Decimal

    def of(self, prompt_tokens: int, reply_tokens: int) -> Decimal:
        """The cost of so many tokens.

        >>> Price(Decimal("0.5"), Decimal("1.5")).of(2_000_000, 100_000)
        Decimal('1.15')
        """
        return (self.prompt * prompt_tokens + self.reply * reply_tokens) / _MILLION


def price(model: str, prompt: str | None, reply: str | None, table: Path | None) -> Price | None:
    """The price of a model: as given, else from a TOML file with a table a model; None when it is unknown.

    Raises
    ------
    ChatError
        When one of the two prices is missing, or one is no number of at least 0.
    """
    if prompt is None and reply is None:
        entry = _table(table).get(model) if table else None
        if entry is None:
            return None
        prompt, reply = (entry.get(name) if isinstance(entry, dict) else None for name in ("prompt", "reply"))
    return Price(_amount("of prompts", prompt), _amount("of replies", reply))


def _table(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(read.text(path))
    except tomllib.TOMLDecodeError as error:
        raise ChatError(f"{path} is not TOML ({error}); expected a table of prices a model.") from None
    except OSError as error:
        raise ChatError(f"The prices in {path} cannot be read ({error.strerror or error}).") from None


def _amount(what: str, given: object) -> Decimal:
    """A price or a budget as an exact number; "0.1" is a tenth."""
    return amount(f"The price {what}", given, "tokens are priced by the million, for prompts and for replies")


def amount(what: str, given: object, advice: str) -> Decimal:
    """A sum of money as an exact number.

    Raises
    ------
    ChatError
        When it is none, or below 0.

    >>> amount("The budget", "0.10", "")
    Decimal('0.10')
    """
    try:
        value = Decimal(str(given))
    except InvalidOperation:
        value = Decimal(-1)
    if not value.is_finite() or value < 0:
        raise ChatError(f"{what} is {given!r}, expected a number of at least 0; {advice}.")
    return value


def about_tokens(text: str) -> int:
    """About how many tokens a text has: one for every four bytes, as English has with common tokenizers."""
    return -(-len(text.encode()) // 4)


def prompt_text(request: Mapping[str, Any]) -> str:
    """All that the messages of a request say."""
    return "\n".join(message["content"] for message in request["messages"])


def most(request: Mapping[str, Any], price: Price) -> Decimal:
    """The most that a call can cost: no token is less than a byte, and no reply is longer than asked for."""
    tokens = len(prompt_text(request).encode()) + _AROUND * len(request["messages"])
    return price.of(tokens, request["max_tokens"])


def cost(made: Record, price: Price) -> Decimal:
    """What a recorded reply cost, or the most it can have cost where its tokens were not counted."""
    if made.usage is None:
        return most(made.request, price)
    return price.of(made.usage["prompt_tokens"], made.usage["completion_tokens"])


@dataclass
class Purse:
    """A budget shared by threads: money is put aside before a call and paid after it.

    Parameters
    ----------
    budget:
        What all replies together may cost.
    spent:
        What those that are there already did.
    """

    price: Price
    budget: Decimal
    spent: Decimal = Decimal(0)
    _aside: Decimal = field(default=Decimal(0), init=False)
    _changed: threading.Condition = field(default_factory=threading.Condition, init=False)

    @classmethod
    def holding(cls, price: Price, budget: Decimal, replies: Iterable[Record]) -> Purse:
        """A purse from which these replies were paid."""
        return cls(price, budget, sum((cost(made, price) for made in replies), Decimal(0)))

    @contextmanager
    def paying(self, request: Mapping[str, Any]) -> Iterator[list[Record]]:
        """Puts aside the most that the request can cost; the list it gives is for the reply that is to be paid.

        While other calls may still leave enough, it waits for them.

        Raises
        ------
        OverBudget
            When the call could exceed the budget whatever the others cost.
        """
        amount = most(request, self.price)
        with self._changed:
            self._changed.wait_for(lambda: self._fits(amount) or not self._aside)
            if not self._fits(amount):
                raise OverBudget(
                    f"The budget of {self.budget} is reached: {self.spent:.6f} is spent and the next call may cost up "
                    f"to {amount:.6f}; what was replied is kept, so run again with a larger --budget to go on."
                )
            self._aside += amount
        replies: list[Record] = []
        try:
            yield replies
        finally:
            with self._changed:
                self._aside -= amount
                self.spent += sum((cost(made, self.price) for made in replies), Decimal(0))
                self._changed.notify_all()

    def _fits(self, amount: Decimal) -> bool:
        return self.spent + self._aside + amount <= self.budget
