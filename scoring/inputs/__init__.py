"""What a run reads: tables of data sets, prompts, files of scores, counts of a corpus."""
