"""``python -m fedcore``: the command, where its script is not on the path."""

from __future__ import annotations

from fedcore.cli.main import main

if __name__ == "__main__":
    main()
