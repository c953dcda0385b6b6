"""Responses are kept by content, exactly, and by nobody else's setting."""

import json
import math
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring.inference.store import Store, digest
from scoring.types import Option, Request, Response, ScoringError
from tests.support.helpers import ROOT

KEY = {
    "model": "org/model",
    "revision": "a" * 40,
    "dtype": "float32",
    "quantization": "",
    "adapter": "",
    "prompt": "Continue: {text}",
    "chat": "no",
    "decoding": "greedy",
    "version": "0.1.0",
}
ASK = Request("1", "The nurse said that", (Option(" he"), Option(" she")), (" he", " she"), 3)
REPLY = Response("1", ((-1.25,), (-0.5, -2.0)), (-3.0, math.nan), "and so\nit was")


def same(found, expected):
    """Equal responses; NaN equals NaN."""
    return found is not None and repr(found) == repr(expected)


def asked(n):
    return Request(str(n), f"text {n}", (Option(" x"),))


def kept(folder, count, key=KEY):
    """The file of a store with so many responses, closed."""
    with Store(folder, key) as store:
        for n in range(count):
            store.put(asked(n), Response(str(n), ((-n / 7,),)))
    return store.path


def test_a_reply_is_found_again_after_reopening(tmp_path):
    with Store(tmp_path, KEY) as store:
        assert store.get(ASK) is None
        store.put(ASK, REPLY)
        assert same(store.get(ASK), REPLY)
    with Store(tmp_path, KEY) as store:
        assert len(store) == 1
        assert same(store.get(ASK), REPLY)


def test_a_reply_belongs_to_the_content_and_not_to_the_id(tmp_path):
    with Store(tmp_path, KEY) as store:
        store.put(ASK, REPLY)
        other = Request("2", ASK.context, ASK.options, ASK.candidates, ASK.max_new)
        assert same(store.get(other), Response("2", REPLY.logprobs, REPLY.candidate_logprobs, REPLY.text))


@pytest.mark.parametrize(
    "other",
    [
        Request("1", "The nurse said", ASK.options, ASK.candidates, 3),
        Request("1", ASK.context, ASK.options[::-1], ASK.candidates, 3),
        Request("1", ASK.context, (Option(" he", ((1, 3),)), Option(" she")), ASK.candidates, 3),
        Request("1", ASK.context, (Option(" he", mask="left"), Option(" she")), ASK.candidates, 3),
        Request("1", ASK.context, (Option(" he", width=8), Option(" she")), ASK.candidates, 3),
        Request("1", ASK.context, ASK.options, (" he",), 3),
        Request("1", ASK.context, ASK.options, ASK.candidates, 4),
        Request("1", ASK.context + " he", ASK.options[1:], ASK.candidates, 3),
    ],
)
def test_an_ask_that_differs_in_anything_is_another_ask(tmp_path, other):
    with Store(tmp_path, KEY) as store:
        store.put(ASK, REPLY)
        assert store.get(other) is None


@given(
    st.lists(st.floats(max_value=0, allow_nan=False, allow_infinity=False), min_size=1),
    st.text(st.characters()),
    st.text(st.characters()),
)
def test_numbers_and_texts_come_back_exactly(tmp_path_factory, numbers, context, text):
    request = Request("1", context, (Option(" x"), Option("", ())), tuple("abc"[: len(numbers) % 3]))
    response = Response("1", (tuple(numbers), (-1.0,)), (math.nan, -2.0)[: len(request.candidates)], text)
    folder = tmp_path_factory.mktemp("store")
    for _ in range(2):
        with Store(folder, KEY) as store:
            result = store.get(request)
            store.put(request, response)
    assert same(result, response)


@pytest.mark.fault(69)
def test_a_line_that_cannot_be_read_is_named_and_its_question_is_asked_again(tmp_path):
    path = kept(tmp_path, 3)
    lines = path.read_bytes().split(b"\n")
    lines[2] = lines[2].replace(b"-0.142", b"-0x142")
    path.write_bytes(b"\n".join(lines))
    with Store(tmp_path, KEY) as store:
        assert store.damaged == [3]
        assert [store.get(asked(n)) is None for n in range(3)] == [False, True, False]
        store.put(asked(1), Response("1", ((-1 / 7,),)))
    with Store(tmp_path, KEY) as store:
        assert store.get(asked(1)).logprobs == ((-1 / 7,),)


@pytest.mark.fault(69)
@pytest.mark.parametrize(
    ("response", "told"),
    [
        (Response("1", ((0.5,), (-0.5,)), (-3.0, -1.0)), "has a log-probability above 0"),
        (Response("1", ((-0.5,), (-0.5,)), (-3.0, 1.0)), "has a log-probability above 0"),
        (Response("1", ((-0.5,),), (-3.0, -1.0)), "has not one entry for each option and candidate"),
        (Response("1", (), (-3.0, -1.0)), "has not one entry for each option and candidate"),
        (Response("1", ((-0.5,), (-0.5,)), ()), "has not one entry for each option and candidate"),
        (Response("1", ((-0.5,), ()), (-3.0, -1.0)), "has no log-probability of an option"),
    ],
)
def test_what_cannot_be_a_response_is_not_kept(tmp_path, response, told):
    with Store(tmp_path, KEY) as store:
        with pytest.raises(ScoringError, match=f"'1'.*{told}"):
            store.put(ASK, response)
        assert store.get(ASK) is None


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_log_probability_that_is_none_is_not_kept(tmp_path, value):
    with Store(tmp_path, KEY) as store:
        with pytest.raises(ScoringError, match="'1'"):
            store.put(ASK, Response("1", ((value,),)))
        assert store.get(ASK) is None
    assert len(store.path.read_bytes().splitlines()) == 1


@pytest.mark.fault(42)
@pytest.mark.parametrize("name", KEY)
def test_replies_given_under_another_setting_are_not_reused(tmp_path, name):
    kept(tmp_path, 3)
    with Store(tmp_path, KEY | {name: "other"}) as store:
        assert len(store) == 0
    with Store(tmp_path, KEY) as store:
        assert len(store) == 3


@pytest.mark.fault(42)
def test_a_file_under_the_name_of_another_setting_is_refused(tmp_path):
    old = kept(tmp_path, 3)
    new = kept(tmp_path, 1, KEY | {"revision": "b" * 40})
    new.write_bytes(old.read_bytes())
    with pytest.raises(ScoringError, match="another key"):
        Store(tmp_path, KEY | {"revision": "b" * 40})
    assert new.read_bytes() == old.read_bytes()
    new.unlink()
    with Store(tmp_path, KEY | {"revision": "b" * 40}) as store:
        assert len(store) == 0


@pytest.mark.fault(43)
def test_a_half_written_last_line_is_dropped_and_asked_again(tmp_path):
    path = kept(tmp_path, 3)
    whole = path.read_bytes()
    last = whole.rstrip(b"\n").rfind(b"\n") + 1
    for cut in range(last, len(whole)):
        path.write_bytes(whole[:cut])
        with Store(tmp_path, KEY) as store:
            assert len(store) == 2
            assert store.get(asked(2)) is None
            store.put(asked(2), Response("2", ((-2 / 7,),)))
        assert path.read_bytes() == whole


@pytest.mark.fault(43)
def test_a_half_written_first_line_is_a_new_file(tmp_path):
    path = kept(tmp_path, 0)
    header = path.read_bytes()
    for cut in range(len(header)):
        path.write_bytes(header[:cut])
        with Store(tmp_path, KEY) as store:
            assert len(store) == 0
        assert path.read_bytes() == header


@pytest.mark.parametrize("damage", [b"\0" * 20, b'{"a": 1}', b'["a", 1, 2, 3]', b"[]", b"\xff", b""])
def test_a_damaged_line_costs_only_its_own_reply(tmp_path, damage):
    path = kept(tmp_path, 3)
    lines = path.read_bytes().splitlines()
    path.write_bytes(b"\n".join([*lines[:2], damage, *lines[3:], b""]))
    with Store(tmp_path, KEY) as store:
        assert len(store) == 2
        assert store.get(asked(1)) is None
        assert store.get(asked(2)) is not None


KILLED = """
import sys
from scoring.inference.store import Store
from scoring.types import Option, Request, Response
with Store(sys.argv[1], {"model": "m"}) as store:
    for n in range(10**9):
        request = Request(str(n), f"text {n}", (Option(" x"),))
        store.put(request, Response(str(n), ((-n / 7,),), text="x" * 500))
"""


@pytest.mark.fault(41)
@pytest.mark.parametrize("size", [1, 20_000, 333_333])
def test_a_killed_process_leaves_a_prefix_that_opens(tmp_path, size):
    child = subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path)], cwd=ROOT, stderr=subprocess.PIPE)
    with child:
        while sum(p.stat().st_size for p in tmp_path.glob("*.jsonl")) < size:
            assert child.poll() is None, child.stderr.read()
            time.sleep(0.001)
        child.send_signal(signal.SIGKILL)
    with Store(tmp_path, {"model": "m"}) as store:
        count = len(store)
        assert count >= size // 600
        for n in range(count):
            assert store.get(asked(n)).logprobs == ((-n / 7,),)
        assert store.get(Request("again", f"text {count}")) is None


def test_a_reply_that_was_put_outlives_a_kill_at_once(tmp_path):
    code = "import os, signal\n" + KILLED.replace("for n in range(10**9):", "for n in range(5):")
    code += "    os.kill(os.getpid(), signal.SIGKILL)\n"
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], cwd=ROOT, check=False)
    assert done.returncode == -signal.SIGKILL
    with Store(tmp_path, {"model": "m"}) as store:
        assert len(store) == 5


def test_two_runs_on_one_file_are_refused(tmp_path):
    with Store(tmp_path, KEY) as store:
        code = (
            "import sys, json; from scoring.inference.store import Store; Store(sys.argv[1], json.loads(sys.argv[2]))"
        )
        command = [sys.executable, "-c", code, str(tmp_path), json.dumps(KEY)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        expected = f"The responses in {store.path} are in use by another command; wait for its end, or write to another"
        assert expected in done.stderr
        with Store(tmp_path, KEY | {"model": "other"}) as other:
            assert len(other) == 0
    with Store(tmp_path, KEY) as store:
        assert len(store) == 0


@pytest.mark.fault(15)
@pytest.mark.parametrize("name", ["../../x", "x" * 300, "a\0b", "C:\\x|y*?", "", "\ud800", "/etc/x", "日本"])
def test_any_name_is_safe_as_part_of_a_key(tmp_path, name):
    folder = tmp_path / "inner"
    path = kept(folder, 2, KEY | {"model": name, "prompt": name})
    assert path.parent == folder
    assert [p.name for p in tmp_path.iterdir()] == ["inner"]
    with Store(folder, KEY | {"model": name, "prompt": name}) as store:
        assert len(store) == 2


def test_a_folder_that_cannot_be_made_is_told_in_a_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ScoringError, match="cannot be kept"):
        Store(tmp_path / "file" / "responses", KEY)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_is_told_in_a_sentence(tmp_path):
    store = Store(tmp_path, KEY)
    store._file.close()
    with open("/dev/full", "wb", buffering=0) as store._file, pytest.raises(ScoringError, match="No space left"):
        store.put(ASK, REPLY)
    store._file = None
    store.close()
    assert store.get(ASK) is None


def test_closing_twice_is_harmless(tmp_path):
    store = Store(tmp_path, KEY)
    store.close()
    store.close()


def test_twenty_thousand_replies_are_read_in_one_pass_over_the_file(tmp_path):
    path = kept(tmp_path, 20_000)
    size = path.stat().st_size
    with Store(tmp_path, KEY) as store:
        assert len(store) == 20_000
        assert store.get(asked(19_999)).logprobs == ((-19_999 / 7,),)
    assert path.stat().st_size == size


def test_the_digest_of_an_ask_is_the_same_on_every_machine():
    assert digest(ASK) == "baf8339e0a9e405a12b950aefa055071"
