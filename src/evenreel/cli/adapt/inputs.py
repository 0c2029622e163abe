"""What `evenreel adapt` learns from: the captions and clips of a corpus, or the queries and clips of a library."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from evenreel.adaptation.prepared import PreparedSource, load_prepared
from evenreel.adaptation.resources import reads_captions, text_reader
from evenreel.adaptation.stream import EncodeTexts, QueryStream
from evenreel.adaptation.zero_shot import NAME, zero_shot
from evenreel.checkpoint import (
    EncoderNote,
    Pretrained,
    checkpoint_folder,
    load_features_for,
    load_matcher,
    names_no_checkpoint,
)
from evenreel.cli.progress import share_bar
from evenreel.errors import UsageError
from evenreel.wording import count

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from evenreel.adaptation.settings import AdaptSettings
    from evenreel.cli.adapt.options import AdaptSource
    from evenreel.features import SetAside
    from evenreel.types import Corpus

TEST = "test"


class Named(NamedTuple):
    """A matcher that was named, and the folder of its checkpoint, None where it has none.

    `pretrained` is None for the mean frame of a library's clips, which is made once the library's model is known.
    """

    folder: Path | None
    pretrained: Pretrained | None


@dataclass(frozen=True, eq=False)
class Given:
    """A matcher with the queries and clips that it adapts to.

    Attributes:
        pretrained: matcher before adaptation.
        folder: folder of the matcher's checkpoint; None where it had none.
        stream: queries and clips.
        of: name of what the queries and clips belong to: `the split test of msrvtt`.
        prepared: what `evenreel prepare` kept with the checkpoint; None for nothing.
        encode: encoder of counterfactual captions; None where none is known, or none is needed.
        names: names of clips that have one beside their id, by id.
        set_aside: clips that had been skipped, with the reasons.
        notices: sentences on what else a reader should know.
        uses: other queries or statistics that the features were made with (`evenreel.checkpoint.CorpusFeatures.uses`).
        pictures: function that makes small pictures (JPEG) of clips, by id; None where their files are not known.
    """

    pretrained: Pretrained
    folder: Path | None
    stream: QueryStream
    of: str
    prepared: PreparedSource | None
    encode: EncodeTexts | None
    names: Mapping[str, str]
    set_aside: tuple[SetAside, ...] = ()
    notices: tuple[str, ...] = ()
    uses: tuple[str, ...] = ()
    pictures: Callable[[Sequence[str]], Mapping[str, bytes]] | None = None


def matcher_named(name: str, features: Path | None, device: str) -> Named:
    """Load the checkpoint of this name, or make the mean frame where no folder is called so.

    Args:
        name: folder, hub id, or the name of the mean frame.
        features: folder of the corpus's features, for the mean frame; None for a library.
        device: device of the matcher.

    Raises:
        UsageError: the name is that of a kind of matcher that has to be trained first.
        CheckpointError: there is no such checkpoint.
    """
    from evenreel.features import read_manifest

    if names_no_checkpoint(name):
        if name != NAME:
            raise UsageError(
                f"The matcher {name} has to be trained before it can adapt; name its checkpoint, or {NAME}."
            )
        if features is None:
            return Named(None, None)
        manifest = read_manifest(features)
        note = EncoderNote(manifest.encoder_id, manifest.weights_hash, manifest.dimension)
        return Named(None, zero_shot(note, device=device))
    folder = checkpoint_folder(name)
    return Named(folder, load_matcher(folder, device=device))


def read_corpus(named: Named, source: AdaptSource, settings: AdaptSettings, device: str) -> Given:
    """Read the captions of a split as unlabelled queries, in the order of the corpus, and the clips of that split.

    Raises:
        FeaturesError: the features are not those that the matcher takes.
        CorpusError: the corpus has no such split, or nothing can be learned from it.
    """
    from evenreel.cli.elements import text_tower
    from evenreel.corpus import load_corpus, select

    assert named.pretrained is not None and source.corpus is not None and source.features is not None
    whole = load_corpus(source.corpus)
    split = _split(whole, source.split)
    part = whole if split is None else select(whole, split=split)
    with share_bar("reading the captions") as progress:
        loaded = load_features_for(
            named.pretrained, source.features, part, progress, pretrained_features=source.pretrained_features
        )
    tower = text_tower(named.pretrained, named.folder, source.features, device) if reads_captions(settings) else None
    said = dict(part.captions.select("caption_id", "text").iter_rows())
    sentences = tuple(said[caption] for caption in loaded.texts.ids)
    name = source.corpus.resolve().name
    return Given(
        pretrained=named.pretrained,
        folder=named.folder,
        stream=QueryStream(loaded.texts, sentences, loaded.videos),
        of=name if split is None else f"the split {split} of {name}",
        prepared=None if named.folder is None else load_prepared(named.folder),
        encode=None if tower is None else text_reader(tower, named.pretrained.matcher),
        names={},
        set_aside=loaded.set_aside,
        notices=loaded.notices,
        uses=loaded.uses,
    )


def read_library(named: Named, source: AdaptSource, device: str) -> Given:
    """Read a file of queries, and all clips of the library that they were asked of.

    Raises:
        UsageError: the file holds no queries, or the library no clips to learn from.
        LibraryError: the matcher takes features of another model than the library's.
    """
    from evenreel.cli.adapt.library import library_stream
    from evenreel.cli.clip_pictures import clip_pictures
    from evenreel.cli.text_lines import queries_of
    from evenreel.library import open_library

    assert source.library is not None and source.queries is not None
    asked = queries_of(source.queries)
    with open_library(source.library, device=device) as opened:
        found = library_stream(opened, asked, named.pretrained, device=device)
    again = found.query_count - len(found.stream.sentences)
    return Given(
        pretrained=found.pretrained,
        folder=named.folder,
        stream=found.stream,
        of=f"the library {source.library.resolve().name}",
        prepared=None if named.folder is None else load_prepared(named.folder),
        encode=found.encode,
        names=found.names,
        notices=(f"{count(again, 'line')} of {source.queries.name} asked again what others had.",) if again else (),
        pictures=partial(clip_pictures, source.library),
    )


def _split(corpus: Corpus, asked: str | None) -> str | None:
    """The split to learn from; all of the corpus where none is asked for and it has not the usual one."""
    if asked is not None:
        return asked
    return TEST if TEST in corpus.clips["split"].to_list() else None
