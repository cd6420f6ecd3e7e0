#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
Prints what an archive of the sources has in it, and what the programs built from it need, as an SPDX 2.3 document.

    sbom.py ARCHIVE VERSION SECONDS

SECONDS is the time of the release, since 1970. The same archive gives the same text.
"""

import hashlib
import json
import sys
import tarfile
import time

LICENSE = "MIT"
# What is used at run time, and not part of Cenote.
NEEDED = {
    "glibc": ("LGPL-2.1-or-later", "RUNTIME_DEPENDENCY_OF", "the C library: all that libcenote needs"),
    "cpython": ("PSF-2.0", "OPTIONAL_DEPENDENCY_OF", "for the Python package"),
    "clang": ("Apache-2.0 WITH LLVM-exception", "OPTIONAL_DEPENDENCY_OF", "for `cenote cc`"),
    "nvidia-driver": ("NOASSERTION", "OPTIONAL_DEPENDENCY_OF", "on a GPU, opened at run time"),
}


def describe_file(name, content):
    """A file of the archive, by its sums."""
    sums = [{"algorithm": kind.upper(), "checksumValue": hashlib.new(kind, content).hexdigest()}
            for kind in ("sha1", "sha256")]
    return {"SPDXID": "SPDXRef-File-" + hashlib.sha256(name.encode()).hexdigest()[:24], "fileName": "./" + name,
            "checksums": sums, "licenseConcluded": LICENSE, "copyrightText": "NOASSERTION"}


def read_files(path):
    """The files of the archive, without its own folder."""
    with tarfile.open(path) as archive:
        return [describe_file(member.name.split("/", 1)[1], archive.extractfile(member).read())
                for member in archive if member.isfile()]


def package(name, version, license_name, **more):
    """A package, as the document has it."""
    return {"SPDXID": f"SPDXRef-Package-{name}", "name": name, "versionInfo": version, "licenseConcluded": license_name,
            "licenseDeclared": license_name, "downloadLocation": "NOASSERTION", "copyrightText": "NOASSERTION", **more}


def main(path, version, seconds):
    """The document."""
    with open(path, "rb") as archive:
        archive_sum = hashlib.sha256(archive.read()).hexdigest()
    files = read_files(path)
    code = hashlib.sha1("".join(sorted(f["checksums"][0]["checksumValue"] for f in files)).encode()).hexdigest()
    ours = package("cenote", version, LICENSE, filesAnalyzed=True, hasFiles=[f["SPDXID"] for f in files],
                   packageVerificationCode={"packageVerificationCodeValue": code},
                   checksums=[{"algorithm": "SHA256", "checksumValue": archive_sum}], supplier="NOASSERTION")
    ours["copyrightText"] = "Copyright (c) 2026 The Cenote authors"
    others = [package(name, "NOASSERTION", license_name, filesAnalyzed=False, comment=comment)
              for name, (license_name, _, comment) in NEEDED.items()]
    relations = [{"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES",
                  "relatedSpdxElement": ours["SPDXID"]}]
    relations += [{"spdxElementId": f"SPDXRef-Package-{name}", "relationshipType": kind,
                   "relatedSpdxElement": ours["SPDXID"]} for name, (_, kind, _) in NEEDED.items()]
    created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(int(seconds)))
    document = {"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT",
                "name": f"cenote-{version}",
                "documentNamespace": f"https://spdx.org/spdxdocs/cenote-{version}-{archive_sum}",
                "creationInfo": {"created": created, "creators": ["Tool: cenote-sbom"]}, "packages": [ours, *others],
                "files": files, "relationships": relations}
    json.dump(document, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
