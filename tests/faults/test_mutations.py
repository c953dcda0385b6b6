"""Files whose values nothing computes again are changed in seeded ways: no change is silent, a traceback or a hang."""

import pytest

from tests.faults.kinds import KINDS, measure

#: Changes of a kind in the tests; those of a model, which is loaded each time, are fewer.
SHARE, OF_A_MODEL = 60, 6


@pytest.mark.fault(69)
@pytest.mark.parametrize("name", KINDS)
def test_no_change_of_a_file_is_silent_or_a_traceback(tmp_path, name):
    assert measure(name, tmp_path, OF_A_MODEL if name.endswith((".json", ".safetensors")) else SHARE).faults == []
