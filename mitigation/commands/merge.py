"""Merges an adapter into its model: ``python -m mitigation merge MODEL ADAPTER --out FOLDER``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from scoring.inference.load_options import Device, Dtype, ModelName, Revision
from scoring.terminal import ended, tell


def main(
    model: ModelName,
    adapter: Annotated[str, typer.Argument(metavar="ADAPTER", help="An adapter that was made for this model.")],
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder of the whole model.")],
    revision: Revision = None,
    dtype: Dtype = "auto",
    device: Device = None,
) -> None:
    """Writes a whole model that equals MODEL with ADAPTER, for plain transformers, servers and probes score."""
    console, errors = Console(soft_wrap=True), Console(stderr=True, soft_wrap=True)
    with ended(errors):
        from mitigation.adapters.merging import COMPARED, merge

        made = merge(model, adapter, out=out, revision=revision, dtype=dtype, device=device)
        compared = f"its logits differ by at most {made.difference:.1e} from those of the adapted one"
        tell(console, [*made.changes, f"The model is {out}; {compared}, over {COMPARED} statements."])
