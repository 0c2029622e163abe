"""Changes of on-screen words in stored features, which are encoded anew with the encoder that made the features."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from evenreel.encoders import load_encoder
from evenreel.errors import EncoderError, FeaturesError
from evenreel.features.load import FoundClips, Sentences
from evenreel.features.stored import StoredClips
from evenreel.features.word_changes import WordChanges, changed_windows, with_changed_words
from evenreel.progress import Progress
from evenreel.types import Encoder, VideoFeatures


def changed_words(
    found: FoundClips | StoredClips,
    videos: VideoFeatures,
    changes: WordChanges | None,
    progress: Progress = lambda share: None,
    encoder: Callable[[], Encoder] | None = None,
) -> VideoFeatures:
    """Return features of clips whose on-screen words are changed and encoded anew.

    Args:
        found: stored features of clips with on-screen text.
        videos: those features, loaded by `found.load()`.
        changes: changes of the words; None for none.
        progress: called with the share of the sentences to encode that is done.
        encoder: function that loads the encoder of the features, to share one; None for `encoder_of(found)`.

    Raises:
        FeaturesError: a clip has no on-screen text that can be changed, or the encoder cannot be loaded.
        EncoderError: a feature is not finite.
    """
    if changes is None:
        return videos
    return with_changed_words(found, videos, changes, encoder or partial(encoder_of, found), progress)


def changed_texts(found: FoundClips, changes: WordChanges) -> dict[str, tuple[str, ...]]:
    """Return the on-screen sentences of clips' windows after changes of their words, by clip id.

    Args:
        found: stored features of clips with on-screen text.
        changes: changes of the words.

    Raises:
        FeaturesError: a clip has no on-screen text that can be changed.
    """
    shards, _ = found.shards(without=("frames",))
    sentences = Sentences(found.folder, found.manifest, partial(encoder_of, found))
    for shard in shards.values():
        if shard.window_texts is not None and shard.windows is not None:
            sentences.know(shard.window_texts, shard.windows)
    return {
        clip_id: tuple(one.text for one in changed_windows(shard, clip_id, changes, found.made, sentences.fits))
        for clip_id, shard in shards.items()
    }


def encoder_of(found: FoundClips | StoredClips) -> Encoder:
    """Load the encoder that made stored features.

    Raises:
        FeaturesError: the encoder cannot be loaded.
    """
    manifest = found.manifest
    try:
        return load_encoder(manifest.encoder_id, precision=manifest.precision)
    except EncoderError as error:
        raise FeaturesError(
            f"Changed words on screen have to be read by the encoder of the features in {found.folder}, "
            f"{manifest.title}, and it cannot be had: {error}"
        ) from error
