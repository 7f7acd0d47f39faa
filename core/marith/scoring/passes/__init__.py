"""One model's forward passes, and what they keep: runner, cache, masks, adapters."""
