"""How is a classifier that guides made? It learns to judge every prefix of a text (FUDGE).

- `base`: the model that becomes a classifier, and its head.
- `encoded_texts`: texts of the data as tokens.
- `labelled_texts`: texts and labels from a file, and their split.
- `loop`: `train`.
- `optimisation`: losses and steps.
- `prefixes`: prefixes of texts in batches.
- `report`: how well prefixes of held-out texts are classified.
- `settings`: settings of a training, checked.
"""

from __future__ import annotations

from marith.training.loop import train
from marith.training.report import Line, Report
from marith.training.settings import Settings

__all__ = ["Line", "Report", "Settings", "train"]
