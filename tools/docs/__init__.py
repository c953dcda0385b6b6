"""Scripts that write and check the pages of the documentation."""
