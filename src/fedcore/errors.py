"""The errors a caller may want to catch; each message says what, which value, what to do."""

from collections.abc import Iterator
from contextlib import contextmanager


class FedCoreError(Exception):
    """Anything the package refuses; the command line prints it and exits with code 2."""


class UnknownPlugin(FedCoreError):
    """A strategy, selector, dataset or model of that name does not exist."""


class BadOption(FedCoreError, ValueError):
    """An option has a value it cannot have."""


class BadData(FedCoreError, ValueError):
    """A dataset holds something no model can train on."""


def failed(what: str, error: Exception, hint: str = "") -> BadData:
    """The refusal of something of the user's own that raised ``error``, in one sentence."""
    reason = " ".join(str(error).split())[:400] or "no reason given"
    return BadData(f"{what} failed with {type(error).__name__}: {reason}{hint}")


@contextmanager
def blaming(what: str, hint: str = "") -> Iterator[None]:
    """Refuse what something of the user's own raises; a lack of memory stays what it is."""
    try:
        yield
    except Exception as error:
        if isinstance(error, FedCoreError) or type(error).__name__ == "OutOfMemoryError":
            raise
        raise failed(what, error, hint) from error


class DatasetUnavailable(FedCoreError):
    """The files of a dataset are not where they were looked for."""


class BadRecord(FedCoreError):
    """A file of results cannot be read as one."""


class Interrupted(Exception):
    """A job was stopped from outside; the message says how to go on. The exit code is 130."""
