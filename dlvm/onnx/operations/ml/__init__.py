"""The operations of ``ai.onnx.ml``: what scikit-learn's estimators become when they are exported.

What an estimator has learned stands in attributes of its node, which are constants of the program.
"""

from __future__ import annotations

from . import encoders as encoders
from . import ensembles as ensembles
from . import features as features
from . import linear as linear
from . import machines as machines
from . import trees as trees
