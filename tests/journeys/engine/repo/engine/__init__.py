"""A small inference engine, as far as it tells others how busy it is."""
