"""The text tower that threads share: what is encoded beside others is what it is alone."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenreel.encoders import load_encoder
from evenreel.errors import EncoderError
from evenreel.server import batched_encoder
from evenreel.server.batched_encoder import BatchedEncoder
from evenreel.types import Encoder, TextEmbedding
from tests.library.fakes import WordsEncoder
from tests.server.conftest import PATIENCE_S, wait_until
from tests.tiny_checkpoints import tiny_clip

CAPTIONS = st.text("abc dé\u4e00!", min_size=1, max_size=90).filter(lambda text: bool(text.strip()))
ALIKE = 0.999999


@pytest.fixture(scope="module", params=["onnx", "torch"])
def encoder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Encoder:
    """The built-in tower on ONNX Runtime, and a tiny one on torch."""
    if request.param == "onnx":
        return load_encoder("builtin")
    return load_encoder(str(tiny_clip(tmp_path_factory.mktemp("clip"))), device="cpu")


@settings(max_examples=20)
@given(st.lists(st.lists(CAPTIONS, min_size=1, max_size=7), min_size=1, max_size=8))
def test_captions_of_any_lengths_are_the_same_together_as_alone(encoder: Encoder, asked: list[list[str]]) -> None:
    batched = BatchedEncoder(encoder)
    together = batched.encode_text([caption for captions in asked for caption in captions])
    row = 0
    for captions in asked:
        again = batched.encode_text(captions)  # out of what is kept
        for place, caption in enumerate(captions):
            alone = encoder.encode_text([caption])
            for found, at in ((together, row), (again, place)):
                assert found.sentence[at] @ alone.sentence[0] >= ALIKE
                assert found.word_mask[at].sum() == alone.word_mask.sum()
                np.testing.assert_allclose(
                    found.words[at][found.word_mask[at]], alone.words[0][alone.word_mask[0]], atol=2e-4
                )
                assert not found.words[at][~found.word_mask[at]].any()
            row += 1


class Slow(WordsEncoder):
    """Waits at a gate, and refuses what holds 'bad'."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.calls = threading.Event(), list[list[str]]()

    def encode_text(self, captions: Sequence[str]) -> TextEmbedding:
        self.calls.append(list(captions))
        assert self.gate.wait(PATIENCE_S)
        if any("bad" in caption for caption in captions):
            raise EncoderError("The model gives a feature that is not a number.")
        return super().encode_text(captions)


def asked_at_once(slow: Slow, batched: BatchedEncoder, captions: Sequence[str]) -> list[Callable[[], TextEmbedding]]:
    """The first is being encoded while the others come."""
    with ThreadPoolExecutor(len(captions)) as pool:
        found = [pool.submit(batched.encode_text, [captions[0]])]
        wait_until(lambda: len(slow.calls) == 1)
        found += [pool.submit(batched.encode_text, [caption]) for caption in captions[1:]]
        wait_until(lambda: len(batched._asked) == len(set(captions[1:])))
        slow.gate.set()
    return [one.result for one in found]


@pytest.mark.parametrize("captions", [["red bus", "dog", "snow", "boat", "dog"], ["red bus", "dog", "bad cat", "boat"]])
def test_what_waits_is_encoded_with_the_next_call_and_what_cannot_be_fails_alone(captions: list[str]) -> None:
    slow = Slow()
    found = asked_at_once(slow, BatchedEncoder(slow), captions)
    assert slow.calls[0] == captions[:1]
    assert sorted(slow.calls[1]) == sorted(set(captions[1:]))
    for caption, one in zip(captions, found, strict=True):
        if "bad" in caption:
            with pytest.raises(EncoderError, match="not a number"):
                one()
        else:
            np.testing.assert_array_equal(one().sentence, WordsEncoder().encode_text([caption]).sentence)
    if "bad cat" not in captions:
        assert len(slow.calls) == 2


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batched_encoder, "KEPT_BYTES", 4_000)
    words = WordsEncoder()
    batched = BatchedEncoder(words)
    for number in range(50):
        batched.encode_text([f"bus {number}"])
    assert words.captions_encoded == 50
    assert 0 < batched._kept_bytes == sum(map(batched_encoder._bytes, batched._kept.values())) <= 4_000
    batched.encode_text(["bus 49"])
    assert words.captions_encoded == 50
    batched.encode_text(["bus 0"])
    assert words.captions_encoded == 51
