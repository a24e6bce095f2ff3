import torch

from fedcore.coreset.selectors import kmedoids, kmedoids_same_label


def test_same_label_serves_every_class_and_gives_more_where_more_is_needed(run):
    """Class 0 is one spot, class 1 is spread out: two of three medoids go to class 1."""
    points = torch.tensor([[0.0], [0.1], [0.2], [0.0], [50.0], [90.0]])
    labels = torch.tensor([0, 0, 0, 1, 1, 1])
    found = run(kmedoids_same_label, points, 3, labels=labels)
    chosen = labels[found.indices].tolist()
    assert sorted(chosen) == [0, 1, 1]
    own = labels[found.indices[found.assignment]]
    assert torch.equal(own, labels)


def test_labels_of_any_size_are_kept_apart(run):
    """As names are that were hashed to 64 bits; the low half of these is the same."""
    points = torch.tensor([[0.0], [0.0], [1.0], [1.0], [5.0], [5.0], [6.0], [9.0]])
    labels = torch.tensor([0, 2**32]).repeat(4)
    found = run(kmedoids_same_label, points, 5, labels=labels)
    assert torch.equal(labels[found.indices[found.assignment]], labels)


def test_same_label_with_too_few_places_forgets_the_labels(run, line):
    found = run(kmedoids_same_label, line, 2, labels=torch.arange(5))
    assert found.indices.tolist() == run(kmedoids, line, 2).indices.tolist()
