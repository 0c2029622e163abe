"""`--rescore` and what belongs to it: the banks it reads, its settings, and what has to be said of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from evenreel.errors import UsageError
from evenreel.evaluation.metrics import RescoringSettings

if TYPE_CHECKING:
    from evenreel.evaluation.metrics import Direction
    from evenreel.evaluation.rescoring import Bank, Rescoring
    from evenreel.types import ScoreBlocks, Scores


@dataclass(frozen=True)
class Correction:
    """A correction of all scores before they are measured.

    Attributes:
        rescore: correct all scores first: `dsl`, `dsl-double`, `inverted`, `csls`, `sinkhorn`, `hub-memory`; with a
            bank: `qb-norm`, `nnn`, `sinkhorn-bank`, `dbsn`.
        bank: scores of other captions with the same clips, npz or npy: corrects what captions find.
        video_bank: scores of the same captions with other clips, npz or npy: corrects what videos find.
        bank_pairs: scores of other captions with other clips, those of the banks, npz or npy: for `dbsn`.
        settings: settings of the correction.
    """

    rescore: str | None = None
    bank: Path | None = None
    video_bank: Path | None = None
    bank_pairs: Path | None = None
    settings: RescoringSettings = field(default_factory=RescoringSettings)

    @property
    def banks(self) -> list[Path]:
        """Files of banks."""
        return [path for path in (self.bank, self.video_bank, self.bank_pairs) if path]

    @property
    def given(self) -> bool:
        """Whether anything of a correction is asked for."""
        return bool(self.rescore or self.banks or self.settings.given)

    @property
    def method(self) -> Rescoring:
        """The correction that is named."""
        from evenreel.evaluation.rescoring import RESCORINGS

        if self.rescore not in RESCORINGS:
            raise UsageError(f"{self.rescore!r} is no re-scoring; there are: {', '.join(RESCORINGS)}.")
        return RESCORINGS[self.rescore]

    def check(self, directions: Sequence[str], *, alone: bool) -> None:
        """Check that there is such a correction with such settings, and banks if and only if it uses some."""
        from evenreel.evaluation.scores import check_file

        if self.banks and not (self.rescore and alone):
            raise UsageError(
                "A bank belongs to one system and one correction: use --bank with --rescore, without --against."
            )
        if self.rescore is None:
            if given := list(self.settings.given):
                raise UsageError(f"--{given[0]} is a setting of a correction; name the correction with --rescore.")
            return
        self.method.chosen(self.settings)
        self._check_banks(directions)
        for path in self.banks:
            check_file(path)

    def _check_banks(self, directions: Sequence[str]) -> None:
        method = self.method
        if method.needs_bank and not (self.bank or self.video_bank):
            raise UsageError(
                f"{method.name} needs a bank; name the scores of other captions with --bank, or of other clips with "
                "--video-bank."
            )
        if self.banks and not method.needs_bank:
            raise UsageError(f"{method.name} takes no bank; leave --bank out.")
        if method.needs_pairs and not self.bank_pairs:
            raise UsageError(
                f"{method.name} needs a second bank; name the scores of other captions with other clips with "
                "--bank-pairs."
            )
        if self.bank_pairs and not method.needs_pairs:
            raise UsageError(f"{method.name} uses one bank alone; leave --bank-pairs out.")
        if self.bank and not self.video_bank and "v2t" in directions:
            raise UsageError(
                f"{self.bank} is a bank of captions, which serves t2v; name one of clips with --video-bank, or leave "
                "--direction v2t out."
            )
        if self.video_bank and not self.bank and "t2v" in directions:
            raise UsageError(
                f"{self.video_bank} is a bank of clips, which serves v2t; name one of captions with --bank, or leave "
                "--direction t2v out."
            )

    def served(self, directions: Sequence[Direction]) -> tuple[Direction, ...]:
        """Return those of the directions that it corrects with the banks that are given."""
        banks = {"t2v": self.bank, "v2t": self.video_bank}
        if found := tuple(one for one in directions if banks[one] or not self.method.needs_bank):
            return found
        raise UsageError(
            f"The scores serve {directions[0]} alone, and the bank that is given serves the other direction; name "
            f"one with {'--bank' if directions[0] == 't2v' else '--video-bank'}."
        )

    def notices(self, scores: ScoreBlocks, directions: Sequence[Direction]) -> list[str]:
        """List what has to be said of the figures of corrected scores: the correction, and what it is not made for."""
        said = [f"The scores are corrected by {self.method.described(self.settings)}."]
        if left := set(directions) - set(self.served(directions)):
            one = left.pop()
            bank = "captions" if one == "v2t" else "clips"
            said.append(f"{self.method.name} is given a bank of {bank}, so {one} is left out.")
        return said + ([sentence] if (sentence := self.method.unsuited(scores, self.settings)) else [])

    def apply(self, scores: ScoreBlocks, direction: Direction, notices: list[str]) -> Scores:
        """Correct the scores for one direction; what is noticed about the banks is added to `notices`."""
        from evenreel.evaluation.rescoring import rescore

        assert self.rescore is not None
        bank = self._bank(scores, direction, notices)
        pairs = self._pairs(bank, scores, direction, notices) if bank and self.bank_pairs else None
        values, of_pairs = (None if one is None else one.values for one in (bank, pairs))
        return rescore(self.rescore, scores, direction, values, of_pairs, self.settings)

    def _bank(self, scores: ScoreBlocks, direction: Direction, notices: list[str]) -> Bank | None:
        from evenreel.evaluation.rescoring import load_bank

        path = self.bank if direction == "t2v" else self.video_bank
        if path is None:
            return None
        if path.suffix.lower() == ".npy":
            line, what = ("column", "clip") if direction == "t2v" else ("row", "caption")
            notices.append(
                f"{path} names no ids: its {line}s are taken for the {what}s in the order of the scores' {line}s."
            )
        if direction == "t2v":
            bank = load_bank(path, scores.video_ids)
            sentence = bank.notice(scores.caption_ids)
        else:
            bank = load_bank(path, caption_ids=scores.caption_ids)
            sentence = bank.notice(scores.video_ids, "clip")
        notices += [sentence] if sentence else []
        return bank

    def _pairs(self, bank: Bank, scores: ScoreBlocks, direction: Direction, notices: list[str]) -> Bank:
        from evenreel.evaluation.rescoring import load_bank

        path = self.bank_pairs
        assert path is not None
        line, ids = ("row", bank.caption_ids) if direction == "t2v" else ("column", bank.video_ids)
        pairs = load_bank(path, caption_ids=ids) if direction == "t2v" else load_bank(path, video_ids=ids)
        if ids is None or path.suffix.lower() == ".npy":
            notices.append(f"The {line}s of {path} are taken for those of the bank, in their order: one names no ids.")
        items, gallery, what = (
            (pairs.video_ids, scores.video_ids, "clip")
            if direction == "t2v"
            else (pairs.caption_ids, scores.caption_ids, "caption")
        )
        if own := set(items or ()).intersection(gallery):
            notices.append(
                f"{path} has scores of {len(own):,} {what}s of the gallery, {min(own)!r} for example, which then count "
                f"twice; give a bank of other {what}s."
            )
        return pairs
