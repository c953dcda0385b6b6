"""What tests of mitigation share: no picture and no page, which each take longer to draw than a few steps of training,
and no waiting for a network.

The pages of evaluations are tested in tests/scoring, and drawn where the commands of README run.
"""

from pathlib import Path
from unittest import mock

import pytest

from mitigation.running import outcome, plots
from scoring import report
from tests.support.helpers import one_attempt


@pytest.fixture(scope="module", autouse=True)
def undrawn():
    """Has an empty file for the picture of the losses, and empty pages for runs and comparisons."""

    def empty(curve, path, *_, **__):
        Path(path).touch()

    with (
        mock.patch.object(plots, "plot_losses", mock.create_autospec(plots.plot_losses, side_effect=empty)),
        mock.patch.object(report, "page", mock.create_autospec(report.page, return_value="")),
        mock.patch.object(report, "comparison_page", mock.create_autospec(report.comparison_page, return_value="")),
    ):
        yield


@pytest.fixture(scope="module", autouse=True)
def few_sentences(request):
    """Asks one sentence of each side and kind of those by which a recipe is judged; test_outcome has all of them."""
    if request.module.__name__.endswith("test_outcome"):
        yield
        return
    with mock.patch.object(outcome, "PER_SIDE", 1):
        yield


@pytest.fixture(scope="module", autouse=True)
def not_waiting():
    """Asks for what the mirror lacks once."""
    with one_attempt():
        yield
