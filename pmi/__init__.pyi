from .analysis.sentence import max_pmi_diff as max_pmi_diff
from .analysis.table import table as table
from .counting.counts import delta as delta
from .counting.local import count as count
