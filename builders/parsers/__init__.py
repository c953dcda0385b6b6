"""Parsers of upstream file formats that several datasets share."""
