import torch

from fedcore.datasets import shakespeare


def test_there_are_90_symbols():
    assert len(set(shakespeare.CHARACTERS)) == 86
    assert shakespeare.SYMBOLS == 90
    assert shakespeare.OTHER == 89


def test_every_character_has_its_own_symbol():
    symbols = shakespeare.encode(shakespeare.CHARACTERS).tolist()
    assert symbols == list(range(1, 87))


def test_all_others_share_one():
    assert set(shakespeare.encode("}~<=+|\x7f\x80é—😀\ud800").tolist()) == {shakespeare.OTHER}


def test_windows_are_views_and_the_label_is_what_follows():
    symbols = shakespeare.encode("abcdef")
    x, y = shakespeare.windows(symbols, 3)
    a = int(symbols[0])
    assert (x - a).tolist() == [[0, 1, 2], [1, 2, 3], [2, 3, 4]]
    assert (y - a).tolist() == [3, 4, 5]
    assert x.untyped_storage().data_ptr() == symbols.untyped_storage().data_ptr()
    assert y.dtype == torch.int64


def test_a_text_one_longer_than_a_window_has_one():
    x, y = shakespeare.windows(shakespeare.encode("abcd"), 3)
    assert (len(x), len(y)) == (1, 1)
