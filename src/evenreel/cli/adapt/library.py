"""The clips and queries of a library as test-time training reads them.

Clips are given to a matcher as re-ranking gives them (`evenreel.library.search.rerank`). All of them are in memory
at once: V x T x D float16, T at most as many frames as the matcher takes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenreel.adaptation.stream import FRAMES, EncodeTexts, QueryStream, text_reader, zero_shot
from evenreel.checkpoint.records import EncoderNote, Inputs
from evenreel.errors import UsageError
from evenreel.library.search.query import readable
from evenreel.library.search.rerank import as_given, joined_text, middles, stored_clip
from evenreel.library.search.snapshot import Snapshot
from evenreel.types import Encoder, OnScreen, VideoFeatures

if TYPE_CHECKING:
    from evenreel.checkpoint import Pretrained
    from evenreel.library import Library


class LibraryStream(NamedTuple):
    """Queries and clips of a library, with all that a matcher needs to be adapted to them.

    Attributes:
        pretrained: the matcher to adapt.
        stream: the encoded queries, and the clips with frames.
        encode: function that encodes counterfactual captions with the library's model.
        names: name of the first file by clip id.
        query_count: number of queries given, repeated ones counted and empty ones not.
    """

    pretrained: Pretrained
    stream: QueryStream
    encode: EncodeTexts
    names: Mapping[str, str]
    query_count: int


def library_stream(
    library: Library, queries: Sequence[str], pretrained: Pretrained | None = None, *, device: str = "cpu"
) -> LibraryStream:
    """Read the queries and clips of a library that a matcher, or else the mean frame, is to be adapted to."""
    if pretrained is not None:
        library.check_matcher(pretrained)
    encoder = library.encoder
    if encoder is None:
        raise UsageError(f"The library {library.path} is searched without vision, so no matcher can learn there.")
    if pretrained is None:
        note = EncoderNote(encoder.encoder_id, encoder.weights_hash, encoder.dimension)
        pretrained = zero_shot(note, frames=FRAMES, device=device)
    inputs = pretrained.about.inputs
    read = [text for text in map(readable, queries) if text]
    distinct = tuple(dict.fromkeys(read))
    with library.snapshot() as s:
        if min(len(distinct), len(s.seen_ids)) < 2:
            raise UsageError(
                "A model can learn from two different queries and two clips with frames or more; there are fewer "
                f"(queries: {len(distinct):,}, clips: {len(s.seen_ids):,})."
            )
        encode = text_reader(encoder, pretrained.matcher, inputs.words)
        stream = QueryStream(encode(distinct), distinct, _clips(s, inputs, encoder))
        names = s.connection.execute(
            "SELECT clip_id, min(name) FROM files WHERE state = 'indexed' AND clip_id IS NOT NULL GROUP BY clip_id"
        )
        return LibraryStream(pretrained, stream, encode, dict(names.fetchall()), len(read))


def _clips(library: Snapshot, inputs: Inputs, encoder: Encoder) -> VideoFeatures:
    """Read every clip with frames, V of them, in the form that a matcher was trained on."""
    vectors, clip_ids = library.vectors, library.seen_ids
    assert vectors is not None
    most = max(len(middles(int(count), inputs.frames)) for count in set(library.counts[library.seen].tolist()))
    read = partial(stored_clip, library, text=inputs.windows is not None)
    whole: dict[str, Any] = {
        "frames": np.zeros((len(clip_ids), most, vectors.dimension), np.float16),
        "frame_mask": np.zeros((len(clip_ids), most), np.bool_),
        "times_s": np.zeros((len(clip_ids), most)),
    }
    on_screen: list[OnScreen[NDArray[Any]]] = []
    for row, clip_id in enumerate(clip_ids):
        clip = as_given(read(clip_id), inputs, encoder)
        for name, array in whole.items():
            given = getattr(clip, name)[0]
            array[row, : len(given)] = given
        if clip.on_screen is not None:
            on_screen.append(clip.on_screen)
    return VideoFeatures(tuple(clip_ids), **whole, on_screen=joined_text(on_screen))
