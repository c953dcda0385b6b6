"""The list of benchmarks and prompts, which imports nothing that only a run or a report needs, so it is there soon."""

from collections.abc import Iterator

from scoring import benchmarks
from scoring.inputs.prompts import PROMPTS


def catalogue() -> Iterator[str]:
    """Lines with the name and summary of each benchmark and prompt."""
    names = list(benchmarks.names()) + list(PROMPTS)
    width = max(len(name) for name in names)
    yield "Benchmarks (--benchmarks):"
    for name in benchmarks.names():
        benchmark = benchmarks.get(name)
        yield f"  {name:{width}}  {benchmark.summary} [{', '.join(benchmark.kinds)}]"
    yield "With --chat (where listed) the context is the user's turn, and options or continuation begin the response;"
    yield "of a transcript Q: … A: … the text after Q: is the user's turn, and the text after A: begins the response."
    yield "Prompts (--prompt), or your own JSON file:"
    for name, prompt in PROMPTS.items():
        yield f"  {name:{width}}  {prompt.summary}"
