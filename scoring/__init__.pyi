from .api import compare as compare
from .api import evaluate as evaluate
from .asking.result import RunResult as RunResult
from .asking.result import load as load
from .many.sweep import Sweep as Sweep
from .report.headlines import Comparison as Comparison
from .types import DATA as DATA
from .types import ScoringError as ScoringError
