"""A library for assistants (Model Context Protocol); read `asking`, `records`, `brief`, `tools`, then `serving`."""
