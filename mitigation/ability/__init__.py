"""Language ability besides bias: GLUE after fine-tuning, and zero-shot tasks of lm-evaluation-harness."""
