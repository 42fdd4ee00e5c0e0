from gatemark.api import Comparison as Comparison
from gatemark.api import GateFailedError as GateFailedError
from gatemark.api import InconclusiveError as InconclusiveError
from gatemark.api import Result as Result
from gatemark.api import Samples as Samples
from gatemark.api import compare as compare
from gatemark.api import gate as gate
from gatemark.api import import_log as import_log
from gatemark.api import run as run
from gatemark.api import verify as verify
from gatemark.checks.score import score as score
from gatemark.core.errors import GatemarkError as GatemarkError
from gatemark.core.errors import UnavailableError as UnavailableError
from gatemark.release.lifecycle.routing import assign as assign

__all__: list[str]
__version__: str
