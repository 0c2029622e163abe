"""How much of a planted bias each correction brings back; read `engine`, `drawn`, `domains`, `rendered`, `page`."""
