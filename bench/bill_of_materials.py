"""Write an SPDX 2.3 bill of materials: tidegate and the packages it needs, as installed in this environment.

    python bench/bill_of_materials.py FILE

Standard library only: `make release` runs it in the environment that has nothing but the wheel.
"""

import json
import re
import sys
from datetime import UTC, datetime
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

ROOT = "tidegate"
NOT_STATED = "NOASSERTION"


def normalize_name(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def list_required(package: Distribution) -> list[str]:
    """The packages that a package needs without extras."""
    lines = [line for line in package.requires or [] if "extra ==" not in line]
    return [normalize_name(re.split(r"[^\w.-]", line, maxsplit=1)[0]) for line in lines]


def collect_packages(root: str) -> dict[str, Distribution]:
    packages: dict[str, Distribution] = {}
    waiting = [root]
    while waiting:
        name = waiting.pop()
        if name in packages:
            continue
        try:
            packages[name] = distribution(name)
        except PackageNotFoundError:  # needed on other systems only
            continue
        waiting += list_required(packages[name])
    return dict(sorted(packages.items()))


def read_license(package: Distribution) -> str:
    """The license expression. Older packages state a short name in the field before it; longer texts are not names."""
    license_name = package.metadata.get("License-Expression") or package.metadata.get("License") or ""
    return (
        license_name
        if re.fullmatch(r"[A-Za-z0-9.+-]{2,40}(?: (?:AND|OR|WITH) [A-Za-z0-9.+-]+)*", license_name)
        else NOT_STATED
    )


def describe_package(name: str, package: Distribution) -> dict[str, object]:
    locator = f"pkg:pypi/{name}@{package.version}"
    return {
        "SPDXID": f"SPDXRef-{name}",
        "name": name,
        "versionInfo": package.version,
        "downloadLocation": f"https://pypi.org/project/{name}/{package.version}/",
        "filesAnalyzed": False,
        "licenseConcluded": NOT_STATED,
        "licenseDeclared": read_license(package),
        "copyrightText": NOT_STATED,
        "externalRefs": [
            {"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": locator}
        ],
    }


def make_bill(created: datetime) -> dict[str, object]:
    packages = collect_packages(ROOT)
    version = packages[ROOT].version
    relations = [("SPDXRef-DOCUMENT", "DESCRIBES", f"SPDXRef-{ROOT}")]
    for name, package in packages.items():
        requirements = [each for each in list_required(package) if each in packages]
        relations += [(f"SPDXRef-{name}", "DEPENDS_ON", f"SPDXRef-{each}") for each in requirements]
    return {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"{ROOT}-{version}",
        "documentNamespace": f"https://pypi.org/project/{ROOT}/{version}/spdx",
        "creationInfo": {"created": created.strftime("%Y-%m-%dT%H:%M:%SZ"), "creators": [f"Tool: {ROOT}-{version}"]},
        "packages": [describe_package(name, package) for name, package in packages.items()],
        "relationships": [
            {"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other}
            for one, kind, other in relations
        ],
    }


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(json.dumps(make_bill(datetime.now(UTC)), indent=2) + "\n", "utf-8")
