"""`evenreel score LIBRARY`: scores by the whole search of a library, by all that its clips show, say and are called."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from evenreel.cli.progress import share_bar
from evenreel.cli.score.show import Scored, check_table
from evenreel.errors import UsageError

if TYPE_CHECKING:
    from evenreel.types import Corpus

CATALOG = "catalog.sqlite"
MISSING = "the library does not have its file"


def asks_library(checkpoint: str) -> bool:
    """Check whether the name of a checkpoint is the folder of a library."""
    return (Path(checkpoint) / CATALOG).is_file()


def score_library(library: str, corpus: Corpus, out: Path, device: str) -> Scored:
    """Score captions by where a library's search puts each clip, and write the scores.

    Raises:
        CorpusError: the library has none of the clips' files, or it is not clear which are whose.
        EncoderError: the model of the library cannot be loaded.
        LibraryError: the library is damaged.
        OutputError: the file cannot be written.
        UsageError: the file cannot say what the scores use.
    """
    from evenreel.cli.score.search_scores import search_scores
    from evenreel.evaluation import save_scores
    from evenreel.features import SetAside
    from evenreel.library import open_library

    if out.suffix == ".npy":
        raise UsageError("A search uses word counts of the library, which an .npy cannot say; let --out end in .npz.")
    with open_library(library, device=device) as opened, share_bar("searching") as progress:
        found = search_scores(opened, corpus, progress)
    paths = dict(corpus.clips.select("clip_id", "path").iter_rows())
    aside = tuple(SetAside(clip, paths[clip] or "", "unreadable", MISSING) for clip in found.missing)
    scores, uses = found.scores, found.scores.about.uses
    scored = Scored(len(scores.caption_ids), len(scores.video_ids), aside, (), uses, "words are weighed by")
    check_table(out, scored)
    with share_bar("writing") as progress:
        save_scores(scores, out, progress)
    return scored
