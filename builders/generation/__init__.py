"""Generation of rows with a chat model: requests, recorded responses, pipelines."""
