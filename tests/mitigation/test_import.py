"""What importing the package takes, and what it leaves to the moment that it is needed."""

import subprocess
import sys

PROGRAM = """
import sys
from mitigation import recipes
assert all(recipes.get(name).summary for name in recipes.names())
left = {"nltk", "peft", "pooch", "sklearn", "torch", "transformers"}
assert not left & sys.modules.keys(), "recipes are listed without what they may need"
import mitigation.__main__
assert not {"peft", "torch", "transformers"} & sys.modules.keys(), "the command waits for what it may not need"
import peft
assert peft.PeftType("FAST") in peft.PEFT_TYPE_TO_CONFIG_MAPPING
print(peft.PEFT_TYPE_TO_CONFIG_MAPPING[peft.PeftType("FAST")].__module__)
"""


def test_the_command_imports_peft_when_needed_and_the_stamp_is_known_then():
    ended = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=300, check=False)
    assert (ended.returncode, ended.stdout.strip()) == (0, "scoring.adapters.stamp"), ended.stderr
