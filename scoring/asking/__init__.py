"""From rows to a result: requests and responses, ways and wordings, answers in words, one run."""
