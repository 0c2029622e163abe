"""Blocks of captions come back as the encoder gave them, in any order and mixture."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenreel.errors import EncoderError, FeaturesError
from evenreel.features import manifest as module
from evenreel.features.manifest import (
    DamagedTextsError,
    ForeignTextsError,
    block_files,
    encode_block,
    find_texts,
    read_block,
    write_block,
)
from evenreel.types import TextEmbedding
from tests.features.pixel_encoder import PixelEncoder

captions = st.lists(st.text("ab c", max_size=20), min_size=1, max_size=12, unique=True)


@given(captions)
def test_every_text_of_a_block_has_its_own_words_and_sentence(texts: list[str]) -> None:
    encoder = PixelEncoder()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "BATCH_TEXTS", 5)  # several batches of different width
        block = encode_block(texts, encoder)
    assert sorted(block.texts) == sorted(texts)
    for row, text in enumerate(block.texts):
        expected = encoder.encode_text([text])
        np.testing.assert_array_equal(block.words_of(row), expected.words[0].astype(np.float16))
        np.testing.assert_array_equal(block.sentence[row], expected.sentence[0].astype(np.float16))


def test_texts_are_found_by_the_headers_alone_and_equal_blocks_are_equal_files(tmp_path: Path) -> None:
    encoder = PixelEncoder()
    for texts in (["one", "two three"], ["four"], ["two three", "one"]):
        write_block(tmp_path, encode_block(texts, encoder), encoder)
    assert len(list(block_files(tmp_path))) == 2
    assert find_texts(tmp_path, ["two three"], "b" * 64) == {}
    assert find_texts(tmp_path, ["two three"], encoder.weights_hash, "bfloat16") == {}
    places = find_texts(tmp_path, ["two three", "four", "five"], encoder.weights_hash)
    assert places.keys() == {"two three", "four"}
    for text, place in places.items():
        block = read_block(place.block, encoder.weights_hash)
        assert block.texts[place.row] == text
        assert place.length == len(block.words_of(place.row)) == len(text.split()) + 2


def test_a_block_of_another_encoder_or_a_damaged_one_is_refused(tmp_path: Path) -> None:
    encoder = PixelEncoder()
    write_block(tmp_path, encode_block(["one"], encoder), encoder)
    (path,) = block_files(tmp_path)
    for other in (("b" * 64, "float32"), (encoder.weights_hash, "bfloat16")):
        with pytest.raises(ForeignTextsError, match="org/pixels@1 in float32, another encoder or precision; move"):
            read_block(path, *other)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DamagedTextsError, match="damaged; run `evenreel features`"):
        read_block(path, encoder.weights_hash)
    assert find_texts(tmp_path, ["one"], encoder.weights_hash).keys() == {
        "one"
    }  # the header is whole: the reader is who notices
    path.write_bytes(b"x" * 20)
    assert find_texts(tmp_path, ["one"], encoder.weights_hash) == {}


def test_a_block_of_a_later_version_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = PixelEncoder()
    monkeypatch.setattr(module, "FORMAT", 2)
    write_block(tmp_path, encode_block(["one"], encoder), encoder)
    monkeypatch.undo()
    (path,) = block_files(tmp_path)
    with pytest.raises(FeaturesError, match="later version"):
        read_block(path, encoder.weights_hash)


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e6])
def test_a_word_that_float16_cannot_hold_is_refused(value: float) -> None:
    class Broken(PixelEncoder):
        def encode_text(self, captions: list[str]) -> TextEmbedding:  # type: ignore[override]
            done = super().encode_text(captions)
            done.words[0, 0, 0] = value
            return done

    with pytest.raises(EncoderError, match="a word that is not a number, or too large for float16"):
        encode_block(["one"], Broken())
