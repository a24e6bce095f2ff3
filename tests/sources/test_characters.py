import torch

from fedcore.sources import characters as _characters


def test_there_are_90_symbols():
    assert len(set(_characters.CHARACTERS)) == 86
    assert _characters.SIZE == 90
    assert _characters.UNKNOWN == 89


def test_every_character_has_its_own_symbol():
    symbols = _characters.encode(_characters.CHARACTERS).tolist()
    assert symbols == list(range(1, 87))


def test_all_others_share_one():
    assert set(_characters.encode("}~<=+|\x7f\x80é—😀\ud800").tolist()) == {_characters.UNKNOWN}


def test_windows_are_views_and_the_label_is_what_follows():
    symbols = _characters.encode("abcdef")
    x, y = _characters.windows(symbols, 3)
    a = int(symbols[0])
    assert (x - a).tolist() == [[0, 1, 2], [1, 2, 3], [2, 3, 4]]
    assert (y - a).tolist() == [3, 4, 5]
    assert x.untyped_storage().data_ptr() == symbols.untyped_storage().data_ptr()
    assert y.dtype == torch.int64


def test_a_text_one_longer_than_a_window_has_one():
    x, y = _characters.windows(_characters.encode("abcd"), 3)
    assert (len(x), len(y)) == (1, 1)
