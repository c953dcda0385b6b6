"""Methods with made changes: of gender, with language ability, seeds and pairs of their own."""

from mitigation.methods.comparison import Method, changes_frame, tables_of
from scoring.adapters.facts import Adapter, Change, Cost

GENDER = "intrasentence test gender"


def change(key, before, after, half):
    ends = (after - before - half, after - before + half)
    return Change(*key, (before, before - 4, before + 4), (after, after - 4, after + 4), (after - before, *ends), 90)


def adapter(recipe, ss, lms, *more, held_out=None, domain="gender"):
    changes = [
        change(("stereoset", GENDER, "ss"), 60.0, ss, 1.0),
        change(("stereoset", GENDER, "lms"), 90.0, lms, 1.0),
        change(("text", "held-out texts", "pseudo_perplexity"), 20.0, 20.1, 0.1),
        *more,
    ]
    if held_out:
        changes.append(change(("fast", "held-out subjects", "ss"), 57.0, held_out, 9.0))
    cost = Cost(1200, 3.0, 2**30, "cpu")
    return Adapter(recipe, "tiny-masked", "r", "float32", {"domain": domain}, {}, cost, {}, changes=tuple(changes))


METHODS = [
    Method("cda", adapter("cda", 53.0, 90.0)),
    Method("cda-seed-1", adapter("cda", 55.0, 88.0)),
    Method("dropout", adapter("dropout", 52.0, 50.0)),
    Method("fast", adapter("fast", 51.0, 90.0, held_out=56.0)),
    Method("leace", reason="There is no corpus."),
]


def table_of(methods, model="tiny-masked"):
    (made,) = tables_of(changes_frame(model, methods), methods)
    return made
