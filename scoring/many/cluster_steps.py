"""The step of a datatrove pipeline that scores models.

Only this file imports datatrove, so that the other modules work without it.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from datatrove.pipeline.base import PipelineStep  # type: ignore[import-untyped]

from scoring.inference.engines import Call
from scoring.many.cluster import task, write_failure


class ScoreModels(PipelineStep):  # type: ignore[misc]
    """A step that scores models, divided between the tasks; it is the only step of its pipeline.

    Parameters
    ----------
    calls:
        The models with their calls.
    folder:
        The folder in which the command was started.
    job:
        The folder in which tasks say what is wrong with a model.
    """

    name = "Score models"
    type = "Scoring"

    def __init__(self, calls: Sequence[tuple[str, Call]], folder: str, job: str) -> None:
        super().__init__()
        self.calls = tuple(calls)
        self.folder = folder
        self.job = job

    def run(self, data: Iterable[Any] | None = None, rank: int = 0, world_size: int = 1) -> Iterator[Any]:
        """Scores the models ``rank``, ``rank + world_size``, …; documents of an earlier step pass through."""
        for name, call in self.calls[rank::world_size]:
            outcome = task(name, call, self.folder)
            if outcome.sentence:
                write_failure(outcome, call, Path(self.job))
            self.stat_update("failed" if outcome.sentence else "scored")
        yield from data or ()
