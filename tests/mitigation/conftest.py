"""What tests of trainings share: no picture, where no test looks at one."""

from pathlib import Path
from unittest import mock

import pytest

from mitigation import plots


@pytest.fixture(scope="module")
def undrawn():
    """Has an empty file for the picture of the losses, which takes longer to draw than a few steps of training."""

    def empty(curve, path, *_, **__):
        Path(path).touch()

    with mock.patch.object(plots, "plot_losses", mock.create_autospec(plots.plot_losses, side_effect=empty)):
        yield
