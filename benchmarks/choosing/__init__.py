"""Does choosing samples beat drawing them, at equal time? README.md beside this."""
