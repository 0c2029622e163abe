"""Questions of more than one thing: one moment after another, a picture with words, examples marked right and wrong.

`steps` reads 'A, then B', `order` finds a moment of A before one of B in a clip, `half` has what each query says of
clips and their moments, `sequence` ranks clips by both; `examples` moves a query by examples, and puts words to a
picture.
"""
