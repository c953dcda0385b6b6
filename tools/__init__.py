"""Scripts for maintainers that are not part of the installed package."""
