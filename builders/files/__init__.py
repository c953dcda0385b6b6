"""The files of a data-set folder: Parquet, the manifest, and the replacement of a folder in one step."""
