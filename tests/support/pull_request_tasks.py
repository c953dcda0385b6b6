"""Runs the tasks of the folder for inspect_evals in its environment: ``python pull_request_tasks.py SOURCE LIMIT OUT``.

The model is a mock that prefers texts by a number (:func:`liking`, :func:`logit`), and a letter besides. The metrics
that inspect-ai found for each task are written as JSON, with the scores of the samples by their ids.
"""

import json
import re
import sys
import zlib
from pathlib import Path

#: How much more the mock likes an answer because of its letter.
OF_LETTERS = {"A": 0.4, "B": 0.0, "C": -0.3}


def liking(text):
    """How much the mock likes a text: one of seven numbers, so some texts are liked equally."""
    return zlib.crc32(text.encode()) % 7 / 2


def logit(text):
    """How probable an answer is to the mock; no two answers are equally probable, so rounding decides nothing."""
    return zlib.crc32(text.encode()) / 2**30


def shown(text, mark):
    """The answers by their letters, as a question lists them: a letter, a mark and the answer."""
    return dict(re.findall(rf"^([A-C]){re.escape(mark)} (.*)$", text, re.MULTILINE))


def main(source, limit, out):
    import tiktoken
    from inspect_ai import eval as inspect_eval
    from inspect_ai.model import Logprob, Logprobs, ModelOutput, ModelUsage, TopLogprob, get_model

    sys.path.insert(0, source)
    from bbq_logprobs.bbq_logprobs import bbq_logprobs
    from stereotype_choice.stereotype_choice import crows_pairs_balanced, stereoset_balanced

    class Words:
        def encode(self, text, **_):
            return text.split()

    # The mock would count tokens with a vocabulary that it downloads.
    tiktoken.get_encoding = lambda _: Words()

    def output(text):
        made = ModelOutput.from_content("mockllm/model", text)
        made.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
        return made

    def choosing(messages, tools, choice, config):
        answers = shown(messages[-1].text, ")")
        # The first letter wins where both are liked equally.
        return output(f"ANSWER: {max(answers, key=lambda letter: liking(answers[letter]))}")

    def probable(messages, tools, choice, config):
        answers = shown(messages[-1].text, ".")
        top = [TopLogprob(token=one, logprob=logit(text) + OF_LETTERS[one] - 9) for one, text in answers.items()]
        made = output("A")
        made.choices[0].logprobs = Logprobs(content=[Logprob(token="A", logprob=-1.0, top_logprobs=top)])
        return made

    found = {}
    for task, answer in ((stereoset_balanced, choosing), (crows_pairs_balanced, choosing), (bbq_logprobs, probable)):
        model = get_model("mockllm/model", custom_outputs=answer)
        logs = str(Path(out).parent / "logs")
        (log,) = inspect_eval(task(), model=model, limit=int(limit), log_dir=logs, display="none")
        if log.status != "success":
            raise SystemExit(log.error.message)
        metrics = {name: one.value for score in log.results.scores for name, one in score.metrics.items()}
        values = {sample.id: next(iter(sample.scores.values())).value for sample in log.samples}
        found[task.__name__] = {"metrics": metrics, "samples": values}
    Path(out).write_text(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
