"""The pipeline of UnStereoEval, with a chat model or over the recorded replies of its authors."""

from __future__ import annotations

from builders.generation import pipeline
from builders.generation.pipelines._replay import replay_published
from builders.generation.pipelines._unstereo import UnstereoSettings, run

PIPELINE = pipeline.Pipeline(
    "Sentences of a few words that fit a pronoun of any gender.",
    UnstereoSettings,
    run,
    replays={"published": replay_published},
)
