"""Features that others computed: their files read (`files`), made into a folder (`store`), read back (`clips`)."""
