"""A step that fails as machines do, for tests of counting on many of them."""

import os
import signal
from pathlib import Path

from pmi.counting.local import count_shard
from pmi.counting.steps import CountFiles


class Killed(CountFiles):
    """Is killed in the middle of its second file, the first time, or always."""

    def __init__(self, job, files, marks, times):
        super().__init__(job, files)
        self.marks, self.times = Path(marks), times

    def run(self, data=None, rank=0, world_size=1):
        tries = len(list(self.marks.glob(f"{rank}-*")))
        (self.marks / f"{rank}-{tries}").touch()
        if rank == 1 and tries < self.times:
            [shard] = self.files[rank::world_size]
            count_shard(self.job, shard, lambda size: os.kill(os.getpid(), signal.SIGKILL))
        yield from super().run(data, rank, world_size)
