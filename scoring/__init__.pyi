from .api import compare as compare
from .api import evaluate as evaluate
from .report.headlines import Comparison as Comparison
from .result import RunResult as RunResult
from .result import load as load
from .sweep import Sweep as Sweep
from .types import DATA as DATA
from .types import ScoringError as ScoringError
