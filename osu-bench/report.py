#!/usr/bin/env python3
"""Makes pages of results/data/*.json: results/README.md, results.csv, the figures, docs/papers.md and the table in README.md.

Everything is computed again from the rounds, so a page never says more than the data. `scripts/bench report` calls this.
"""
import argparse
import csv
import io
import itertools
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import tomllib

import papers
from outcome import Result, geometric_mean, shown, states, verdict
from tables import at, hardware, line, named, size, spread, summary, table, versions

HERE = pathlib.Path(__file__).resolve().parent
COMMAND = "osu-bench/compare"
COLORS = {"nearmpi": 0, "mpich5": 1, "mpich4": 2, "impi": 3, "ompi5": 4, "hardware": 7}  # what has settings takes the rest


def load(folder):
    """Every result, in the order of the suite."""
    suite = [job["name"] for job in tomllib.loads((HERE / "suite.toml").read_text())["job"]]
    found = {}
    for path in sorted(folder.glob("*.json")):
        record = json.loads(path.read_text())
        job, rounds = record.pop("job"), record.pop("rounds")
        found[job["name"]] = Result(job, rounds, **record)
    return {name: found[name] for name in sorted(found, key=lambda name: (suite.index(name) if name in suite else len(suite), name))}


def headline(results, entry):
    """One line of the first page: values at a single size, the ratio over a range with its spread. None without data."""
    result, column = results.get(entry["job"]), entry.get("column", 0)
    if result is None:
        return None
    low, high = entry.get("from", 0), entry.get("to", float("inf"))
    keys = [key for key in result.keys() if not key.isdigit() or low <= int(key) <= high]
    rounds = []
    for index in range(len(result.rounds)):
        alone = Result(result.job, [result.rounds[index]])
        costs = [cost for key in keys for cost in alone.costs(key, column)]
        if costs:
            rounds.append(geometric_mean(costs))
    if not rounds:
        return None
    medians = {key: statistics.median(result.costs(key, column)) for key in keys if result.costs(key, column)}
    single = len(medians) == 1 and next(iter(medians))
    best = result.best(single, column) if single else None
    unit = result.job["values"][column]
    return {
        "what": entry["what"], "job": entry["job"], "ratio": statistics.median(rounds), "rounds": rounds, "goal": entry.get("goal"),
        "ours": f"{shown(result.median(result.ours(), single, column))} {unit}" if single else "",
        "theirs": f"{shown(result.median(best, single, column))} {unit} ({named(best)})" if single else "",
        "worst": "" if single else f"{shown(max(medians.values()))} at {size(max(medians, key=medians.get))}",
    }


def ways(results):
    """How near the CPUs were to each other in all these rounds, the nearest first."""
    return states(bounce for result in results.values() for bounce in result.bounces)


def usual(results):
    """Each result without the rounds in which the CPUs were otherwise placed than in most of its rounds."""
    every = ways(results)
    return {name: max((part for _, part in result.split(every)), key=lambda part: len(part.rounds), default=result) for name, result in results.items()}


def headlines(results, suite):
    """Tables, one for each way in which the CPUs lay; the jobs they are made of."""
    entries = suite["headline"]
    used = {entry["job"]: results[entry["job"]] for entry in entries if entry["job"] in results}
    lines = []
    for state in ways(used):
        rows = [row for entry in entries if (row := headline({name: part for name in used if (part := used[name].within(state)).rounds}, entry))]
        words = [verdict(row["rounds"]) for row in rows]
        lines += [f"A cache line from one CPU to the other: **{line(state)}**. Of these {len(rows)}, {words.count('better')} are better in every round, "
                  f"{words.count('level')} level, {words.count('worse')} worse.", "",
                  "| what | nearmpi | best of the others | ratio | of the rounds | worst size |", "|---|--:|--:|--:|--:|--:|"]
        for row, word in zip(rows, words):
            ratio = f"**{shown(row['ratio'])}** {word}" if word != "better" else shown(row["ratio"])
            lines.append(f"| {row['what']} | {row['ours']} | {row['theirs']} | {ratio} | {spread(row['rounds'])}, {len(row['rounds'])} | {row['worst']} |")
        lines.append("")
    return lines, used


def about(results):
    """Machine, versions, dates: one paragraph, from what was really run."""
    machines = sorted({hardware(result) for result in results.values()})
    named_versions = {}
    for result in results.values():
        for name, text in versions(result).items():
            named_versions.setdefault(named(name), set()).add(text)
    commits = sorted({result.rest["commit"] for result in results.values()})
    dates = sorted(result.rest["date"] for result in results.values())
    lines = [f"Measured on: {'; '.join(machines)}, from {dates[0]} to {dates[-1]}, commit {', '.join(commits)}.", ""]
    lines += [f"- {name}: {', '.join(sorted(texts))}" for name, texts in named_versions.items()]
    return lines


def page(results, suite, figures):
    """results/README.md."""
    lines = ["# Results", "", f"Made by `{COMMAND}` (`--quick` for a part); `scripts/bench report` writes this page again from `data/`.", ""]
    lines += about(results)
    lines += ["", "Every MPI runs in turn in each round. A ratio is our cost in parts of the best other MPI's in the same round: below 1",
              "is better for us, for bandwidths too. Shown are medians over the rounds; the spread is the least and the most of the",
              "rounds. *better* and **worse**: every round says so; *level*: the rounds differ. The best of the others is in italics.",
              "`nearmpi WAY=1` ran with the setting NEARMPI_WAY=1. *Line*: what a cache line takes from one CPU to the other, measured before and",
              "after every run. The host of a virtual machine moves its CPUs about, now near each other and now far: a run during which that",
              "changed is done again, a round is of one state, and rounds of different states are never mixed.",
              "", "## In short", ""]
    every = ways(results)
    lines += headlines(results, suite)[0]
    lines += ["## Every benchmark", "", "| benchmark | ranks | line | rounds | sizes better | level | worse | mean ratio | worst ratio |",
              "|---|--:|--:|--:|--:|--:|--:|--:|--:|"]
    for name, result in results.items():
        if not result.peers():
            continue
        for state, part in result.split(every):
            for column, unit in enumerate(result.job["values"]):
                s = summary(part, column)
                if s["mean"] is None:
                    continue
                link = f"[{name}](#{name})" + (f", {unit}" if len(result.job["values"]) > 1 else "")
                worst = shown(s["most"]) + at(s["worst"], result.job["x"])
                lines.append(f"| {link} | {result.job['np']} | {line(state)} | {len(part.rounds)} | {s['better']} | {s['level']} | {s['worse']} | {shown(s['mean'])} | {worst} |")
    for name, result in results.items():
        if "text" in result.job:
            lines += ["", f"## {name}", "", f"{result.job['about']} {result.rest['date']}.", "", f"`{result.job['text']}`", "", "```", result.rest["text"].rstrip(), "```"]
            continue
        command = next(iter(result.rest["commands"].values()), "")
        lines += ["", f"## {name}", "", f"{result.job['about']} {len(result.rounds)} rounds, {result.rest['date']}.", "", f"`{command}`", ""]
        for failed, why in result.rest["failed"].items():
            lines += [f"{named(failed)} has no numbers from some round on: {' '.join(why.split())}", ""]
        for figure in figures:
            if figure["of"] == name:
                lines += [f"![{figure['title']}]({figure['name']}.svg)", ""]
        for state, part in result.split(every):
            if state:
                lines += [f"Line {line(state)}, {len(part.rounds)} round{'s' * (len(part.rounds) > 1)}:", ""]
            if len([mpi for mpi in part.names() if any(mpi in one for one in part.rounds)]) == 1:
                lines += [table(part), ""]
                continue
            for column, unit in enumerate(part.job["values"]):
                if any(part.values(mpi, key, column) for mpi in part.names() for key in part.keys()):
                    lines += [f"{unit}:", "", table(part, column), ""]
    return "\n".join(lines).rstrip() + "\n"


def sheet(results):
    """results.csv: every median with its spread."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["benchmark", "ranks", "line us", "size", "unit", "mpi", "median", "least", "most", "rounds",
                     "ratio to the best", "least ratio", "most ratio"])
    every = ways(results)
    for name, whole in results.items():
        for (state, result), (column, unit) in itertools.product(whole.split(every), enumerate(whole.job["values"])):
            for key in result.keys():
                costs = result.costs(key, column)
                for mpi in result.names():
                    values = result.values(mpi, key, column)
                    if values:
                        ratio = [f"{x:.3f}" for x in (statistics.median(costs), min(costs), max(costs))] if costs and mpi == result.ours() else ["", "", ""]
                        writer.writerow([name, result.job["np"], f"{statistics.median(result.bounces):.3g}" if state else "", key, unit, mpi,
                                         f"{statistics.median(values):.6g}", f"{min(values):.6g}", f"{max(values):.6g}", len(values)] + ratio)
    return out.getvalue()


# --- Figures ---

def notes(result):
    """What every figure says of its origin."""
    words = [named(name) + ": " + text for name, text in versions(result).items()]
    lines, text = [], ""
    for word in words:
        if text and len(text) + len(word) > 150:
            lines.append(text)
            text = ""
        text += ("; " if text else "") + word
    command = next(iter(result.rest["commands"].values()), "")
    bounce = next(iter(states(result.bounces)), None)
    where = f", a cache line between the CPUs {line(bounce)}" if bounce else ""
    return [hardware(result)[:170], *lines, text, f"{len(result.rounds)} rounds in turn{where}, {result.rest['date']}, commit {result.rest['commit']}; median, least and most",
            command[:170]]


def points(triples, log):
    return [{"x": float(key), "y": y, "least": least, "most": most} for key, y, least, most in triples if not log or (float(key) > 0 and least > 0)]


def figures_of(name, result):
    """The figures of one result: its values, and where there are peers the ratios."""
    keys = [key for key in result.keys() if key.isdigit()]
    if len(keys) < 4:
        return []
    job, unit = result.job, result.job["values"][0]
    x = {"label": job["x"], "log": True, "bytes": job["x"] == "bytes"}
    series, rest = [], iter([5, 6, 7, 3, 4, 1, 2] * 2)
    for mpi in result.names():
        triples = [(key, result.median(mpi, key), *result.spread(mpi, key)) for key in keys if result.values(mpi, key)]
        if drawn := points(triples, True):
            series.append({"name": named(mpi), "color": COLORS[mpi] if mpi in COLORS else next(rest), "dashed": "+" in mpi or mpi == "hardware", "points": drawn})
    made = [{"of": name, "name": name, "title": f"{name}: {unit} on {job['np']} ranks", "notes": notes(result), "x": x,
             "y": {"label": unit, "log": True}, "series": series}] if series else []
    ratios = []
    for label, against in [("to the best", None)] + [(f"to {named(peer)}", peer) for peer in result.peers()]:
        triples = [(key, statistics.median(costs), min(costs), max(costs)) for key in keys if (costs := result.costs(key, 0, against))]
        if against:  # the spread of one line is enough
            triples = [(key, y, y, y) for key, y, _, _ in triples]
        if drawn := points(triples, True):
            ratios.append({"name": label, "color": COLORS.get(against, 0), "dashed": bool(against), "points": drawn})
    if ratios:
        made.append({"of": name, "name": f"{name}-ratio", "title": f"{name}: nearmpi's cost in parts of the others', below 1 is better", "notes": notes(result),
                     "x": x, "y": {"label": "ratio", "log": True, "mark": 1.0}, "series": ratios})
    return made


def draw(figures, plot, folder):
    """Has the SVG files drawn; old ones go."""
    for old in folder.glob("*.svg"):
        old.unlink()
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(figures, file)
        file.flush()
        subprocess.run([plot, file.name, folder], check=True)


def replace(text, name, lines):
    """The text with what stands between the marks `<!-- name -->` and `<!-- /name -->` replaced."""
    begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
    if text.count(begin) != 1 or text.count(end) != 1:
        raise ValueError(f"the text has not exactly one pair of marks {begin.strip()} and {end}")
    return text.split(begin)[0] + begin + "\n".join(lines) + "\n" + end + text.split(end)[1]


def first_page(results, suite):
    """What README.md says of the results."""
    lines, used = headlines(results, suite)
    return about(used) + ["", "A ratio is our cost in parts of the best other MPI's in the same round; below 1 nearmpi is better. Over a range of sizes it is",
                          "the geometric mean; beside it the least and the most of the rounds, and how many there were. The host of a virtual machine moves its",
                          "CPUs about, now two cores of one cache and now two apart, so rounds are sorted by what a cache line takes between them.", ""] + lines[:-1]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", required=True, type=pathlib.Path)
    parser.add_argument("--plot", help="the program that draws; without it no figures")
    args = parser.parse_args()
    results = load(args.results / "data")
    if not results:
        sys.exit(f"report: no data in {args.results / 'data'}; scripts/bench suite makes some")
    suite = tomllib.loads((HERE / "suite.toml").read_text())
    most = usual(results)
    figures = [figure for name, result in most.items() for figure in figures_of(name, result)]
    if args.plot:
        draw(figures, args.plot, args.results)
    (args.results / "README.md").write_text(page(results, suite, figures if args.plot else []))
    (args.results / "results.csv").write_text(sheet(results))
    root = HERE.parent
    if args.results.resolve() == (root / "results").resolve():  # other folders are for trying out
        readme = root / "README.md"
        readme.write_text(replace(readme.read_text(), "results", first_page(results, suite)))
        (root / "docs" / "papers.md").write_text(papers.page(most))
    print(f"report: {len(results)} benchmarks, {len(figures)} figures in {args.results}")


if __name__ == "__main__":
    main()
