"""Never trust an answer: what may be wrong with one, and that nothing else comes out of it."""

import io
import math
import pickle

import numpy as np
import pytest
import torch

pytest.importorskip("flwr")
pytest.importorskip("hypothesis")

from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord, RecordDict
from hypothesis import given, settings
from hypothesis import strategies as st

from fedcore.errors import BadOption
from fedcore.flower.wire import (
    BadMessage,
    Report,
    initial_params,
    read_counts,
    read_model,
    read_weight,
    report_metrics,
)

BASE = {
    "w": torch.arange(6.0).reshape(2, 3),
    "b": torch.zeros(3, dtype=torch.float64),
    "n": torch.tensor(7),
}
REPORT = Report(12, 5, steps=40, work=160, training_seconds=1.5, age=0.1, handler_seconds=2.0)
TRIP = 3.0


def content(**arrays):
    changed = {**{name: Array(value.numpy()) for name, value in BASE.items()}, **arrays}
    record = ArrayRecord({name: value for name, value in changed.items() if value is not None})
    return RecordDict({"arrays": record, "metrics": MetricRecord(report_metrics(REPORT, 80))})


def saved(array, **options):
    file = io.BytesIO()
    np.save(file, array, **options)
    return file.getvalue()


def claimed(data):
    """An array that says of itself what is expected, whatever its bytes hold."""
    return Array("float32", (2, 3), "numpy.ndarray", data)


def test_a_good_answer_is_read_to_the_bit():
    moved = {"w": BASE["w"] + 1, "b": BASE["b"] + 2, "n": BASE["n"] + 100}
    params, norm = read_model(RecordDict({"any": ArrayRecord(moved)}), BASE, math.inf)
    assert list(params) == list(BASE)
    for name, value in BASE.items():
        assert torch.equal(params[name], moved[name])
        assert params[name].dtype == value.dtype
    assert norm == pytest.approx(math.sqrt(6 * 1 + 3 * 4))  # whole numbers do not count


def test_columns_first_is_read_as_well():
    array = np.asfortranarray(BASE["w"].numpy() + 1)
    assert b"'fortran_order': True" in saved(array)
    params, _ = read_model(content(w=Array(array)), BASE, math.inf)
    assert torch.equal(params["w"], BASE["w"] + 1)


def headed(*shape):
    """A file that claims an array of that shape, and brings 24 bytes."""
    file = io.BytesIO()
    told = {"descr": "<f4", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, told)
    return file.getvalue() + bytes(24)


NAN = BASE["w"].numpy().copy()
NAN[1, 2] = np.nan
INF = BASE["w"].numpy().copy()
INF[0, 0] = -np.inf
GOOD = saved(BASE["w"].numpy())
BAD = {
    "NaN": claimed(saved(NAN)),
    "infinity": claimed(saved(INF)),
    "missing": None,
    "wrong shape": Array(np.zeros((3, 2), np.float32)),
    "a shape that broadcasts": Array(np.zeros((1, 3), np.float32)),
    "a number that broadcasts": Array(np.zeros((), np.float32)),
    "one more dimension": Array(np.zeros((1, 2, 3), np.float32)),
    "wider type": Array(np.zeros((2, 3), np.float64)),
    "narrower type": Array(np.zeros((2, 3), np.float16)),
    "whole numbers": Array(np.zeros((2, 3), np.int32)),
    "other byte order": Array(np.zeros((2, 3), ">f4")),
    "shape only claimed": claimed(saved(np.zeros((2, 4), np.float32))),
    "type only claimed": claimed(saved(np.zeros((2, 3), np.float64))),
    "pickle": claimed(saved(np.array([[print] * 3] * 2, dtype=object), allow_pickle=True)),
    "bare pickle": claimed(pickle.dumps(BASE["w"].numpy())),
    "no bytes": claimed(b""),
    "only a header": claimed(GOOD[:128]),
    "too short": claimed(GOOD[:-1]),
    "too long": claimed(GOOD + b"\0"),
    "a formula in the header": claimed(GOOD.replace(b"(2, 3), ", b"(2**9,) ")),
    "a huge array in few bytes": claimed(headed(10**10)),
    "more than there are addresses": claimed(headed(2**62)),
    "a size that wraps around": claimed(headed(2**31, 2**31, 8)),
    "nothing, often": claimed(headed(10**12, 0)),
    "unknown version": claimed(GOOD[:6] + b"\x09\x00" + GOOD[8:]),
    "zip": claimed(b"PK\x03\x04" + GOOD),
}


@pytest.mark.parametrize("array", BAD.values(), ids=BAD.keys())
def test_arrays_that_are_refused(array):
    with pytest.raises(BadMessage):
        read_model(content(w=array), BASE, math.inf)


def test_keys_of_other_models_are_refused():
    with pytest.raises(BadMessage, match="'extra'"):
        read_model(content(extra=Array(np.zeros(1))), BASE, math.inf)


def test_one_model_and_one_report_are_expected():
    model = ArrayRecord(BASE)
    for records in ({}, {"a": model, "b": model}, {"c": ConfigRecord({"w": 1.0})}):
        with pytest.raises(BadMessage, match="one ArrayRecord"):
            read_model(RecordDict(records), BASE, math.inf)
        with pytest.raises(BadMessage, match="one MetricRecord"):
            read_counts(RecordDict(records), 5, 12, 2, TRIP)


def test_an_update_ten_times_as_long_as_usual_is_refused():
    answer = content(w=Array(BASE["w"].numpy() + 1))
    far = math.sqrt(6)
    assert read_model(answer, BASE, far * (1 + 1e-9))[1] == pytest.approx(far)
    with pytest.raises(BadMessage, match="norm"):
        read_model(answer, BASE, far * (1 - 1e-9))


def test_an_update_too_long_for_a_number_is_refused():
    wide = {"b": torch.zeros(3, dtype=torch.float64)}
    huge = RecordDict({"a": ArrayRecord({"b": torch.full((3,), 1e300, dtype=torch.float64)})})
    with pytest.raises(BadMessage, match="norm inf"):
        read_model(huge, wide, 1.0)


LIES = {
    "somebody else's ticket": {"ticket": 13},
    "another round": {"base-version": 4},
    "more steps than samples": {"steps": 161},
    "steps without work": {"work": 0},
    "work beyond E epochs and a look": {"work": 241},
    "trained longer than it ran": {"training-seconds": 3.5},
    "ran longer than it was away": {"handler-seconds": 4.5},
    "a time below 0": {"training-seconds": -0.5},
    "losses of samples it has not": {"loss-count": 81},
    "a coreset larger than the data": {"coreset-size": 81},
    "no data": {"num-examples": 0},
    "a list": {"steps": [1, 2]},
    "NaN": {"age": float("nan")},
}


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES.keys())
def test_counts_that_cannot_be_are_refused(lie):
    metrics = MetricRecord({**report_metrics(REPORT, 80), **lie})
    with pytest.raises(BadMessage):
        read_counts(RecordDict({"metrics": metrics}), 5, 12, 2, TRIP)


def test_counts_that_can_be_are_read():
    metrics = MetricRecord(report_metrics(REPORT, 80))
    assert read_counts(RecordDict({"m": metrics}), 5, 12, 2, TRIP)[:2] == (REPORT, 80)


def test_a_clock_that_is_an_hour_behind_does_no_harm():
    metrics = MetricRecord({**report_metrics(REPORT, 80), "age": -3600.0})
    assert read_counts(RecordDict({"m": metrics}), 5, 12, 2, TRIP)[0].age == -3600.0


def test_a_weight_is_a_number_above_zero():
    assert float(read_weight(MetricRecord({"t": 2}), "t")["weight"]) == 2.0
    assert read_weight(MetricRecord({}), None) is None
    with pytest.raises(BadMessage, match="t must be"):
        read_weight(MetricRecord({}), "t")


def test_a_start_that_torch_cannot_hold_is_refused():
    with pytest.raises(BadOption, match="initial_arrays"):
        initial_params(ArrayRecord({"w": Array(np.array(["text"]))}))


@pytest.mark.parametrize(
    ("odd", "reason"),
    [
        ({"mask": torch.full((2, 2), -math.inf).triu(1)}, "'mask' is not; leave constants out"),
        ({"w": torch.tensor([0.0, math.nan])}, "finite real numbers, but 'w'"),
        ({"spectrum": torch.zeros(2, dtype=torch.complex64)}, "real numbers, but 'spectrum'"),
    ],
)
def test_a_start_whose_honest_answers_would_all_be_refused_is_refused_itself(odd, reason):
    with pytest.raises(BadOption, match=reason):
        initial_params(ArrayRecord({"w": torch.zeros(2), **odd}))
    with pytest.raises(BadOption, match="no array of floats"):
        initial_params(ArrayRecord({"n": torch.tensor([1, 2])}))


def test_a_start_may_have_masks_and_counters():
    others = {"mask": torch.ones(2, 2).tril().bool(), "n": torch.tensor(3), "e": torch.zeros(0, 2)}
    start = {"w": torch.zeros(2), **others}
    assert {n: v.dtype for n, v in initial_params(ArrayRecord(start)).items()} == {
        name: value.dtype for name, value in start.items()
    }


# A node may send anything: bytes of an array that are changed, cut, or none of NumPy's.
changes = st.lists(st.tuples(st.integers(0, len(GOOD) - 1), st.integers(0, 255)), max_size=6)


@settings(max_examples=2000, deadline=None)
@given(changed=changes, cut=st.integers(-8, 8), junk=st.binary(max_size=40), whole=st.booleans())
def test_fuzzed_arrays_are_refused_or_what_was_meant(changed, cut, junk, whole):
    data = bytearray(GOOD)
    for place, value in changed:
        data[place] = value
    data = bytes(data[:cut] if cut < 0 else data) + junk[:cut] if whole else junk
    try:
        params, norm = read_model(content(w=claimed(data)), BASE, 100.0)
    except BadMessage:
        return
    # What is accepted is what NumPy reads there, has the right form, and is near.
    expected = np.load(io.BytesIO(data), allow_pickle=False)
    assert expected.dtype == np.float32
    assert np.array_equal(params["w"].numpy(), expected)
    assert params["w"].shape == (2, 3)
    assert bool(torch.isfinite(params["w"]).all())
    assert norm <= 100.0


names = st.sampled_from(sorted(report_metrics(REPORT, 80)))
values = st.one_of(
    st.integers(-(2**63), 2**63 - 1),
    st.floats(),
    st.lists(st.integers(-5, 5), min_size=1, max_size=2),
    st.integers(-3, 300),
)


@settings(max_examples=2000, deadline=None)
@given(said=st.dictionaries(names, values, max_size=4), left_out=st.sets(names, max_size=1))
def test_fuzzed_counts_are_refused_or_can_be(said, left_out):
    told = {**report_metrics(REPORT, 80), **said}
    metrics = MetricRecord({k: v for k, v in told.items() if k not in left_out})
    try:
        report, examples, _ = read_counts(RecordDict({"m": metrics}), 5, 12, 2, TRIP)
    except BadMessage:
        return
    assert not left_out
    assert (report.ticket, report.base_version) == (12, 5)
    assert 0 <= report.steps <= report.work <= 3 * examples
    assert 0 <= report.training_seconds <= report.handler_seconds + 1 <= TRIP + 2
    assert all(math.isfinite(v) for v in (report.loss_sum, report.age, report.gradient_error))
