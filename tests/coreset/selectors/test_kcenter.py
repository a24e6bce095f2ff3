import torch

from fedcore.coreset.selectors import kcenter


def test_kcenter_goes_to_the_far_ends(run, line):
    """From any start the second is an end, so three centres leave nobody farther than 2."""
    found = run(kcenter, line, 3)
    reach = torch.cdist(line, line[found.indices]).min(dim=1).values
    assert reach.max() <= 2
