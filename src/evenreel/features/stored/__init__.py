"""Features that others computed: read from files (`files`), made into a folder (`store`), loaded (`clips`)."""
