"""Train a classifier that guides (FUDGE), or a control vector.

- `base`: loads the model that becomes a classifier, and gives it a head.
- `directions`: the direction of each layer, how well it separates, and which layers are chosen.
- `encoded_texts`: texts of the data as tokens.
- `hidden_states`: hidden states after each decoder layer.
- `labelled_texts`: reads texts and labels from a file, and splits them.
- `loop`: `train`.
- `optimisation`: losses and steps.
- `prefixes`: prefixes of texts in batches.
- `report`: measures the accuracy on prefixes of held-out texts.
- `settings`: the checked settings of a training.
- `trained_vector`: a control vector, its report and its file.
- `vector_loop`: `train_vector`.
- `vector_settings`: the checked settings of a control vector's training.
"""

from __future__ import annotations

from marith.training.directions import LayerLine
from marith.training.loop import train
from marith.training.report import Line, Report
from marith.training.settings import Settings
from marith.training.trained_vector import TrainedVector, VectorReport
from marith.training.vector_loop import train_vector
from marith.training.vector_settings import VectorSettings

__all__ = [
    "LayerLine",
    "Line",
    "Report",
    "Settings",
    "TrainedVector",
    "VectorReport",
    "VectorSettings",
    "train",
    "train_vector",
]
