"""Words that captions are made of at random: of every part of speech, and of several at once."""

WORDS = (
    *("a", "the", "his", "s", "and", "to", "on", "into", "up"),
    *("man", "dogs", "board", "plates", "water", "can"),
    *("open", "cut", "cutting", "is", "running", "take", "red"),
)
