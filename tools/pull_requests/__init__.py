"""Pull requests to other projects as folders, made by one command."""
