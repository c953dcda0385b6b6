"""What all tests share: no example that hypothesis makes is held against the clock."""

from hypothesis import settings

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
