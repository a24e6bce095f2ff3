"""The ``fedcore`` command."""
