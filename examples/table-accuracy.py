#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""How well the job that `muster init table` writes does on real tables, against scikit-learn.

Repeated 10-fold cross-validation. In each fold both sides see the same rows and the same columns: Muster reads the
training rows as a CSV file with its gaps and words, writes a job by its recipe, trains it and answers the held-out
rows; scikit-learn gets the columns standardised, words one-hot, gaps as the mean and a column that says so. Its
linear model (logistic, linear and ridge regression) and its gradient boosting have their default settings.

    apt-get install python3-sklearn r-base-core r-cran-cardata          (Debian's Python has scikit-learn then)
    examples/table-accuracy.py [--muster build/muster] [--repeats 3] [--jobs 2] [iris wine ...]

Tables: scikit-learn's iris, wine, breast_cancer, digits, diabetes; R's TitanicSurvival (package carData), airquality
(rows with Ozone) and infert. It prints a Markdown table: accuracy in per cent or root mean squared error.
"""
import argparse
import csv
import io
import math
import os
import subprocess
import sys
import tempfile
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from sklearn import datasets
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.model_selection import KFold, StratifiedKFold

FOLDS = 10


# ---- tables: (header, rows of text, label, is it a class) ----

def from_sklearn(load, label, classes):
    d = load()
    names = [str(n).replace(" (cm)", "").replace(" ", "_").replace("/", "_") for n in d.feature_names]
    named = d.target_names if classes else None
    rows = [[repr(float(v)) for v in x] + [str(named[y]) if classes else repr(float(y))]
            for x, y in zip(d.data, d.target)]
    return names + [label], rows, label, classes


def from_r(expression, label, classes):
    text = subprocess.run(["Rscript", "-e", f"write.csv({expression}, row.names=FALSE)"],
                          check=True, capture_output=True, text=True).stdout
    rows = list(csv.reader(io.StringIO(text)))
    at = rows[0].index(label)
    return rows[0], [r for r in rows[1:] if r[at] != "NA"], label, classes


TABLES = {
    "iris": lambda: from_sklearn(datasets.load_iris, "species", True),
    "wine": lambda: from_sklearn(datasets.load_wine, "cultivar", True),
    "breast_cancer": lambda: from_sklearn(datasets.load_breast_cancer, "diagnosis", True),
    "digits": lambda: from_sklearn(datasets.load_digits, "digit", True),
    "diabetes": lambda: from_sklearn(datasets.load_diabetes, "progression", False),
    "titanic": lambda: from_r("carData::TitanicSurvival", "survived", True),
    "airquality": lambda: from_r("airquality", "Ozone", False),
    "infert": lambda: from_r("infert", "case", True),
}


# ---- scikit-learn ----

def is_number(v):
    try:
        return math.isfinite(float(v))
    except ValueError:
        return False


def features(header, label, train, test):
    """Standardised numbers, one-hot words, gaps as the mean and an indicator, learnt from the training rows."""
    out = [[], []]
    for c, name in enumerate(header):
        if name == label:
            continue
        values = [r[c] for r in train if r[c] != "NA"]
        gaps = len(values) < len(train)
        if all(is_number(v) for v in values):
            x = np.array([float(v) for v in values])
            mean, dev = x.mean(), x.std() or 1.0
            for side, rows in zip(out, (train, test)):
                side.append([0.0 if r[c] == "NA" else (float(r[c]) - mean) / dev for r in rows])
        else:
            for word in sorted(set(values)):
                for side, rows in zip(out, (train, test)):
                    side.append([float(r[c] == word) for r in rows])
        if gaps:
            for side, rows in zip(out, (train, test)):
                side.append([float(r[c] == "NA") for r in rows])
    return np.array(out[0]).T, np.array(out[1]).T


def sklearn_models(classes, seed):
    if classes:
        return {"linear": LogisticRegression(max_iter=5000),
                "boosting": GradientBoostingClassifier(random_state=seed)}
    return {"linear": LinearRegression(), "ridge": Ridge(), "boosting": GradientBoostingRegressor(random_state=seed)}


def sklearn_answers(table, train, test, seed):
    header, _, label, classes = table
    at = header.index(label)
    x, xt = features(header, label, train, test)
    y = [r[at] if classes else float(r[at]) for r in train]
    return {name: m.fit(x, y).predict(xt) for name, m in sklearn_models(classes, seed).items()}


# ---- Muster ----

def write_csv(path, rows):
    with open(path, "w", newline="") as f:
        csv.writer(f).writerows(rows)


def muster_answers(program, table, train, test, seed):
    header, _, label, classes = table
    with tempfile.TemporaryDirectory() as d:
        write_csv(f"{d}/train.csv", [header] + train)
        bare = [i for i, n in enumerate(header) if n != label]
        write_csv(f"{d}/new.csv", [[header[i] for i in bare]] + [[r[i] for i in bare] for r in test])

        def run(*words):
            r = subprocess.run([program, *words], cwd=d, capture_output=True, text=True)
            if r.returncode:
                sys.exit(f"muster {' '.join(words)} ended with {r.returncode}:\n{r.stderr}")
            return r.stdout
        run("init", "table", "train.csv", "job.yaml", "--label", label)
        run("train", "job.yaml", "--out", "run", "-q", "--set", f"seed={seed}")
        rows = list(csv.reader(io.StringIO(run("predict", "run", "new.csv", "--format", "csv"))))
    if classes:
        at = rows[0].index("predicted")
        return [r[at] for r in rows[1:]]
    return [float(r[1]) for r in rows if is_number(r[1])]


# ---- folds and scores ----

def score(classes, truth, answers):
    if len(truth) != len(answers):
        sys.exit(f"{len(answers)} answers for {len(truth)} rows")
    if classes:
        return 100.0 * np.mean([a == b for a, b in zip(truth, answers)])
    return float(np.mean([(float(a) - b) ** 2 for a, b in zip(truth, answers)]))


def one_fold(program, table, train, test, seed):
    header, rows, label, classes = table
    at = header.index(label)
    train, test = [rows[i] for i in train], [rows[i] for i in test]
    answers = {"muster": muster_answers(program, table, train, test, seed)}
    answers.update(sklearn_answers(table, train, test, seed))
    truth = [r[at] for r in test]
    return {k: score(classes, truth, v) * len(test) for k, v in answers.items()}, len(test)


def folds_of(table, repeats):
    header, rows, label, classes = table
    y = [r[header.index(label)] for r in rows]
    for seed in range(1, repeats + 1):
        kind = StratifiedKFold if classes else KFold
        for train, test in kind(FOLDS, shuffle=True, random_state=seed).split(rows, y):
            yield train, test, seed


def judge(name, a, pool):
    table = TABLES[name]()
    header, rows, label, classes = table
    parts = list(pool.map(lambda f: one_fold(a.muster, table, *f), folds_of(table, a.repeats)))
    n = sum(p[1] for p in parts)
    mean = {k: sum(p[0][k] for p in parts) / n for k in parts[0][0]}
    if not classes:
        mean = {k: math.sqrt(v) for k, v in mean.items()}
    linear = mean["linear"] if classes else min(mean["linear"], mean["ridge"])
    best = max(linear, mean["boosting"]) if classes else min(linear, mean["boosting"])
    off = mean["muster"] - best if classes else 100 * (mean["muster"] / best - 1)
    good = off >= -1 if classes else off <= 3
    print(f"| {name} | {len(rows)} x {len(header) - 1} | {'accuracy %' if classes else 'RMSE'} | {mean['muster']:.2f} "
          f"| {linear:.2f} | {mean['boosting']:.2f} | {off:+.2f} {'points' if classes else '%'} "
          f"| {'yes' if good else 'NO'} |", flush=True)
    return good


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--muster", default=os.path.join(os.path.dirname(__file__), "..", "build", "muster"))
    p.add_argument("--repeats", type=int, default=3, help="of the 10 folds; repeat i shuffles and trains by seed i")
    p.add_argument("--jobs", type=int, default=2, help="folds at a time")
    p.add_argument("tables", nargs="*", default=list(TABLES), help=" ".join(TABLES))
    a = p.parse_args()
    a.muster = os.path.abspath(a.muster)
    warnings.simplefilter("ignore")
    print(f"{a.repeats} x {FOLDS} folds, seeds 1 to {a.repeats}\n")
    print("| table | rows x columns | measure | muster | linear | boosting | to the better | within the bar |")
    print("|---|---|---|---|---|---|---|---|", flush=True)
    with ThreadPoolExecutor(a.jobs) as pool:
        good = [judge(name, a, pool) for name in a.tables]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
