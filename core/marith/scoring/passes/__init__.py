"""One model's forward passes, and the caches that they read and write.

- `cached_runner`: runs many texts in one pass, and caches keys and values.
- `chunked_prefill`: chooses how much of a long prompt one call reads.
- `cuda_graphs`: captures decode steps as CUDA graphs.
- `early_exit`: computes logits after an inner layer.
- `lanes`: the text of each row of the cache, shared prefixes, and the inputs of a pass.
- `layer_masks`: attention masks of full, sliding and chunked layers.
- `llama_cpp_runner`: runs texts as sequences of llama.cpp.
- `lora`: a LoRA for each row of a pass.
- `passes`: questions and answers of runners, and the forward pass.
- `plain_runner`: runs a model without a cache: whole texts.
- `probe`: compares cached passes with uncached ones when a model is loaded.
- `rectangle_cache`: keys and values as one rectangle (CUDA).
- `segment_attention`: attention over segments, joined by logsumexp (CPU).
- `segment_cache`: keys and values in segments, taken page by page (CPU).
- `segment_lanes`: lanes as chains of segments with shared prefixes (CPU).
- `state_runner`: runs recurrent and hybrid models: a state for each text.
- `states`: states of texts, alone and joined.
"""
