#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Lay all sources out with the clang-format that decides (`make format`)."""

import subprocess
import sys
from pathlib import Path

import checks

tool, reason = checks.find_clang_tool("clang-format")
if not tool:
    sys.exit(reason)
subprocess.run([tool, "-i", *checks.c_files(Path(__file__).resolve().parent.parent)], check=True)
