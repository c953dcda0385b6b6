"""What every recipe needs for Llama-2 7B, beside a count by hand: ``python -m benchmarks.needs``.

Nothing of the model is read: its shape (Touvron et al., 2023) is that of ``LlamaConfig()``, and all is counted on the
device ``meta``. The table is written into docs/recipes-needs.md.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

from transformers import LlamaConfig

from cards.common.files import put
from mitigation import recipes
from mitigation.recipe import trains_all_weights
from mitigation.running.estimate import ACTIVATIONS, CHECKPOINTED, GIB, count, empty_network
from scoring.inference.load_options import LoadOptions

PAGE = Path(__file__).parents[1] / "docs" / "recipes-needs.md"
#: Where the page has the table: between these lines.
BEGIN, END = "Llama-2 7B in GiB,", "`gradiend` learns an encoder"
#: Recipes that are counted in another way too: in 4 bits, or with the settings of the paper.
MORE: tuple[tuple[str, str, str | None], ...] = (("debias_tuning", "clean", "4bit"), ("cda", "paper", None))
#: The shape of Llama-2 7B: words, width, width of the feed-forward part, blocks, and all weights.
WORDS, WIDTH, INNER, BLOCKS, WEIGHTS = 32_000, 4_096, 11_008, 32, 6_738_415_616
#: Inputs and outputs of the maps of a block: four of attention, three of the feed-forward part.
SIDES = 4 * 2 * WIDTH + 3 * (WIDTH + INNER)


def by_hand() -> dict[str, tuple[float, str]]:
    """By recipe, the GiB of weights, adapter, gradients and optimizer, and how they are counted.

    AdamW keeps two numbers for each trained one, all of 4 bytes; activations are not counted by hand.
    """
    lora, units = 16 * SIDES * BLOCKS, round(4 * WIDTH / 3)
    stamp, changed = 2 * units * WIDTH, WEIGHTS - WORDS * WIDTH
    learner = 3 * changed
    return {
        "dpo": (
            (2 * WEIGHTS + 4 * 4 * lora) / GIB,
            f"2 · {WEIGHTS:,} + 16 · {lora:,}: a LoRA of rank 16 has 16 · {SIDES:,} numbers in each of {BLOCKS} blocks",
        ),
        "fast": (
            (2 * WEIGHTS + 4 * 4 * stamp) / GIB,
            f"2 · {WEIGHTS:,} + 16 · {stamp:,}: two matrices of {units:,} · {WIDTH:,}",
        ),
        "gradiend": (
            4 * (WEIGHTS + 4 * learner + 4 * changed) / GIB,
            f"4 · ({WEIGHTS:,} + 4 · {learner:,} + 4 · {changed:,}): three numbers for each weight outside the head, "
            "and four vectors of these weights",
        ),
    }


def counted(model: Path, name: str, profile: str, bits: str | None) -> dict[str, float]:
    """The GiB of a recipe by part, and the trained parameters."""
    recipe = recipes.get(name)
    settings = recipe.profiles[profile]
    whole = trains_all_weights(recipe, settings) or recipe.memory is not None
    dtype: Literal["float32", "float16"] = "float32" if whole else "float16"  # as on a GPU
    empty = empty_network(LoadOptions(str(model), device="cpu", dtype=dtype))
    made = count(recipe, settings, empty, "4bit" if bits else None)
    least = {key: made.parts.get(key, 0) / GIB for key in ("weights", ACTIVATIONS, CHECKPOINTED)}
    most = made.most / GIB
    # What is active at once, less the weights and the activations, is the adapter with what trains it.
    return {"most": most, **least, "trained": made.trained, "rest": most - least["weights"] - least[ACTIVATIONS]}


def rows(model: Path) -> Iterator[str]:
    """The lines of the table, from the smallest need to the largest."""
    yield (
        "| recipe | at most at once | weights | adapter, gradients and optimizer | activations | the same with "
        "`--gradient-checkpointing` | trained parameters | without activations, counted by hand |"
    )
    yield "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
    hands = by_hand()
    found: list[tuple[float, str]] = []
    ways: list[tuple[str, str, str | None]] = [(name, "clean", None) for name in recipes.names()]
    ways.extend(MORE)
    for name, profile, bits in ways:
        one = counted(model, name, profile, bits)
        what = f"`{name}`" if profile == "clean" else f"`{name} --profile {profile}`"
        what += ", 4 bits" if bits else ""
        what += ", float32" if one["weights"] > 4 * WEIGHTS / GIB - 0.1 else ""
        cells = [what, f"{one['most']:.2f}", f"{one['weights']:.2f}"]
        cells += trained_cells(name, one)
        cells.append(f"{hands[name][0]:.2f}" if name in hands and profile == "clean" else "")
        found.append((one["most"], f"| {' | '.join(cells)} |"))
    found.sort(key=lambda each: each[0])
    for _, line in found:
        yield line


def trained_cells(name: str, one: Mapping[str, float]) -> list[str]:
    """The cells of what a training needs; empty for a recipe that trains nothing."""
    if not one["trained"]:
        return ["", "", "", "0"]
    possible = hasattr(recipes.get(name).profiles["clean"], "gradient_checkpointing")
    less = f"{one[CHECKPOINTED]:.2f}" if possible else "it has none"
    return [f"{one['rest']:.2f}", f"{one[ACTIVATIONS]:.2f}", less, f"{one['trained']:,.0f}"]


def table() -> str:
    """The text of the page from :data:`BEGIN` to :data:`END`."""
    with tempfile.TemporaryDirectory() as folder:
        config = LlamaConfig().to_dict() | {"architectures": ["LlamaForCausalLM"], "dtype": "float16"}
        (Path(folder) / "config.json").write_text(json.dumps(config))
        lines = "\n".join(rows(Path(folder)))
    counts = "\n".join(f"- `{name}`: {words}." for name, (_, words) in by_hand().items())
    return (
        f"{BEGIN} all recipes with the settings of `clean` and two in another way, weights in float16 unless the "
        "recipe trains them (`python -m benchmarks.needs`):\n\n"
        f"{lines}\n\n"
        "The last column is a count by hand, in bytes, with two numbers of AdamW and a gradient for each trained "
        f"number:\n\n{counts}\n\n"
    )


def with_table(text: str, made: str) -> str:
    """A page with its table replaced."""
    before, rest = text.split(BEGIN, 1)
    _, after = rest.split(END, 1)
    return f"{before}{made}{END}{after}"


def main() -> None:
    """Counts, and writes the table into the page."""
    put(PAGE, with_table(PAGE.read_text(encoding="utf-8"), table()).encode())


if __name__ == "__main__":
    main()
