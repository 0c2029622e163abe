"""Does a ranking favour clips for the wrong reason? Audits of anyone's scores, on numpy alone."""
