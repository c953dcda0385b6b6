"""Scripts that compare with other software: bias-bench, inspect_ai, vLLM and llama.cpp."""
