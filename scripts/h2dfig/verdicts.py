# SPDX-License-Identifier: Apache-2.0
"""What may be said of a ratio: the same rule as that of `h2d bench run`, for every sentence and figure."""

LEAST = 6  # of fewer samples no interval holds the median with 95 %; H2D_INTERVAL_LEAST_COUNT
FEW = "too few pairs to tell"


def sure(row):
    """Whether there is an interval to speak of or to draw."""
    return row.get("ci_low") is not None and row["n_count"] >= LEAST


def interval(low, high, count):
    """It, or nothing where the samples are too few for one."""
    return (None, None) if (count or 0) < LEAST else (low, high)


def verdict(row, higher, lower, neither):
    """One of the three, where the pairs are enough for any."""
    if not sure(row):
        return FEW
    return higher if row["ci_low"] > 1 else lower if row["ci_high"] < 1 else neither


def spread(row):
    """In brackets behind a ratio: never an interval that so few pairs cannot have."""
    words = f"single pairs {row['min']:.2f} to {row['max']:.2f}, n={row['n_count']}"
    return f"95 % interval {row['ci_low']:.2f} to {row['ci_high']:.2f}, {words}" if sure(row) else words


def contradiction(ratio, ours, base):
    """Said where the medians of the columns, which are not paired, point the other way than the pairs."""
    if not ours or not base or (base - ours) * (ratio - 1) >= 0:
        return ""
    return "; the medians of all samples say the opposite, which happens where samples vary this much"
