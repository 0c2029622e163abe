"""Other versions of a corpus: clips or captions changed in one known way, so that an audit can tell."""
