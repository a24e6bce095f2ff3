"""Python of a node whose clock is wrong by so many seconds, in all its processes."""

import datetime
import os
import time

SHIFT = float(os.environ.get("FEDCORE_CLOCK_SHIFT", "0"))


class Shifted(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return super().now(tz) + datetime.timedelta(seconds=SHIFT)


if SHIFT:
    real = time.time
    time.time = lambda: real() + SHIFT
    datetime.datetime = Shifted
