"""What of a file is read: frames by a sampling rule, a part of it, the stream of a language.

A rule by time asks for moments; the frame given for a moment `t` is the one on screen at `t`: the last frame
whose timestamp is not after `t` (to a microsecond), or the first frame where `t` is before it. A rule by
number counts frames in the order they are shown. A frame that answers several moments is given once, so a
short or slow video yields fewer frames than the rule names. A rule may be limited to a part of a file.
"""

from __future__ import annotations

import heapq
import itertools
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Protocol, runtime_checkable

from evenreel.errors import MediaError, UsageError

MOST_FRAMES = 100_000
SHORTEST_PERIOD_S = 0.001


@runtime_checkable
class TimeRule(Protocol):
    """Sampling rule that chooses frames by moments; it needs at most the video's length, never its number of frames."""

    needs_end: ClassVar[bool]  # whether the moments depend on where the video ends

    def times(self, start_s: float, end_s: float) -> Iterator[float]:
        """Return the moments to sample in seconds, rising; they may go on beyond `end_s`, where the video is over."""

    def capped(self, duration_s: float, max_frames: int) -> TimeRule:
        """Return this rule, or a sparser one that samples at most `max_frames` frames of a video of that length."""


class IndexRule(Protocol):
    """Sampling rule that chooses frames by number, for which the packets of the file are counted first."""

    def indices(self, frame_count: int, fps: float) -> list[int]:
        """Return the numbers of the frames to sample, from 0 to frame_count - 1, rising."""

    def capped(self, duration_s: float, max_frames: int) -> IndexRule:
        """Return this rule, or a sparser one that samples at most `max_frames` frames."""


SamplingRule = TimeRule | IndexRule


@dataclass(frozen=True)
class SeveralRules:
    """Several sampling rules by time that are applied together, so that a video is decoded once.

    Each samples the frames it would alone; a limit on frames is divided equally between them.

    >>> together = SeveralRules((EverySeconds(1.0), EverySeconds(0.5)), [])
    >>> list(itertools.islice(together.times(0.0, 2.0), 4)), together.asked
    ([0.0, 0.0, 0.5, 1.0], [0, 1, 1, 0])
    """

    needs_end: ClassVar[bool] = True
    rules: tuple[TimeRule, ...]
    asked: list[int] = field(compare=False)  # the place of the rule of each moment that was taken

    def times(self, start_s: float, end_s: float) -> Iterator[float]:
        moments = (zip(rule.times(start_s, end_s), itertools.repeat(place)) for place, rule in enumerate(self.rules))
        for time_s, place in heapq.merge(*moments):
            self.asked.append(place)
            yield time_s

    def capped(self, duration_s: float, max_frames: int) -> SeveralRules:
        share = max_frames // len(self.rules)
        return replace(self, rules=tuple(rule.capped(duration_s, share) for rule in self.rules))

    def __str__(self) -> str:
        return " and ".join(map(str, self.rules))


@dataclass(frozen=True)
class Midpoints:
    """Sampling rule `count midpoints`: the middles of `count` equal intervals of a video.

    >>> list(Midpoints(4).times(0.0, 8.0))
    [1.0, 3.0, 5.0, 7.0]
    """

    needs_end: ClassVar[bool] = True
    count: int

    def times(self, start_s: float, end_s: float) -> Iterator[float]:
        step_s = (end_s - start_s) / self.count
        return (start_s + (k + 0.5) * step_s for k in range(self.count))

    def capped(self, duration_s: float, max_frames: int) -> Midpoints:
        return replace(self, count=min(self.count, max_frames))

    def __str__(self) -> str:
        return f"{self.count} midpoints"


@dataclass(frozen=True)
class EverySeconds:
    """Sampling rule `every period s`: the start of the video and then one moment each `period_s` seconds.

    The moments have no end, since a file may be longer than its header says.

    >>> list(itertools.islice(EverySeconds(0.5).times(0.0, 2.0), 4))
    [0.0, 0.5, 1.0, 1.5]
    """

    needs_end: ClassVar[bool] = False
    period_s: float

    def times(self, start_s: float, end_s: float) -> Iterator[float]:
        return (start_s + k * self.period_s for k in itertools.count())

    def capped(self, duration_s: float, max_frames: int) -> EverySeconds:
        return replace(self, period_s=max(self.period_s, duration_s / max_frames))

    def __str__(self) -> str:
        return f"every {self.period_s:g} s"


@dataclass(frozen=True)
class GivenTimes:
    """Sampling rule for the frames at given moments, rising, in seconds of the file; no limit leaves any out."""

    needs_end: ClassVar[bool] = False
    at_s: Sequence[float]

    def times(self, start_s: float, end_s: float) -> Iterator[float]:
        return iter(self.at_s)

    def capped(self, duration_s: float, max_frames: int) -> GivenTimes:
        return self


@dataclass(frozen=True)
class Clip4Clip:
    """Sampling rule `clip4clip [count]`: one frame a second, thinned to `count` (CLIP4Clip, rawvideo_util.py).

    The frame rate is cut to an integer, so at 29.97 frames a second it is every 29th frame, the end second
    included. More than `count` are thinned by `int(linspace(0, n - 1, count))` (its slice_framepos 2). Below
    one frame a second, where the original divides by zero, every frame is taken.

    >>> Clip4Clip(3).indices(100, 10.0)
    [0, 40, 90]
    """

    count: int = 12

    def indices(self, frame_count: int, fps: float) -> list[int]:
        seconds = list(range(0, frame_count, max(1, int(fps))))
        if len(seconds) <= self.count:
            return seconds
        return [seconds[k] for k in _linspace(len(seconds) - 1, self.count)]

    def capped(self, duration_s: float, max_frames: int) -> Clip4Clip:
        return replace(self, count=min(self.count, max_frames))

    def __str__(self) -> str:
        return f"clip4clip {self.count}"


@dataclass(frozen=True)
class IntervalFrames:
    """Sampling rules `x_pool [count]` and `frozen [count]`: the middle frame of each of `count` equal runs of frames.

    Edges are `int(linspace(0, n, count + 1))`; a run from edge a to before edge b gives frame
    `(a + b - 1) // 2` (X-Pool, video_capture.py, and Frozen in Time, its `uniform` sampling at test). They
    repeat the last frame of a clip with fewer frames than `count`; here it is given once.

    >>> IntervalFrames("x_pool", 4).indices(10, 25.0)
    [0, 3, 5, 8]
    """

    name: str
    count: int

    def indices(self, frame_count: int, fps: float) -> list[int]:
        edges = _linspace(frame_count, min(self.count, frame_count) + 1)
        return [(a + b - 1) // 2 for a, b in itertools.pairwise(edges)]

    def capped(self, duration_s: float, max_frames: int) -> IntervalFrames:
        return replace(self, count=min(self.count, max_frames))

    def __str__(self) -> str:
        return f"{self.name} {self.count}"


def _linspace(stop: int, count: int) -> list[int]:
    import numpy as np

    return [int(place) for place in np.linspace(0, stop, count)]


_COUNTED = re.compile(r"(\d+) midpoints?")
_PERIODIC = re.compile(r"every (\d+(?:\.\d*)?|\.\d+) ?s(?:econds?)?")
_PEER = re.compile(r"(clip4clip|x_pool|frozen)(?: (\d+))?")
_PEER_COUNTS = {"clip4clip": 12, "x_pool": 12, "frozen": 4}


def parse_rule(text: str) -> SamplingRule:
    """Parse the text of a sampling rule; `str(rule)` is such a text again.

    >>> parse_rule("every 0.5 s")
    EverySeconds(period_s=0.5)

    Raises:
        UsageError: the text is no rule, or its number is out of range.
    """
    words = " ".join(text.lower().split())
    if found := _COUNTED.fullmatch(words):
        return Midpoints(_checked_count(found[1], text))
    if found := _PERIODIC.fullmatch(words):
        if not SHORTEST_PERIOD_S <= (period_s := float(found[1])) <= 86_400:
            raise UsageError(f"{text!r} has a period out of range; give {SHORTEST_PERIOD_S} to 86400 s.")
        return EverySeconds(period_s)
    if found := _PEER.fullmatch(words):
        count = _checked_count(found[2] or str(_PEER_COUNTS[found[1]]), text)
        return Clip4Clip(count) if found[1] == "clip4clip" else IntervalFrames(found[1], count)
    raise UsageError(
        f"{text!r} is not a sampling rule; write for example '8 midpoints', 'every 1 s', 'clip4clip 12', "
        f"'x_pool 12' or 'frozen 4'."
    )


def _checked_count(digits: str, text: str) -> int:
    count = int(digits[:9])
    if not 1 <= count <= MOST_FRAMES:
        raise UsageError(f"{text!r} asks for {digits[:20]} frames; ask for 1 to {MOST_FRAMES}")
    return count


@dataclass(frozen=True)
class Part:
    """Stretch of a file that is one clip, in seconds; None stands for the file's beginning or end."""

    start_s: float | None = None
    end_s: float | None = None

    def length_s(self, file_s: float | None) -> float | None:
        """Return the length of the clip in seconds, given that of the file; None where it is unknown.

        >>> Part(5.0, 30.0).length_s(12.0), Part(end_s=9.0).length_s(None), Part().length_s(None)
        (7.0, 9.0, None)
        """
        ends = [end_s for end_s in (self.end_s, file_s) if end_s is not None]
        return max(0.0, min(ends) - (self.start_s or 0.0)) if ends else None

    def within(self, times_s: Sequence[float]) -> list[float]:
        """Select the times of the file, in seconds, that lie inside the part (edges excluded), counted from its start.

        >>> Part(2.0, 8.0).within([1.0, 2.0, 3.5, 8.0])
        [1.5]
        """
        start_s = self.start_s or 0.0
        return [at - start_s for at in times_s if start_s < at < (math.inf if self.end_s is None else self.end_s)]

    def rule(self, rule: SamplingRule) -> SamplingRule:
        """Return the rule that samples this part as `rule` samples a whole file; `rule` itself for the whole."""
        if self == WHOLE:
            return rule
        return TimesInPart(rule, self) if isinstance(rule, TimeRule) else NumbersInPart(rule, self)

    def __str__(self) -> str:
        start = f"{self.start_s or 0.0:g}"
        return f"{start} s on" if self.end_s is None else f"{start} to {self.end_s:g} s"


WHOLE = Part()


@dataclass(frozen=True)
class TimesInPart:
    """Sampling rule by time for a part of a file; a part that goes on after the file's end stops there.

    >>> list(TimesInPart(Midpoints(2), Part(4.0, 8.0)).times(0.0, 60.0))
    [5.0, 7.0]
    """

    needs_end: ClassVar[bool] = True
    inner: TimeRule
    part: Part

    def times(self, start_s: float, end_s: float) -> Iterator[float]:
        first_s = max(start_s, self.part.start_s or 0.0)
        last_s = end_s if self.part.end_s is None else min(end_s, self.part.end_s)
        if first_s >= last_s:
            raise MediaError(
                "no_frames", f"the clip is {self.part} of a video that ends at {end_s:.2f} s; is it another cut?"
            )
        return itertools.takewhile(lambda time_s: time_s < last_s, self.inner.times(first_s, last_s))

    def capped(self, duration_s: float, max_frames: int) -> TimesInPart:
        length_s = self.part.length_s(duration_s)
        return replace(self, inner=self.inner.capped(duration_s if length_s is None else length_s, max_frames))

    def __str__(self) -> str:
        return f"{self.inner} of {self.part}"


@dataclass(frozen=True)
class NumbersInPart:
    """Sampling rule by frame number for a part of a file; numbers follow from its seconds at the video's mean rate.

    CLIP4Clip does the same: it seeks to frame `int(start * fps)`.

    >>> NumbersInPart(Clip4Clip(3), Part(4.0, 7.0)).indices(100, 10.0)
    [40, 50, 60]
    """

    inner: IndexRule
    part: Part

    def indices(self, frame_count: int, fps: float) -> list[int]:
        first = int((self.part.start_s or 0.0) * fps)
        stop = frame_count if self.part.end_s is None else min(frame_count, math.ceil(self.part.end_s * fps))
        if first >= stop:
            raise MediaError(
                "no_frames", f"the clip is {self.part} of a video of {frame_count} frames; is it another cut?"
            )
        return [first + number for number in self.inner.indices(stop - first, fps)]

    def capped(self, duration_s: float, max_frames: int) -> NumbersInPart:
        return replace(self, inner=self.inner.capped(duration_s, max_frames))

    def __str__(self) -> str:
        return f"{self.inner} of {self.part}"


# languages ------------------------------------------------------------------------------------------------------------

# ISO 639-1 with the codes of three letters of ISO 639-2, one or two, that stand for the same language.
_CODES = """
aa:aar ab:abk ae:ave af:afr ak:aka am:amh an:arg ar:ara as:asm av:ava ay:aym az:aze ba:bak be:bel bg:bul bi:bis bm:bam
bn:ben bo:bod:tib br:bre bs:bos ca:cat ce:che ch:cha co:cos cr:cre cs:ces:cze cu:chu cv:chv cy:cym:wel da:dan de:deu:ger
dv:div dz:dzo ee:ewe el:ell:gre en:eng eo:epo es:spa et:est eu:eus:baq fa:fas:per ff:ful fi:fin fj:fij fo:fao fr:fra:fre
fy:fry ga:gle gd:gla gl:glg gn:grn gu:guj gv:glv ha:hau he:heb:iw hi:hin ho:hmo hr:hrv ht:hat hu:hun hy:hye:arm hz:her
ia:ina id:ind:in ie:ile ig:ibo ii:iii ik:ipk io:ido is:isl:ice it:ita iu:iku ja:jpn jv:jav ka:kat:geo kg:kon ki:kik
kj:kua kk:kaz kl:kal km:khm kn:kan ko:kor kr:kau ks:kas ku:kur kv:kom kw:cor ky:kir la:lat lb:ltz lg:lug li:lim ln:lin
lo:lao lt:lit lu:lub lv:lav mg:mlg mh:mah mi:mri:mao mk:mkd:mac ml:mal mn:mon mr:mar ms:msa:may mt:mlt my:mya:bur na:nau
nb:nob nd:nde ne:nep ng:ndo nl:nld:dut nn:nno no:nor nr:nbl nv:nav ny:nya oc:oci oj:oji om:orm or:ori os:oss pa:pan
pi:pli pl:pol ps:pus pt:por qu:que rm:roh rn:run ro:ron:rum:mo ru:rus rw:kin sa:san sc:srd sd:snd se:sme sg:sag si:sin
sk:slk:slo sl:slv sm:smo sn:sna so:som sq:sqi:alb sr:srp ss:ssw st:sot su:sun sv:swe sw:swa ta:tam te:tel tg:tgk th:tha
ti:tir tk:tuk tn:tsn to:ton tr:tur ts:tso tt:tat tw:twi ty:tah ug:uig uk:ukr ur:urd uz:uzb ve:ven vi:vie vo:vol wa:wln
wo:wol xh:xho yi:yid:ji yo:yor za:zha zh:zho:chi:cmn zu:zul
apc ary arz ast bal bho ceb chr ckb fil:tl:tgl fur gan gsw hak haw hil hmn ilo jam jbo kmr kok lmo mai mni nan nap new
pap pms rom sat scn syc szl tet tpi vec war wuu yue
"""
_LANGUAGES = {code: codes[0] for codes in (line.split(":") for line in _CODES.split()) for code in codes}
_SCRIPTS = """
arab armn beng cyrl deva ethi geor grek gujr guru hang hans hant hebr jpan khmr knda kore laoo latn mlym mong mymr orya
sinh taml telu thaa thai tibt
"""
_TAG = re.compile(r"([a-z]{2,3})(?:-([a-z]{4}))?(?:-([a-z]{2}|\d{3}))?(-valencia)?")


def language_tag(written: str | None) -> str | None:
    """Return a language as a BCP 47 tag: `eng` and `en` become `en`, `pt_br` becomes `pt-BR`, `chi` becomes `zh`."""
    found = _TAG.fullmatch((written or "").strip().replace("_", "-").lower())
    if found is None or found[1] not in _LANGUAGES or (found[2] and found[2] not in _SCRIPTS.split()):
        return None
    parts = (_LANGUAGES[found[1]], (found[2] or "").title(), (found[3] or "").upper())
    return "-".join(filter(None, parts)) + (found[4] or "")


def same_language(one: str | None, other: str | None) -> bool:
    """Return whether two BCP 47 tags are of one language, wherever it is spoken; False where one is not known."""
    return one is not None and other is not None and one.partition("-")[0] == other.partition("-")[0]
