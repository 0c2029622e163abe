"""Questions of more than one thing: one moment after another, a picture with words, examples marked right and wrong.

`steps` reads 'A, then B' and 'A without B', `sequence` ranks clips by two moments in order, `examples` moves a query by
examples, and puts words to a picture.
"""
