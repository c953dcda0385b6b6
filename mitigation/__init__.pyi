from .adapters.merging import merge as merge
from .api import Mitigated as Mitigated
from .api import mitigate as mitigate
from .errors import MitigationError as MitigationError
