"""What is a formula made of, and how is it written?"""

import marith.formula.tree.printing  # noqa: F401 (without which no node can be printed)
