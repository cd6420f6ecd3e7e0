#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
Where this Python looks for packages below a prefix.

    install_dir.py PREFIX

Debian's Python looks in /usr/local/lib/python3.11/dist-packages, and in /usr/lib/python3/dist-packages for what the
system's packages bring. Below any other prefix it is the usual place, which for ~/.local is the user's own.
"""

import sys
import sysconfig
from pathlib import Path


def main():
    """Prints the folder."""
    prefix = sys.argv[1]
    usual = sysconfig.get_path("platlib")
    if prefix == "/usr" and "deb_system" in sysconfig.get_scheme_names():
        print(sysconfig.get_path("platlib", "deb_system"))
    elif prefix != "/usr" and Path(prefix) in Path(usual).parents:
        print(usual)
    else:
        print(sysconfig.get_path("platlib", "posix_prefix", {"base": prefix, "platbase": prefix}))


main()
