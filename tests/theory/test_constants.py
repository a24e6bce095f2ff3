import numpy as np
import pytest

from fedcore.rates import factor_of
from fedcore.theory import Constants

# L 2, μ 1, D 3, Γ 5, ε 1/2, E||w_0 - w_*||² 7, E 3, K 4
SMALL = Constants(2.0, 1.0, 3.0, 5.0, 0.5, 7.0, 3, 4)


def test_the_paper_s_constants_by_hand():
    assert SMALL.alpha() == 2
    assert SMALL.beta() == 16  # 8 L / μ
    assert SMALL._replace(epochs=20).beta() == 20
    assert SMALL.step(4) == 2 / 20
    # 4 · 9 · 9 / 4 + 8 · 4 · 9 + 6 · 2 · 5 + 1/4 + 2 · 1/2 · 3
    assert SMALL.a_5() == 81 + 288 + 60 + 0.25 + 3
    a_1, a_2 = SMALL.a_1_and_a_2(corrected=False)
    assert (a_1, a_2) == (2 * 0.5 * 3, 4 * 432.25)  # above β · 7 = 112
    far = SMALL._replace(distance=1e6)
    assert far.a_1_and_a_2(corrected=False)[1] == far.a_1_and_a_2()[1] == 16e6
    assert SMALL.distance_bound(9, corrected=False) == 3 + 4 * 432.25 / 25
    assert SMALL.loss_bound(9, corrected=False) == 3 + 4 * 432.25 / 25  # L / 2 = 1


def test_the_corrected_constants_by_hand():
    kappa = (1 + 2 / 16) ** 2
    a_5 = kappa * 81 / 4 + 2 * kappa * 36 + 60 + 3.25
    a_1, a_2 = SMALL.a_1_and_a_2()
    assert a_1 == pytest.approx(16 / 3 * 0.25)
    assert a_2 == pytest.approx(8 * a_5)
    exact = SMALL._replace(error=0.0).a_1_and_a_2()
    assert exact == pytest.approx((0, 4 * (a_5 - 3.25)))


def test_a_run_s_schedule_is_the_theorem_s_step_at_the_beginning_of_every_round():
    options = SMALL.schedule()
    factor = factor_of(options["schedule"], 100, options["schedule_decay"], 1)
    for version in (0, 1, 2, 50):
        rate = options["learning_rate"] * factor(version)
        assert rate == pytest.approx(SMALL.step(3 * version), rel=1e-14)


def random_constants(generator):
    convexity = generator.uniform(0.01, 2)
    smoothness = convexity * generator.uniform(1, 100)
    gradient, gamma, error, distance = generator.exponential(1, 4)
    epochs, clients = generator.integers(1, 20), generator.integers(1, 20)
    return Constants(smoothness, convexity, gradient, gamma, error, distance, epochs, clients)


def unrolled(of, split, linear, a_5, *, held, steps=2000):
    """Δ_{t+1} = (1 - (1 - split) η μ) Δ_t + η linear + η² A_5, taken as an equality."""
    found = [of.distance]
    for t in range(steps):
        eta = of.step(t - t % of.epochs if held else t)
        fallen = (1 - (1 - split) * eta * of.convexity) * found[-1]
        found.append(fallen + eta * linear + eta**2 * a_5)
    return np.array(found)


@pytest.mark.parametrize("seed", range(100))
def test_the_induction_turns_the_recursion_into_the_bound(seed):
    """The proof of Theorem A.7 from its Eq. recur on, and the corrected one of docs/theory.md."""
    of = random_constants(np.random.default_rng(seed))
    times = np.arange(2001)
    a_3 = 2 * of.error * of.gradient / of.convexity
    paper = unrolled(of, 0, a_3, of.a_5(), held=False)
    assert (paper <= of.distance_bound(times, corrected=False) * (1 + 1e-12)).all()
    kappa = (1 + (of.epochs - 1) / of.beta()) ** 2
    corrected = unrolled(of, 1 / 4, 4 * of.error**2 / of.convexity, of.a_5(kappa), held=False)
    assert (corrected <= of.distance_bound(times) * (1 + 1e-12)).all()


def test_the_recursion_by_hand():
    """E = 2, K = 4, L = μ = 1, D = 2, ε = 1/2, Γ = 3: two rounds, from 5."""
    of = Constants(1.0, 1.0, 2.0, 3.0, 0.5, 5.0, 2, 4)
    kappa, rest = (1 + 1 / 8) ** 2, 18 + 0.25 + 2
    found = [5.0]
    for eta, epochs in ((2 / 8, 1), (2 / 9, 2), (2 / 10, 1), (2 / 11, 2)):
        drift = 2 * kappa * (epochs - 1) ** 2 * 4 + kappa * epochs**2 * 4 / 4
        found.append((1 - 0.75 * eta) * found[-1] + eta * 4 * 0.25 + eta**2 * (drift + rest))
    assert of.recursion(2) == pytest.approx(found[::2])
    exact = of._replace(error=0.0, heterogeneity=0.0, gradient=0.0)
    assert exact.recursion(1)[1] == pytest.approx((1 - 2 / 8) * (1 - 2 / 9) * 5)


@pytest.mark.parametrize("seed", range(100))
def test_the_recursion_is_nowhere_above_the_bound_that_it_proves(seed):
    of = random_constants(np.random.default_rng(seed))
    times = of.epochs * np.arange(101)
    assert (np.array(of.recursion(100)) <= of.distance_bound(times) * (1 + 1e-12)).all()


@pytest.mark.parametrize("seed", range(100))
def test_steps_held_over_a_round_keep_the_bound_at_synchronisations(seed):
    """For β >= E² / 2: how ``fedcore compare --schedule inverse-time`` takes them."""
    of = random_constants(np.random.default_rng(seed))
    of = of._replace(smoothness=max(of.smoothness, of.epochs**2 / 16 * of.convexity))
    times = np.arange(0, 2001, of.epochs)
    for split, linear, exact in ((1 / 4, 4 * of.error**2 / of.convexity, of), (0, 0, None)):
        shown = exact or of._replace(error=0.0)  # κ = 1, for the step is the round's
        found = unrolled(shown, split, linear, shown.a_5(1.0), held=True)
        assert (found[times] <= shown.distance_bound(times) * (1 + 1e-12)).all()


def test_steps_held_over_too_long_a_round_do_not():
    """Where β < E² / 2, as with E = β = 40: from the bound itself, a round leads above it."""
    of = Constants(1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 40, 1)
    falling = 4 * of.a_5(1.0)
    of = of._replace(distance=falling / of.beta())
    found = unrolled(of, 0, 0, of.a_5(1.0), held=True)
    assert found[40] > falling / (40 + of.beta())


def test_the_recursion_reaches_the_first_constant_and_not_half_of_it():
    of = Constants(1.0, 1.0, 1.0, 0.1, 0.3, 1.0, 2, 3)
    for split, linear, corrected in ((0, 0.6, False), (1 / 4, 0.36, True)):
        floor, _ = of.a_1_and_a_2(corrected=corrected)
        last = unrolled(of, split, linear, of.a_5(), held=False, steps=20_000)[-1]
        assert last == pytest.approx(floor, rel=0.05)
        assert last > floor / 2 + of.a_1_and_a_2(corrected=corrected)[1] / (20_000 + of.beta())
