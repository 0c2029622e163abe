"""Pages of the site link words of the glossary where they mean what it says, and nowhere else."""

from __future__ import annotations

from scripts.site_hooks import PICTURE, glossary_words, linked


def test_the_first_mention_of_a_word_leads_to_the_glossary() -> None:
    text = linked("Each clip has a frame; a clip is a file.", "glossary.md")
    assert text == "Each [clip](glossary.md#clip) has a [frame](glossary.md#frame); a clip is a file."


def test_code_pictures_links_and_headings_keep_their_words() -> None:
    text = "## A clip\n\n![A clip](clip.png)\n\n[![A clip](clip.png)](clip.png)\n\n`clip` and [a clip](library.md)\n"
    assert linked(text, "glossary.md") == text


def test_a_word_with_an_everyday_sense_is_linked_by_hand_alone() -> None:
    assert not {"pass", "step", "mark", "cut", "handle", "slack"} & set(glossary_words())
    assert "group of pictures" in glossary_words()
    text = "The first steps of training pass in a second."
    assert linked(text, "glossary.md") == text


def test_a_picture_leads_to_its_full_size() -> None:
    made = PICTURE.sub(r"[\g<0>](\g<1>)", "A line.\n\n![The page](pictures/page.png)\n")
    assert made == "A line.\n\n[![The page](pictures/page.png)](pictures/page.png)\n"
