"""FedBalancer's rule, beside a plain search of its grid and by hand."""

import numpy as np
import pytest

from fedcore.deadlines import ddl_e
from fedcore.errors import BadOption

# One sample a second and batches of one: an epoch lasts 2, 3 and 10 s, the transfer 1 s.
THREE = (2, 1.0, 1.0), (3, 1.0, 1.0), (10, 1.0, 1.0)
PROBED = [(1.0, 0.0, 0.0)]


def windows(*utilities, deadline=2.0):
    """Rounds whose loss / deadline is given, after a probe."""
    return PROBED + [(deadline, 5 * deadline * u, 5.0) for u in utilities]


def test_where_most_finish_per_second_by_hand(see):
    # e = 1: arrivals at 3, 4, 11 s; 1/3, 2/4, 3/11: L = 4. e = 4: 9, 13, 41; 1/9, 2/13, 3/41: 13.
    decide = ddl_e.build(batch_size=1, window=1, step=0.25).decide
    seconds, reason = decide(see(*THREE, epochs=4, rounds=PROBED))
    assert (seconds, reason) == (13.0, "4 s at 1 epoch, 13 at all, r 1")
    # One window whose loss per second is lower than the one before: r = 0.75.
    seconds, _ = decide(see(*THREE, epochs=4, rounds=windows(2.0, 1.0)))
    assert seconds == pytest.approx(4 + 0.75 * (13 - 4))


def test_batches_are_whole_and_the_grid_has_steps_of_a_second(see):
    # 5 samples in batches of 4 are 8, at 3 a second 2.67 s an epoch: the first look after is 3 s.
    decide = ddl_e.build(batch_size=4).decide
    assert decide(see((5, 3.0, 0.0), epochs=1, rounds=PROBED))[0] == pytest.approx(5 / 3)  # longest
    two = see((5, 3.0, 0.0), (50, 1.0, 0.0), epochs=1, rounds=PROBED)
    assert decide(two)[0] == 3.0


def plain(times, grid=1.0):
    """Every second up to the last client, as the source has it."""
    looks = [grid * n for n in range(1, int(np.ceil(max(times) / grid)) + 1)]
    worth = [sum(time <= look for time in times) / look for look in looks]
    return looks[int(np.argmax(worth))]


@pytest.mark.parametrize("seed", range(20))
def test_looking_only_after_arrivals_finds_what_looking_every_second_does(see, seed):
    draws = np.random.default_rng(seed)
    rows = [
        (int(m), 1.0, float(s))
        for m, s in zip(draws.integers(1, 60, 9), draws.random(9), strict=True)
    ]
    known = see(*rows, epochs=3, rounds=PROBED)
    low, high = (plain([e * m + s for m, _, s in rows]) for e in (1, 3))
    _, reason = ddl_e.build(batch_size=1).decide(known)
    assert reason.split("; ")[0] == f"{low:.4g} s at 1 epoch, {high:.4g} at all, r 1"


@pytest.mark.parametrize(
    ("utilities", "ratio"),
    [
        ((1.0,), 1.0),
        ((1.0, 1.0), 1.0),  # no less: it would rise, and is 1 already
        ((2.0, 1.0), 0.95),
        ((4.0, 3.0, 2.0, 1.0), 0.85),
        ((4.0, 3.0, 2.0, 2.5), 0.95),
        ((2.0, 1.0, 7.0), 1.0),
    ],
)
def test_the_ratio_falls_while_loss_per_second_falls(see, utilities, ratio):
    rounds = windows(*(u for u in utilities for _ in range(20)))
    _, reason = ddl_e.build(batch_size=1).decide(see(*THREE, epochs=4, rounds=rounds))
    assert reason.endswith(f"r {ratio:g}")
    # A window that is not whole yet changes nothing.
    more = windows(*(u for u in utilities for _ in range(20)), *[0.001] * 19)
    assert ddl_e.build(batch_size=1).decide(see(*THREE, epochs=4, rounds=more))[1] == reason


def test_a_probe_and_rounds_of_which_nothing_was_heard_are_in_no_window(see):
    """A probe of a millisecond has a loss per second that every later window is below."""
    met = windows(*[1.0] * 40)[1:]
    silent = [(2.0, 0.0, 0.0)] * 5
    for rounds in ([(0.001, 5.0, 5.0), *met], [*PROBED, *met[:20], *silent, *met[20:], *silent]):
        _, reason = ddl_e.build(batch_size=1).decide(see(*THREE, epochs=4, rounds=rounds))
        assert reason.endswith("r 1")


@pytest.mark.parametrize("wrong", [-0.1, 2.0, float("nan")])
def test_a_step_that_is_none_is_refused(wrong):
    with pytest.raises(BadOption, match="step must be at "):
        ddl_e.build(step=wrong)


def test_the_ratio_stays_above_zero(see):
    falling = windows(*np.linspace(9, 1, 9))
    decide = ddl_e.build(batch_size=1, window=1, step=0.4).decide
    assert decide(see(*THREE, epochs=4, rounds=falling))[0] == 4.0


def test_until_half_of_the_clients_are_known_it_is_the_mean_with_an_inference(see):
    # (1 + 2.5 m) s each: 6, 8.5 and 26 s.
    known = see(*THREE, epochs=2, clients=6, rounds=PROBED)
    assert ddl_e.build().decide(known) == (pytest.approx(40.5 / 3), "mean of the 3 known")
    assert "r 1" in ddl_e.build().decide(see(*THREE, clients=5, rounds=PROBED))[1]
