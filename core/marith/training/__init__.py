"""Train a classifier that guides: it learns to judge every prefix of a text (FUDGE).

- `base`: loads the model that becomes a classifier, and gives it a head.
- `encoded_texts`: texts of the data as tokens.
- `labelled_texts`: reads texts and labels from a file, and splits them.
- `loop`: `train`.
- `optimisation`: losses and steps.
- `prefixes`: prefixes of texts in batches.
- `report`: measures the accuracy on prefixes of held-out texts.
- `settings`: the checked settings of a training.
"""

from __future__ import annotations

from marith.training.loop import train
from marith.training.report import Line, Report
from marith.training.settings import Settings

__all__ = ["Line", "Report", "Settings", "train"]
