"""The step of a datatrove pipeline that scores models.

Only this file imports datatrove, so that the other modules work without it.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from datatrove.pipeline.base import PipelineStep  # type: ignore[import-untyped]

from scoring.cluster import FAILED, task, write_failure
from scoring.engines import Call


class ScoreModels(PipelineStep):  # type: ignore[misc]
    """A step that scores models, divided between the tasks; it is the only step of its pipeline."""

    name = "Score models"
    type = "Scoring"

    def __init__(self, calls: Sequence[tuple[str, Call]], folder: str) -> None:
        super().__init__()
        self.calls, self.folder = tuple(calls), folder

    def run(self, data: Iterable[Any] | None = None, rank: int = 0, world_size: int = 1) -> Iterator[Any]:
        """Scores the models ``rank``, ``rank + world_size``, …; documents of an earlier step pass through."""
        for name, call in self.calls[rank::world_size]:
            outcome = task(name, call, self.folder)
            if outcome.sentence:
                write_failure(outcome)
            else:
                (outcome.folder / FAILED).unlink(missing_ok=True)
            self.stat_update("failed" if outcome.sentence else "scored")
        yield from data or ()
