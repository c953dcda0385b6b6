"""Ray on this machine, for tests: two processes, little memory, no dashboard."""

import gc
import warnings
from contextlib import contextmanager

import pytest

from tests.support.helpers import ROOT


@pytest.fixture(scope="module")
def machines():
    """Ray with two workers."""
    with running() as ray:
        yield ray


@contextmanager
def running(gpus=0):
    """Ray with two workers, which have the environment of now; it counts ``gpus`` that are not there."""
    ray = pytest.importorskip("ray")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_MODE", "disabled")
        patch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        # By default workers wait for all other work of the machine.
        patch.setenv("RAY_worker_niceness", "0")
        started(ray, gpus)
        yield ray
        ray.shutdown()


def started(ray, gpus, attempts=8):
    """Starts Ray, again if it was too slow.

    Ray ends its own start if one of its Python processes takes more than 15 seconds, and no option changes
    this limit. That happens on a machine that is busy with other work.
    """
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", ResourceWarning
        )  # a start that failed leaves processes to the garbage collector
        for attempt in range(1, attempts + 1):
            try:
                ray.init(
                    num_cpus=2,
                    num_gpus=gpus,
                    object_store_memory=80 << 20,
                    include_dashboard=False,
                    log_to_driver=False,
                    logging_level="error",
                    runtime_env={"env_vars": {"PYTHONPATH": str(ROOT)}},
                )
            except Exception as error:
                ray.shutdown()
                if attempt == attempts or "timed out" not in str(error).lower():
                    raise
            else:
                break
        gc.collect()
