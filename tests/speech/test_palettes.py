"""Colours of subtitles in pictures, held against those of FFmpeg's decoders, which its DVB encoder writes down."""

from __future__ import annotations

import struct
from collections.abc import Callable

import av
import numpy as np
import pytest
from av.codec import CodecContext
from av.subtitles.subtitle import BitmapSubtitle, SubtitleSet
from hypothesis import given
from hypothesis import strategies as st

from evenreel.media.allowlist import PICTURE_SUBTITLES
from evenreel.speech.palettes import Colours, palette_of
from tests.speech.picture_files import FOUR_COLOURS, HAS_ENCODERS, MS, NORMAL, Drawing, display_set, drawn, shown

encoders = pytest.mark.skipif(not HAS_ENCODERS, reason="PyAV's encoders have no room for a picture before version 18")
Decode = Callable[[bytes], SubtitleSet]

PAGE = "palette: " + ", ".join(f"{(37 * n) % 256:02x}{(91 * n) % 256:02x}{(201 * n) % 256:02x}" for n in range(16))


def decoder(codec: str, header: bytes = b"", **options: str) -> Decode:
    context = CodecContext.create(codec, "r")
    context.options = options
    if header:
        context.extradata = header

    def decode(packet: bytes) -> SubtitleSet:
        found = context.decode2(av.Packet(packet))
        assert found is not None
        return found

    return decode


def encoded(decoded: SubtitleSet, codec: str, **options: str) -> bytes:
    context = CodecContext.create(codec, "w")
    context.time_base, context.options = MS, options
    decoded.start_display_time, decoded.end_display_time = 0, 1000
    return bytes(context.encode_subtitle(decoded))


def by_ffmpeg(decoded: SubtitleSet) -> Colours:
    """The palette of a decoded picture: FFmpeg's encoder writes it as the only CLUT segment of DVB."""
    written, colours, place = encoded(decoded, "dvb_subtitle"), np.zeros((256, 2), np.uint8), 0
    while place < len(written):
        _, kind, _, length = struct.unpack_from(">BBHH", written, place)
        if kind == 0x12:
            entries = np.frombuffer(written[place + 8 : place + 6 + length], np.uint8).reshape(-1, 6)
            colours[entries[:, 0], 0] = np.clip((entries[:, 2].astype(float) - 16) * 255 / 219, 0, 255)
            colours[entries[:, 0], 1] = 255 - entries[:, 5]
        place += 6 + length
    return colours


def check(ours: Colours | None, decoded: SubtitleSet, tolerance: int = 3) -> None:
    """The colours of all pixels that can be seen agree, and so does how much they can be seen."""
    assert ours is not None
    (rect,) = decoded
    assert isinstance(rect, BitmapSubtitle)
    used = np.unique(np.frombuffer(rect.planes[0], np.uint8))  # type: ignore[call-overload]
    expected = by_ffmpeg(decoded)
    assert expected[used, 1].any()
    np.testing.assert_allclose(ours[used, 1], expected[used, 1], atol=1)
    seen = used[expected[used, 1] > 0]
    np.testing.assert_allclose(ours[seen, 0].astype(int), expected[seen, 0], atol=tolerance)


@encoders
def test_colours_of_pgs_are_those_of_ffmpeg_also_where_they_change_alone() -> None:
    decode, palette = decoder("hdmv_pgs_subtitle"), palette_of("pgssub", b"")
    drawing = drawn("Here")
    fading = display_set([(9, 9, drawing.faded(0.5))], state=NORMAL)
    for packet in (display_set([(9, 9, drawing)]), fading, shown("There", px=40)):
        palette.take(packet)
        decoded = decode(packet)
        check(palette.of(decoded[0]), decoded)
    palette.take(display_set([], palette=3))  # which is not there
    assert palette.of(decoded[0]) is None


def test_a_new_epoch_of_pgs_has_no_colours_of_before() -> None:
    palette, drawing = palette_of("pgssub", b""), drawn("Here")
    fewer = Drawing(drawing.indices, {n: colour for n, colour in drawing.colours.items() if n % 2})
    decoded = decoder("hdmv_pgs_subtitle")(display_set([(9, 9, drawing)]))
    for one in (drawing, fewer):
        palette.take(display_set([(9, 9, one)]))
        colours = palette.of(decoded[0])
        assert colours is not None
        assert {n: seen for n, seen in enumerate(colours[:, 1].tolist()) if seen} == {
            n: seen for n, (_, seen) in one.colours.items() if seen
        }


@encoders
@pytest.mark.parametrize("header", [PAGE, ""], ids=["named", "guessed"])
def test_colours_of_vobsub_are_those_of_ffmpeg(header: str) -> None:
    options = {"palette": PAGE.removeprefix("palette: ")} if header else FOUR_COLOURS
    packet = encoded(decoder("hdmv_pgs_subtitle")(shown("Colours")), "dvd_subtitle", **options)
    decoded, palette = decoder("dvd_subtitle", header.encode())(packet), palette_of("dvdsub", header.encode())
    palette.take(packet)
    check(palette.of(decoded[0]), decoded)


@encoders
@pytest.mark.parametrize("colours", [4, 16, 256])
def test_colours_of_dvb_are_those_of_ffmpeg(colours: int) -> None:
    decoded = decoder("hdmv_pgs_subtitle")(shown("Colours"))
    bits = {"min_bpp": str({4: 2, 16: 4, 256: 8}[colours])}
    if colours < 256:
        decoded = decoder("dvd_subtitle", PAGE.encode())(encoded(decoded, "dvd_subtitle", **FOUR_COLOURS))
    packet = encoded(decoded, "dvb_subtitle", **bits)
    again, palette = decoder("dvb_subtitle")(packet), palette_of("dvbsub", b"")
    palette.take(packet)
    assert again[0].nb_colors == colours
    check(palette.of(again[0]), again)
    others = palette_of("dvbsub", struct.pack(">HH", 7, 8))  # pages of another service
    others.take(packet)
    assert others.of(again[0]) is None


@encoders
@pytest.mark.parametrize("colours", [4, 16])
def test_dvb_without_a_palette_has_the_colours_that_the_standard_names(colours: int) -> None:
    vobsub = encoded(decoder("hdmv_pgs_subtitle")(shown("Colours")), "dvd_subtitle", **FOUR_COLOURS)
    bits = {"min_bpp": str({4: 2, 16: 4}[colours])}
    packet = encoded(decoder("dvd_subtitle", PAGE.encode())(vobsub), "dvb_subtitle", **bits)
    start = packet.index(b"\x0f\x12")
    packet = packet[:start] + packet[start + 6 + int.from_bytes(packet[start + 4 : start + 6], "big") :]
    decoded, palette = decoder("dvb_subtitle", compute_clut="0")(packet), palette_of("dvbsub", b"")
    palette.take(packet)
    check(palette.of(decoded[0]), decoded)


@given(st.sampled_from(PICTURE_SUBTITLES), st.binary(max_size=60), st.lists(st.binary(max_size=80), max_size=4))
def test_whatever_a_packet_holds_it_is_taken(codec: str, header: bytes, packets: list[bytes]) -> None:
    palette = palette_of(codec, header)
    for packet in packets:
        for start in (
            b"",
            b"\x16",
            b"\x14\x00\x10",
            b"\x0f\x12\x00\x01\x00\x20",
            b"\x0f\x10\x00\x01\x00\x09",
            b"\x00\x09",
        ):
            palette.take(start + packet)
