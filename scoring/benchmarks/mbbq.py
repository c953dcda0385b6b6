"""MBBQ, gender: BBQ in English, Spanish, Dutch and Turkish, with control sets (Neplenbroek et al., 2024).

The scores are those of BBQ; the paper has others for text alone. A control set has an accuracy only.
"""

from scoring.benchmarks import _bbq

#: The languages, each with its control set.
CONFIGS = ("en", "en-control", "es", "es-control", "nl", "nl-control", "tr", "tr-control")

BENCHMARK = _bbq.benchmark(
    "mbbq", "BBQ in English, Spanish, Dutch and Turkish, with control sets (Neplenbroek et al.).", CONFIGS
)
