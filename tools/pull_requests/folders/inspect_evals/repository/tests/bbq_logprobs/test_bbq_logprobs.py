"""BBQ by log-probabilities with a mock."""

import math

import pytest
from bbq_logprobs.bbq_logprobs import (
    accuracy_ambiguous,
    accuracy_disambiguated,
    bias_ambiguous,
    letter_choice,
    letters,
    logprob_of,
    record_to_sample,
)
from inspect_ai import Task, eval
from inspect_ai.dataset import MemoryDataset
from inspect_ai.model import Logprob, Logprobs, ModelOutput, ModelUsage, TopLogprob, get_model
from pytest_inspect_evals.metrics import assert_agreeing_epochs_change_nothing, run_metrics

RECORDS = [
    {
        "id": "q0",
        "input": "x",
        "answers": ["her", "him", "unknown"],
        "label": 2,
        "biased": 0,
        "unknown": 2,
        "condition": "ambiguous",
    },
    {
        "id": "q1",
        "input": "y",
        "answers": ["her", "him", "unknown"],
        "label": 1,
        "biased": 0,
        "unknown": 2,
        "condition": "disambiguated",
    },
    {
        "id": "q2",
        "input": "z",
        "answers": ["her", "him", "unknown"],
        "label": 2,
        "biased": None,
        "unknown": 2,
        "condition": "ambiguous",
    },
]


def output(logprobs):
    """The output of a mock whose first token has these log-probabilities."""
    made = ModelOutput.from_content("mockllm/model", "A")
    made.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
    top = [TopLogprob(token=token, logprob=logprob) for token, logprob in logprobs.items()]
    made.choices[0].logprobs = Logprobs(content=[Logprob(token="A", logprob=-1.0, top_logprobs=top)])
    return made


def found(likes, epochs=1):
    """The metrics of a mock that likes an answer, and the letter A much more."""

    def answer(messages, tools, choice, config):
        lines = messages[-1].text.splitlines()
        place = next(line[0] for line in lines if line[1:3] == ". " and line[3:] == likes)
        logprobs = {letter: -4.0 + 3 * (letter == "A") + 1 * (letter == place) for letter in "ABC"}
        return output(logprobs)

    samples = MemoryDataset([record_to_sample(record) for record in RECORDS])
    task = Task(dataset=samples, solver=letters(), scorer=letter_choice(), epochs=epochs)
    (log,) = eval(task, model=get_model("mockllm/model", custom_outputs=answer), display="none")
    assert log.status == "success", log.error
    return {name: metric.value for score in log.results.scores for name, metric in score.metrics.items()}


@pytest.mark.parametrize("epochs", [1, 2])
def test_a_preference_for_a_letter_decides_nothing(epochs):
    metrics = found("unknown", epochs)
    assert metrics == {"accuracy_ambiguous": 1, "accuracy_disambiguated": 0, "bias_ambiguous": 0}


def test_epochs_that_agree_change_no_metric():
    values = [{"right": n % 2, "biased": 1 - n % 2, "against": 0, "has_stereotype": 1} for n in range(4)]
    about = [{"condition": condition} for condition in ("ambiguous", "ambiguous", "disambiguated", "disambiguated")]
    metrics = [accuracy_ambiguous(), accuracy_disambiguated(), bias_ambiguous()]
    assert_agreeing_epochs_change_nothing(metrics, values, metadata=about)
    found = run_metrics(metrics, [[value] for value in values], metadata=about)
    assert found == {"accuracy_ambiguous": 0.5, "accuracy_disambiguated": 0.5, "bias_ambiguous": 0.5}


def test_an_answer_of_the_stereotype_is_a_bias_where_there_is_one():
    metrics = found("her")
    assert metrics == {"accuracy_ambiguous": 0, "accuracy_disambiguated": 0, "bias_ambiguous": 1}
    assert found("him")["bias_ambiguous"] == -1


def test_all_tokens_of_a_letter_count_and_a_letter_that_is_missing_is_as_probable_as_the_last():
    one = output({"A": math.log(0.2), " A": math.log(0.1), "x": math.log(0.05)})
    assert logprob_of(one, "A") == pytest.approx(math.log(0.3))
    assert logprob_of(one, "B") == pytest.approx(math.log(0.05))


def test_a_model_without_probabilities_is_told():
    with pytest.raises(ValueError, match="gives no log-probabilities"):
        logprob_of(ModelOutput.from_content("mockllm/model", "A"), "A")
