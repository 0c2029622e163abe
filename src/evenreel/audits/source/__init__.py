"""Does a ranking favour generated clips? Compared in pairs where clips have a mirror, else over the gallery."""
