import torch

from fedcore.arrays import as_inputs
from fedcore.bundle import Bundle, joined, parts_of


def example():
    return Bundle({0: torch.arange(6).view(3, 2), "mask": torch.tensor([1.0, 0, 1])})


def test_rows_of_all_parts_are_taken_together():
    taken = example()[torch.tensor([2, 0])]
    assert len(taken) == 2
    assert taken.parts[0].tolist() == [[4, 5], [0, 1]]
    assert taken.parts["mask"].tolist() == [1, 1]
    assert len(example()[:1].to(torch.device("cpu"))) == 1


def test_pieces_are_joined_part_by_part():
    both, labels = joined([(example(), torch.ones(3)), (example()[:1], torch.zeros(1))])
    assert both.parts[0].tolist() == [[0, 1], [2, 3], [4, 5], [0, 1]]
    assert both.parts["mask"].tolist() == [1, 0, 1, 1]
    assert labels.tolist() == [1, 1, 1, 0]
    plain, labels = joined([(torch.ones(1), torch.ones(1)), (torch.zeros(2), torch.ones(2))])
    assert (plain.tolist(), labels.tolist()) == ([1, 0, 0], [1, 1, 1])


def test_all_numbers_of_a_sample_in_a_row():
    assert example().flat().tolist() == [[0, 1, 1], [2, 3, 0], [4, 5, 1]]


def test_one_tensor_is_a_models_first_argument():
    alone = torch.ones(2)
    assert parts_of(alone) == {0: alone}
    assert list(parts_of(example())) == [0, "mask"]


def test_places_stay_in_their_order_and_names_come_in_any():
    """The tenth behind the second: a model takes them by place."""
    given = tuple(torch.full((2,), number) for number in range(12))
    parts = as_inputs("inputs", given, torch.float32).parts
    assert [int(part[0]) for part in parts.values()] == list(range(12))
    named = {"mask": given[1], "image": given[0]}
    assert list(as_inputs("inputs", named, torch.float32).parts) == ["image", "mask"]
