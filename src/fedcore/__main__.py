"""The way in of ``fedcore`` and ``python -m fedcore``, there before torch is imported."""

import os
import signal
from typing import Any


def main() -> None:
    """Run the command; interrupted while its modules are imported, it stops with one word."""
    interruptible = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if interruptible:
        signal.signal(signal.SIGINT, _stop)
    from fedcore.cli.main import main as command

    if interruptible:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    command()


def _stop(*_: Any) -> None:
    # No exception: what is imported may catch it, or turn it into another error.
    os.write(2, b"interrupted\n")
    os._exit(130)


if __name__ == "__main__":
    main()
