import numpy as np
import pytest

from fedcore.errors import BadData
from fedcore.sources.clients import ClientSizes, LazyClients, sizes_of


@pytest.fixture
def asked():
    return []


@pytest.fixture
def lazy(build_client, asked):
    def load(client):
        asked.append(client)
        return build_client(5 + client, seed=client)

    return LazyClients(range(5, 15), load)


def test_sizes_are_known_without_loading(lazy, asked):
    assert sizes_of(lazy)[3] == 8
    assert list(sizes_of(lazy).items()) == [(client, 5 + client) for client in range(10)]
    assert not asked


def test_of_clients_in_memory_sizes_are_counted(build_client):
    assert dict(sizes_of({7: build_client(3), 2: build_client(4)})) == {7: 3, 2: 4}


def test_a_fleet_may_have_a_million_clients(build_client):
    fleet = LazyClients([3] * 1_000_000, lambda client: build_client(3, seed=client))
    assert (len(fleet), len(fleet[999_999])) == (1_000_000, 3)


def test_only_those_that_are_held_are_kept_and_let_go_again(lazy, asked):
    lazy.hold([1, 2])
    assert lazy[1] is lazy[1]
    lazy[4], lazy[4]
    assert asked == [1, 4, 4]
    lazy.hold([2])
    lazy[1]
    assert asked == [1, 4, 4, 1]


def test_a_mapped_fleet_is_as_lazy(lazy, asked, build_client):
    doubled = lazy.map(lambda client, data: build_client(len(data), seed=99))
    assert len(doubled) == 10
    assert not asked
    assert doubled[0].x.equal(build_client(5, seed=99).x)
    assert asked == [0]


def test_a_promise_about_sizes_must_be_kept(build_client):
    with pytest.raises(BadData, match="client 1 has 4 samples, but its size was given as 3"):
        LazyClients([3, 3], lambda client: build_client(3 + client))[1]


def test_what_is_loaded_must_be_client_data():
    with pytest.raises(BadData, match=r"client 0 must be loaded as ClientData.*, got tuple"):
        LazyClients([2], lambda client: (np.zeros((2, 3)), np.zeros(2)))[0]


@pytest.mark.parametrize("sizes", [3, ["a"], [2.5], [float("nan")], [[3]], [None]])
def test_sizes_are_whole_numbers(sizes):
    with pytest.raises(BadData, match="sizes must be"):
        LazyClients(sizes, lambda client: None)


@pytest.mark.parametrize("size", [0, -2])
def test_a_client_without_samples_is_refused_by_name(build_client, size):
    with pytest.raises(BadData, match=f"client 2 has a size of {size}; leave it out"):
        LazyClients([3, 1, size, 0], build_client)


@pytest.mark.parametrize("ids", [range(3), [0, 1, 2], [5, 1, 9], range(4, 7)])
def test_sizes_by_any_numbering(ids):
    sizes = ClientSizes(ids, np.array([10, 20, 30]))
    assert list(sizes) == list(ids)
    assert [sizes[client] for client in ids] == [10, 20, 30]
    assert 77 not in sizes
    assert -1 not in sizes
