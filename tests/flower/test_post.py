"""Letters: what is out, what is lost, and a SuperLink that is away."""

from types import SimpleNamespace

import pytest

pytest.importorskip("flwr")

from flwr.app import ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.app.error import Error
from tests.flower.grid import InProcessGrid, Time

from fedcore.errors import FedCoreError
from fedcore.flower.post import AT_ONCE, TTL, Letter, Post


def post_over(node, count=1):
    grid = InProcessGrid(Time(), dict.fromkeys(range(count), node))
    return Post(grid, grid.time.monotonic, grid.time.sleep), grid


def letters(post, count, expires=60.0):
    content = RecordDict({"arrays": ArrayRecord(), "config": ConfigRecord({"server-round": 1})})
    messages = [Message(content, node, "train") for node in range(count)]
    return messages, [Letter(node, None, expires / TTL) for node in range(count)]


def replying(order, arrays, message):
    return 1.0, Error(2, "no")


def test_a_few_are_pulled_at_a_time_and_none_is_forgotten():
    post, grid = post_over(replying, 30)
    assert post.push(*letters(post, 30)) == []
    assert post.busy() == set(range(30))
    assert post.pull() == []
    grid.time.sleep(1.0)
    found = []
    while arrived := post.pull():
        assert len(arrived) <= AT_ONCE
        found += arrived
    assert sorted(letter.client for letter in found) == list(range(30))
    assert all(letter.trip == 1.0 and letter.timely for letter in found)
    assert not post.out


def test_a_trip_whose_end_nobody_saw_is_not_known():
    post, grid = post_over(replying)
    post.push(*letters(post, 1))
    grid.time.sleep(30.0)
    assert not post.pull()[0].timely


def test_what_expires_comes_back_without_an_answer():
    post, grid = post_over(lambda *_: None, 2)
    post.push(*letters(post, 2))
    grid.time.sleep(59.0)
    assert post.pull() == []
    grid.time.sleep(1.0)
    assert [(letter.client, letter.answer) for letter in post.pull()] == [(0, None), (1, None)]
    assert not post.busy()


def test_messages_that_are_not_taken_are_told_of():
    post, grid = post_over(replying, 3)
    push = grid.push_messages
    grid.push_messages = lambda messages: [None, *push(messages)[1:]]
    assert [letter.client for letter in post.push(*letters(post, 3))] == [0]
    assert post.busy() == {1, 2}
    grid.push_messages = lambda messages: []  # what Flower does with a model that is too large
    with pytest.raises(FedCoreError, match="took 0 of 3"):
        post.push(*letters(post, 3))


def test_answers_to_what_was_never_asked_are_nobodys():
    post, grid = post_over(replying, 2)
    pull = grid.pull_messages
    grid.pull_messages = lambda ids: [*pull(ids), stranger()]
    post.push(*letters(post, 2))
    grid.time.sleep(1.0)
    assert {letter.client for letter in post.pull()} == {0, 1}
    assert post.pull() == []


def stranger():
    metadata = SimpleNamespace(reply_to_message_id="of another run")
    return SimpleNamespace(metadata=metadata)


def test_bytes_that_cannot_be_read_are_one_letter_s_fault():
    post, grid = post_over(replying, 3)
    grid.nodes[1] = lambda *_: (1.0, b"garbage")
    post.push(*letters(post, 3))
    grid.time.sleep(1.0)
    found = {letter.client: letter.answer for letter in post.pull()}
    assert found.keys() == {0, 1, 2}
    assert found[1] is None
    assert found[0].has_error()
