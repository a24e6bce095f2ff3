"""How far a reader has to walk: calls from one file of ours into another, over one round.

Counted over the second round of FedCore on the plain executor, from ``fedcore compare`` to the line
in ``rounds.jsonl``, by a profile hook. What is inside ``coreset/`` has a limit of its own
(``coreset/test_modules_passed.py``); nouns and named random streams lead nowhere.
"""

import math
import re
import sys
from pathlib import Path

import fedcore
from fedcore.cli.grid import run_grid
from fedcore.config import Experiment
from fedcore.report import output

HERE = str(Path(fedcore.__file__).parent)
PAGE = Path(__file__).parents[1] / "docs" / "architecture.md"
LEAD_NOWHERE = {"types.py", "records.py", "seeding.py"}
MOST = 25


def hops(tmp_path):
    """Pairs of files, the caller and the called, in the order in which they first occur."""
    found = {}

    def note(frame, event, _):
        called, caller = frame.f_code.co_filename, frame.f_back
        if event != "call" or not called.startswith(HERE):
            return
        while caller is not None and not caller.f_code.co_filename.startswith(HERE):
            caller = caller.f_back
        if caller is not None:
            pair = (caller.f_code.co_filename, called)
            found[tuple(name.removeprefix(HERE + "/") for name in pair)] = None

    def tell(_, done, share):
        if done == 1:
            sys.setprofile(note)
        elif done == 2:
            sys.setprofile(None)

    one = Experiment(
        strategies=("fedcore",), stragglers=(30.0,), rounds=3, executor="sequential", device="cpu"
    )
    try:
        run_grid(one, tmp_path / "job", tell=tell)
    finally:
        sys.setprofile(None)
    return [
        (caller, called)
        for caller, called in found
        if caller != called and called not in LEAD_NOWHERE and not caller.startswith("coreset/")
    ]


def test_a_round_is_a_short_walk_and_the_page_has_it(tmp_path, monkeypatch):
    # On a busy machine a checkpoint would be due in just this round, and is no part of it.
    monkeypatch.setattr(output, "CHECKPOINT_EVERY", math.inf)
    walked = hops(tmp_path)
    assert len(walked) <= MOST, walked
    listed = re.findall(r"^\| \d+ \| `([\w/]+\.py)` \| `([\w/]+\.py)` \|", PAGE.read_text(), re.M)
    assert sorted(listed) == sorted(walked)
