"""Questions of more than one thing: one moment after another, one thing without another, examples right and wrong."""
