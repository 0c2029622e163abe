"""LSMDC: tab-separated tables without a header, one row a sentence.

Columns: clip, start and end as aligned, start and end as extracted, sentence (quotes are part of it). The files are
`MOVIE/CLIP.avi`, cut already. (Rohrbach et al. 2017.)

Codebases leave out different test clips, so their galleries differ; here every clip is kept and the column
`left_out_by` says who leaves it out.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from evenreel.corpus.formats.names import movie_length_s
from evenreel.corpus.given_files import ReleaseFiles, stem, tab_rows
from evenreel.corpus.imported import Draft, Imported
from evenreel.errors import CorpusError

FILES = {
    "train": ("LSMDC16_annos_training.csv", "LSMDC16_annos_training_real.csv"),
    "val": ("LSMDC16_annos_val.csv",),
    "test": ("LSMDC16_challenge_1000_publictect.csv",),
}
OFFICIAL = {"val": 7408, "test": 1000}
COLUMNS = 6

LEFT_OUT_BY = {
    "1012_Unbreakable_00.05.16.065-00.05.21.941": "X-Pool, T-MASS",
    "0017_Pianist_00.23.28.872-00.23.34.843": "DiCoSA",
    "0017_Pianist_00.30.36.767-00.30.38.009": "DiCoSA",
    "3064_SPARKLE_2012_01.41.07.000-01.41.11.793": "DiCoSA",
}


def read_lsmdc(paths: Sequence[Path]) -> Imported:
    """Read LSMDC; a clip with several sentences has several captions."""
    given = ReleaseFiles("LSMDC", paths)
    draft = Draft("LSMDC")
    tables = {split: given.one(*names) for split, names in FILES.items()}
    if not any(tables.values()):
        raise CorpusError(given.lacks(" or ".join(names[0] for names in FILES.values())))
    for split, path in tables.items():
        for where, values in tab_rows(path, COLUMNS) if path else ():
            name = stem(values[0])
            if draft.clips.get(name, {}).get("split") != split:
                draft.clip(name, _columns(name, split), where)
            draft.caption(name, values[-1])
    _tell_of_galleries(draft)
    draft.expect({split: count for split, count in OFFICIAL.items() if tables[split]})
    draft.notices += given.unread()
    return draft.finish()


def _columns(name: str, split: str) -> dict[str, str | float | None]:
    movie = name.rpartition("_")[0]
    return {
        "path": f"{movie}/{name}.avi",
        "split": split,
        "duration_s": movie_length_s(name),
        "movie": movie,
        "left_out_by": LEFT_OUT_BY.get(name),
    }


def _tell_of_galleries(draft: Draft) -> None:
    if kept := [name for name in LEFT_OUT_BY if name in draft.clips]:
        by = sorted({who for name in kept for who in LEFT_OUT_BY[name].split(", ")})
        draft.note(
            f"{len(kept)} clips that {', '.join(by)} leave out are kept; the column left_out_by names them, to select "
            "the gallery of another codebase."
        )
