"""``python -m fedcore.reproduce``: the paper's Table 2, with torch and NumPy alone."""

from fedcore.cli.reproduce import main

if __name__ == "__main__":
    main()
