"""``probes mitigate merge``: writes a whole model that equals a model with an adapter."""

from pathlib import Path
from typing import Annotated

from rich.console import Console
from typer import Argument, Option

from cards.common import options, terminal
from scoring.inference.load_options import Device, Dtype, ModelName, Revision
from scoring.types import ScoringError


def main(
    model: ModelName,
    adapter: Annotated[str, Argument(metavar="ADAPTER", help="An adapter that was made for this model.")],
    out: Annotated[Path, Option(metavar="FOLDER", help="Folder of the whole model.")],
    revision: Revision = None,
    dtype: Dtype = "auto",
    device: Device = None,
) -> None:
    """Writes a whole model that equals MODEL with ADAPTER, for plain transformers, servers and probes score."""
    from mitigation.adapters import merging  # with it comes torch

    console, errors = Console(soft_wrap=True), Console(stderr=True, soft_wrap=True)
    with options.ended(errors, ScoringError):
        merged = merging.merge(model, adapter, out=out, revision=revision, dtype=dtype, device=device)
        terminal.show(console, merged.changes)
        compared = f"its logits differ by at most {merged.difference:.1e} from those of the adapted one"
        terminal.show(console, [f"The model is {out}; {compared}, over {merging.COMPARED} statements."])
