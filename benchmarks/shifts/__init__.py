"""What twelve shifts of videos cost at five strengths; read `measure`, then `__main__`."""
