"""What twelve shifts of videos cost at five strengths; read `world`, `cells`, `page`."""
