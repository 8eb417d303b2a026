# SPDX-License-Identifier: Apache-2.0
"""Every figure that a set of documents has the data for."""
from . import peers, ratios, resident, states, tensors, windows


def figures(documents):
    single = [states.figure, peers.figure, ratios.ratio_figure, ratios.time_figure]
    found = [figure for make in single if (figure := make(documents))]
    found += resident.figures(documents)
    found += [figure for make in (windows.figure, tensors.figure) if (figure := make(documents))]
    return found
