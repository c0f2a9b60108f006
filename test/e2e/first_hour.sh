#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# docs/first-hour.md: every command of the page runs, and prints the lines that the page shows below it, in order.
# Numbers may differ, and `...` stands for anything. Lines that the page leaves out may come between.
set -euo pipefail
: "${MUSTER:=build/muster}"
command -v python3 > /dev/null || { echo "first_hour: python3 is missing"; exit 77; }
MUSTER=$(realpath "$MUSTER") ROOT=$PWD exec python3 - <<'PY'
import os, re, subprocess, sys, tempfile

root, muster = os.environ["ROOT"], os.environ["MUSTER"]
steps = []                              # (command, lines shown)
for line in open(f"{root}/docs/first-hour.md"):
    if line.startswith("    $ "): steps.append((line[6:].strip(), []))
    elif line.startswith("    ") and steps: steps[-1][1].append(line.strip())

NUMBER = r"-?\d+(\.\d+)?(e[-+]?\d+)?"
def pattern(shown):
    words = []
    for word in shown.split():
        parts = re.split(f"({re.escape('...')}|{NUMBER})", word)
        out, k = "", 0
        while k < len(parts):           # split gives text, match, two inner groups
            out += re.escape(parts[k])
            if k + 1 < len(parts): out += ".*" if parts[k + 1] == "..." else NUMBER
            k += 4
        words.append(out)
    return re.compile(r"\s*" + r"\s+".join(words) + r"\s*$")

wrong = 0
with tempfile.TemporaryDirectory() as folder:
    env = dict(os.environ, PATH=f"{folder}/bin:{os.environ['PATH']}", NO_COLOR="1")
    os.makedirs(f"{folder}/bin"); os.symlink(muster, f"{folder}/bin/muster")
    os.makedirs(f"{folder}/work"); os.symlink(f"{root}/examples", f"{folder}/work/examples")
    for command, shown in steps:
        done = subprocess.run(["bash", "-c", command], cwd=f"{folder}/work", env=env, text=True, timeout=300,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        lines, at = done.stdout.splitlines(), 0
        for want in shown:
            match = pattern(want)
            while at < len(lines) and not match.match(lines[at]): at += 1
            if at == len(lines):
                print(f"FAILED: `{command}` does not print\n    {want}\nbut\n{done.stdout[-1500:]}")
                wrong += 1
                break
            at += 1
        if done.returncode:
            print(f"FAILED: `{command}` ends with {done.returncode}:\n{done.stdout[-1500:]}")
            wrong += 1
print(f"first_hour: {len(steps)} commands, {wrong} wrong")
sys.exit(wrong > 0)
PY
