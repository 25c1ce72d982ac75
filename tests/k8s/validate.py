"""Validates manifests (a JSON list on standard input) strictly against the last three minor
versions of Kubernetes that the installed schemas know. A kind without a schema is an error unless
it is named as an argument. Prints the versions, then how many objects were validated by each."""

import json
import sys

import kubernetes_validate
from kubernetes_validate.utils import all_versions, major_minor

objects = json.load(sys.stdin)
foreign = set(sys.argv[1:])
minors = sorted({major_minor(v) for v in all_versions()}, key=lambda v: [int(n) for n in v.split(".")])
faults = []
for version in minors[-3:]:
    validated = 0
    for item in objects:
        name = f'{item["kind"]} {item["metadata"]["name"]}'
        if item["kind"] in foreign:
            continue
        try:
            kubernetes_validate.validate(item, version, strict=True)
            validated += 1
        except Exception as error:
            where = ".".join(str(part) for part in getattr(error, "path", []))
            faults.append(f"{version}: {name}: {where}: {getattr(error, 'message', error)}")
    print(version, validated)
for fault in faults:
    print(fault, file=sys.stderr)
sys.exit(1 if faults else 0)
