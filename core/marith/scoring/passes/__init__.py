"""One model's forward passes, and what they keep.

- `cached_runner`: many texts in one pass, with keys and values kept.
- `chunked_prefill`: how much of a long prompt is read in one call.
- `cuda_graphs`: decode steps captured as CUDA graphs.
- `early_exit`: logits after an inner layer.
- `lanes`: which text a row of the cache holds, who shares its prefix, and what a pass reads.
- `layer_masks`: attention masks of full, sliding and chunked layers.
- `llama_cpp_runner`: texts as sequences of llama.cpp.
- `lora`: a LoRA for each row of a pass.
- `passes`: questions and answers of runners, and the forward pass.
- `plain_runner`: a model without a cache: whole texts.
- `probe`: compare cached passes with uncached ones at loading.
- `rectangle_cache`: keys and values as one rectangle (CUDA).
- `segment_attention`: attention over segments, joined by logsumexp (CPU).
- `segment_cache`: keys and values in segments, taken page by page (CPU).
- `segment_lanes`: lanes as chains of segments with shared prefixes (CPU).
- `state_runner`: recurrent and hybrid models: a state for each text.
- `states`: states of texts, alone and joined.
"""
