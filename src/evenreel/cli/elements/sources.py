"""Where `evenreel elements` has its phrases from: captions of a corpus or a file, lists, or a dictionary."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from evenreel.cli.progress import share_bar
from evenreel.cli.text_lines import lines_of
from evenreel.errors import CorpusError, FeaturesError, UsageError

if TYPE_CHECKING:
    from evenreel.audits.dictionary import NamedCaptions
    from evenreel.checkpoint import Pretrained
    from evenreel.language.scene_dictionary import SceneDictionary
    from evenreel.language.scene_elements import Elements, MiningSettings
    from evenreel.types import Corpus, Encoder

TRAIN = "train"


@dataclass(frozen=True)
class PhraseSources:
    """Sources of phrases, of which at most one is given.

    Attributes:
        text: mine this file: UTF-8, a caption a line; lines that begin with # are skipped.
        entities, activities: UTF-8, a phrase a line, the most important first; lines that begin with # are skipped.
        packaged: everyday things, for clips without captions.
        dictionary: folder of a dictionary that this command or Python made, for another corpus for example.
    """

    text: Path | None = None
    entities: Path | None = None
    activities: Path | None = None
    packaged: bool = False
    dictionary: Path | None = None

    @property
    def given(self) -> tuple[str, ...]:
        """Names of the options that are given."""
        lists = self.entities or self.activities
        options = {"--text": self.text, "--entities and --activities": lists, "--packaged": self.packaged}
        return tuple(option for option, value in {**options, "--dictionary": self.dictionary}.items() if value)

    def check(self, split: str | None) -> None:
        """Check that one source is given at most, and none beside a split.

        Args:
            split: split whose captions are to be mined; None where the option is not given.

        Raises:
            UsageError: more than one is given, or one beside a split.
        """
        if len(self.given) > 1:
            raise UsageError(
                "Give one of these: --text, --entities with --activities, --packaged, --dictionary; or none of them to "
                "mine the captions of CORPUS."
            )
        if self.given and split is not None:
            raise UsageError(
                f"--split says which captions of CORPUS are mined, and with {self.given[0]} none are; leave one of "
                "them out."
            )

    def phrases(self, settings: MiningSettings) -> SceneDictionary:
        """Read the dictionary from the given source; the packaged one where none is given.

        Raises:
            UsageError: a file cannot be read, or its phrases are none.
            FeaturesError: the folder holds no dictionary.
        """
        from evenreel.language.scene_dictionary import packaged

        return self.read(settings) or packaged()

    def read(self, settings: MiningSettings) -> SceneDictionary | None:
        """Read the dictionary from the given source; None where the captions of the corpus are to be mined.

        Raises:
            UsageError: a file cannot be read, or its phrases are none.
            FeaturesError: the folder holds no dictionary.
        """
        from evenreel.features.scene_elements import load_dictionary
        from evenreel.language.scene_dictionary import dictionary_of, given, packaged

        if self.dictionary is not None:
            return load_dictionary(self.dictionary)
        if self.packaged:
            return packaged()
        if self.text is not None:
            named = _named(lines_of(self.text, "caption"), settings)
            return dictionary_of(named, settings, f"captions of {self.text.name}, read by {_tagger_name(settings)}")
        files = (self.entities, self.activities)
        if not any(files):
            return None
        lists = [[] if path is None else lines_of(path, "phrase") for path in files]
        return given(lists[0], lists[1], " and ".join(path.name for path in files if path is not None))


def read_captions(corpus: Corpus, settings: MiningSettings) -> NamedCaptions:
    """Read the entities and activities that each caption of a corpus names, with its clip and split."""
    from evenreel.audits.dictionary import NamedCaptions

    table = corpus.captions.join(
        corpus.clips.select("clip_id", "split"), on="clip_id", how="left", maintain_order="left"
    )
    splits = table["split"].fill_null("").to_list()
    return NamedCaptions(_named(table["text"].to_list(), settings), table["clip_id"].to_list(), splits)


def mined(read: NamedCaptions | None, split: str | None, settings: MiningSettings) -> SceneDictionary:
    """Make a dictionary of the captions of one split.

    Args:
        read: captions of a corpus; None where there is no corpus.
        split: split of the captions; None for `train`, or for all captions where no clip has a split.
        settings: limits of the mining.

    Raises:
        CorpusError: the corpus has no such split.
        UsageError: there is no corpus, or no phrase is in enough captions.
    """
    from evenreel.language.scene_dictionary import dictionary_of

    if read is None:
        raise UsageError(
            "Name a CORPUS to mine its captions, or give --text, --entities, --activities, --packaged or --dictionary."
        )
    there = list(dict.fromkeys(one for one in read.splits if one))
    asked = split or (TRAIN if there else "")
    if asked and not there:
        raise CorpusError(f"The clips of the corpus have no split, so none is {asked!r}; leave --split out.")
    if asked and asked not in there:
        raise CorpusError(
            f"The corpus has no captions of the split {asked!r} (it has captions of {', '.join(there)}); name with "
            "--split those to mine. A dictionary of test captions knows the answers."
        )
    own = [one for one, of in zip(read.named, read.splits, strict=True) if of == asked]
    source = f"captions{f' of {asked}' if asked else ''}, read by {_tagger_name(settings)}"
    return replace(dictionary_of(own, settings, source), splits=(asked,) if asked else ())


def phrase_encoder(features: Path | None, model: str | None, device: str) -> Encoder | None:
    """Load the text tower that phrases are embedded with: that of the features, or the model that is named.

    Args:
        features: folder of features; None where no clip is looked at.
        model: name of a model; None for that of the features.
        device: device of the tower.

    Returns:
        The encoder; None where neither features nor a model are named.

    Raises:
        FeaturesError: the features were computed elsewhere, or with other weights than the model has here.
    """
    from evenreel.encoders import load_encoder
    from evenreel.features import read_manifest

    if features is None:
        return None if model is None else load_encoder(model, device=device)
    manifest = read_manifest(features)
    if manifest.streams:
        raise FeaturesError(
            f"The features in {features} were computed elsewhere ({manifest.title}), and which text tower belongs to "
            "them is not known; give features that `evenreel features` computed."
        )
    name = model or manifest.encoder_id
    encoder = load_encoder(name, device=device, precision=manifest.precision)
    if encoder.weights_hash != manifest.weights_hash:
        raise FeaturesError(
            f"The features in {features} are of {manifest.encoder_id} with other weights than {name} has here; compute "
            "them again, or name with --model the encoder that they are of."
        )
    return encoder


def text_tower(pretrained: Pretrained, folder: Path | None, features: Path, device: str) -> Encoder | None:
    """Load the text tower that a matcher's features come from; None where they were computed elsewhere.

    Args:
        pretrained: matcher with what its checkpoint says.
        folder: folder of its checkpoint, with the towers that were trained further; None where it has none.
        features: folder of the features.
        device: device of the tower.

    Raises:
        FeaturesError: the tower is not the one that the features are of.
    """
    from evenreel.checkpoint.records import ENCODER

    note = pretrained.about.encoder
    if note.stored_name is not None:
        return None
    own = str(folder / ENCODER) if folder is not None and note.trained_further else None
    return phrase_encoder(features, own, device)


def _named(captions: list[str], settings: MiningSettings) -> list[Elements]:
    from evenreel.language.scene_elements import read_elements

    with share_bar("reading the captions") as progress:
        return read_elements(captions, settings=settings, progress=progress)


def _tagger_name(settings: MiningSettings) -> str:
    from evenreel.language import load_tagger

    return load_tagger(settings.tagger).name
