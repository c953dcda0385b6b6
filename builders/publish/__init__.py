"""What of a built dataset may be published, and the licences that go with it."""
