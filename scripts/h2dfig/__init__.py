# SPDX-License-Identifier: Apache-2.0
"""Figures and reports from the documents under results/."""
