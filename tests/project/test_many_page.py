"""The tables of the page of many models are those of the stored measurements."""

import json

from benchmarks.many import PAGE, RESULT, ROWS, tables
from tools.docs.shown import BEGIN, END


def test_the_page_has_what_was_measured():
    text = tables(json.loads(RESULT.read_text()), json.loads(ROWS.read_text()))
    assert f"{BEGIN}\n{text}\n{END}" in PAGE.read_text()


def test_a_table_says_what_is_lacking():
    machine = {"cpu_s": 1.0, "peak_mb": 2}
    rows = {"lines": {"10": {"rows": 10, "tokens": 280, "ours": machine}}}
    memory = {"weights_mb": 1, "peak of 2 above one, %": 1.5, "peak of 3 above one, %": 2.5}
    many = {
        "memory": memory | {f"{count} models": machine for count in (1, 2, 3)},
        "hundred": {"runs": 100, "rows": {"a": 1500}, "compare": machine, "leaderboard": machine},
        "startup": {"probes list": 0.5},
        "families": {"models": 2, "first": {"printed": ["1/2 a: b"]}, "again": {"printed": []}},
    }
    lines = tables(many, rows).splitlines()
    assert lines[2] == "| 10 | 280 | 1.0 | – | – | 2 | – | – |"
    assert "| `probes compare` of 100 runs of 1,500 rows | 1.0 | 2 |" in lines
    assert "Two and three equal networks need 1.5 and 2.5 % more memory than one." in lines
    assert "1/2 a: b" in lines
