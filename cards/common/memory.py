"""Memory that a process no longer needs goes back to the system."""

import ctypes
from contextlib import suppress


def give_back() -> None:
    """Gives the memory of freed objects back to the system."""
    # The C library keeps freed memory for later; of other systems it is given back at once or cannot be.
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
