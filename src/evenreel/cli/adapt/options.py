"""Options of `evenreel adapt`: what it learns from, how it learns, and what it writes."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated

import typer

from evenreel.config import OptionForm
from evenreel.errors import UsageError


@dataclass(frozen=True)
class AdaptSource:
    """Where queries and clips are from: a part of a corpus with its features, or a library with a file of queries.

    Attributes:
        corpus: folder of a corpus, of which the captions are read as queries; which clip they describe is not.
        features: folder of the corpus's features, by the encoder that the matcher was trained with.
        split: part of the corpus; None for test, where the corpus has it.
        pretrained_features: folder of features by the matcher's towers before their training, for one that selects
            scene elements.
        library: folder of a library, in place of a corpus.
        queries: what people search for in the library: a query a line, or a .jsonl with a field 'query'.
    """

    corpus: Annotated[Path | None, typer.Argument(metavar="[CORPUS]")] = None
    features: Path | None = None
    split: str | None = None
    pretrained_features: Path | None = None
    library: Annotated[Path | None, typer.Option("--library", "-l")] = None
    queries: Path | None = None

    def check(self, scores: Path | None) -> None:
        """Check that a corpus with features is given, or a library with queries.

        Args:
            scores: file that the scores of a corpus are written to.

        Raises:
            UsageError: neither is given, or both, or an option of the one with the other.
        """
        of_corpus = {
            "--features": self.features,
            "--split": self.split,
            "--pretrained-features": self.pretrained_features,
            "--scores": scores,
        }
        given = {name for name, value in of_corpus.items() if value is not None}
        if (self.corpus is None) == (self.library is None):
            raise UsageError(
                "Name what to learn from: a CORPUS with --features FOLDER, or --library FOLDER with --queries FILE."
            )
        if self.library is not None and given:
            raise UsageError(f"{min(given)} is about a corpus, not about a library; leave it out.")
        if self.library is not None and self.queries is None:
            raise UsageError("Give with --queries a file of what people search for in the library, a query a line.")
        if self.corpus is not None and self.queries is not None:
            raise UsageError("The queries of a corpus are its captions; leave --queries out, or name a --library.")
        if self.corpus is not None and self.features is None:
            raise UsageError("Give with --features the folder that `evenreel features` made of the corpus.")


@dataclass(frozen=True)
class LearningChoice:
    """How `evenreel adapt` learns.

    Attributes:
        settings: how it learns: a YAML file, or `safe`, `safe-online`, `rotation`, `titan/offline`, `titan/online`,
            `titan/naive`, `titan/ttt`, `titan/ttt-flow`.
        changes: PLACE=VALUE instead of the settings': lr=1e-3, safety.keep=0.5; may be given again.
        confounders: vectors of what the target's clips tend to show, in place of those that are looked for.
    """

    settings: str = "safe"
    changes: Annotated[tuple[str, ...], OptionForm("--set")] = ()
    confounders: Path | None = None


@dataclass(frozen=True)
class AdaptFiles:
    """Where the checkpoint, the scores and the report are written; None or False where they are not.

    Attributes:
        out: folder of the adapted checkpoint.
        in_place: put the adapted checkpoint in the place of CHECKPOINT, which is kept whole in CHECKPOINT/before.
        dry_run: write no checkpoint; say what would come of it.
        scores: also write the scores of the corpus (.npz): online as each batch was answered, offline of the result.
        report: also write the page of the report here; the checkpoint has it in adaptation/report.html.
        undo: put CHECKPOINT back as it was before it was adapted in place.
    """

    out: Path | None = None
    in_place: bool = False
    dry_run: bool = False
    scores: Path | None = None
    report: Path | None = None
    undo: bool = False

    def check(self) -> None:
        """Check that the checkpoint goes to one place, and that the file of scores can say what they used.

        Raises:
            UsageError: none or several of `out`, `in_place` and `dry_run` are given, or the file of scores is no .npz.
        """
        places = {"--out": self.out, "--in-place": self.in_place, "--dry-run": self.dry_run}
        given = [name for name, value in places.items() if value]
        if len(given) != 1:
            which = f"not {' and '.join(given)}" if given else "for the adapted checkpoint has to go somewhere"
            raise UsageError(f"Give one of --out DIR, --in-place and --dry-run, {which}.")
        if self.scores is not None and self.scores.suffix != ".npz":
            raise UsageError(
                f"{self.scores} does not end in .npz, and no other file can say that the scores used unlabelled "
                "queries; give --scores such a name."
            )


def any_given(*records: AdaptSource | AdaptFiles) -> bool:
    """Check whether a field of one of these records is given, which are None or False by default."""
    return any(getattr(record, field.name) for record in records for field in fields(record))
