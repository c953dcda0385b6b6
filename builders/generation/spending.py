"""The options that say whether requests are sent, and what they may cost."""

from dataclasses import dataclass
from typing import Annotated

from typer import Option


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """Whether requests are sent, and what all replies may cost."""

    offline: Annotated[bool, Option("--offline", help="Use recorded replies only: no key, no network.")] = False
    dry_run: Annotated[bool, Option("--dry-run", help="Only say what it would take or cost.")] = False
    budget: Annotated[str | None, Option(metavar="SUM", help="Highest cost of all requests together.")] = None
    price_prompt: Annotated[str | None, Option(metavar="SUM", help="Price of a million tokens of prompts.")] = None
    price_reply: Annotated[str | None, Option(metavar="SUM", help="Price of a million tokens of replies.")] = None
    limit_name: Annotated[str, Option(metavar="NAME", help="What the API calls the limit of tokens.")] = "max_tokens"
