"""docs/papers.md: every figure and table of the five papers, what it claims, and what this machine shows.

papers.toml says what stands where; the numbers come from the results alone.
"""
import pathlib
import statistics
import tomllib

from outcome import geometric_mean, shown, verdict
from tables import hardware, named, size, spread, table

HERE = pathlib.Path(__file__).resolve().parent
KIB, MIB = 1 << 10, 1 << 20


def switched(result, item):
    """A line for each setting: our cost with the mechanism in parts of the cost without it."""
    lines = []
    for name in result.names()[1:]:
        if not name.startswith(("nearmpi+",)):
            continue
        for column in item.get("columns", [0]):
            every = [(key, costs) for key in result.keys() if (costs := result.costs(key, column, against=name))]
            if not every:
                continue
            ratios = {key: statistics.median(costs) for key, costs in every}
            best, worst = min(ratios, key=ratios.get), max(ratios, key=ratios.get)
            x, unit = result.job["x"], result.job["values"][column]
            text = f"- {named(result.ours())} against {named(name)}, {unit}: cost ratio {shown(geometric_mean(list(ratios.values())))}"
            if len(ratios) > 1:
                text += f" on the mean, from {shown(ratios[best])} at {size(best, x)} to {shown(ratios[worst])} at {size(worst, x)}"
            lines.append(text)
    return lines


def against_peers(result, item):
    """One line: how we stand beside the best of the others."""
    lines = []
    for column in item.get("columns", [0]):
        keys = [key for key in result.keys() if result.costs(key, column)]
        if keys:
            words = [verdict(result.costs(key, column)) for key in keys]
            mean = geometric_mean([statistics.median(result.costs(key, column)) for key in keys])
            lines.append(f"- against the best of the other MPIs, {result.job['values'][column]}: cost ratio {shown(mean)} on the mean; "
                         f"of {len(keys)} sizes {words.count('better')} better, {words.count('level')} level, {words.count('worse')} worse")
    return lines


def memory(results, item):
    """Chai 2006 figure 6: shared memory of both designs by the paper's formulas, and what was measured."""
    measured = {int(key): results[name] for name in item["jobs"] if name in results for key in results[name].keys()}
    lines = ["| ranks | P(P-1) x 1 MiB | the paper's new design | measured, all ranks: " + " | ".join(
        named(mpi) for mpi in ("nearmpi", "mpich5", "mpich4", "impi", "ompi5")) + " |", "|" + "--:|" * 8]
    for p in sorted({2, 4, 8, 16, *measured}):
        cells = [str(p), f"{p * (p - 1)} MiB", f"{(p * (p - 1) * 32 * KIB + p * 128 * 8 * KIB) / MIB:.1f} MiB"]
        for mpi in ("nearmpi", "mpich5", "mpich4", "impi", "ompi5"):
            value = measured[p].median(mpi, str(p), 2) if p in measured else None
            cells.append("-" if value is None else f"{value * p / 1024:.1f} MiB")
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def deviation(results, item):
    """Ekman 2005: mean and standard deviation over the runs."""
    result = results[item["jobs"][0]]
    names = [name for name in result.names() if any(name in one for one in result.rounds)]
    lines = [f"Mean over {len(result.rounds)} runs, MB/s, and standard deviation in percent of it:", "",
             "| bytes | " + " | ".join(map(named, names)) + " |", "|" + "--:|" * (len(names) + 1)]
    for key in result.keys():
        if item.get("keys") and key not in item["keys"]:
            continue
        cells = [size(key)]
        for name in names:
            values, part = result.values(name, key), result.deviation(name, key)
            cells.append(f"{shown(statistics.fmean(values))} ± {shown(part * 100)}%" if values and part is not None else "-")
        lines.append("| " + " | ".join(cells) + " |")
    parts = {name: [part for key in result.keys() if (part := result.deviation(name, key)) is not None] for name in names}
    lines += ["", "Median of the deviations: " + ", ".join(f"{named(name)} {shown(statistics.median(part) * 100)}%" for name, part in parts.items() if part) + "."]
    return lines


def single(results, item):
    """Several jobs with one value each, a row a job."""
    there = [results[name] for name in item["jobs"] if name in results]
    names = list(dict.fromkeys(name for result in there for name in result.names() if any(name in one for one in result.rounds)))
    lines = ["| ranks | " + " | ".join(map(named, names)) + " | ratio to the best | of the rounds |", "|" + "--:|" * (len(names) + 3)]
    for result in there:
        key = result.keys()[-1]
        costs = result.costs(key)
        lines.append("| " + " | ".join([str(result.job["np"])] + [shown(result.median(name, key)) for name in names]
                                       + [shown(statistics.median(costs)) if costs else "-", spread(costs)]) + " |")
    return lines


def counts(results, item):
    """Cache misses: all columns of jobs that ran once."""
    lines = []
    for name in item["jobs"]:
        if name not in results:
            continue
        result = results[name]
        lines += [result.job["about"], "", "| | " + " | ".join(result.job["values"]) + " | D1 misses a message |", "|---|" + "--:|" * (len(result.job["values"]) + 1)]
        messages = item["messages"][name]
        for mpi in result.names():
            values = [result.median(mpi, "all", column) for column in range(len(result.job["values"]))]
            if values[0] is not None:
                lines.append(f"| {named(mpi)} | " + " | ".join(f"{value:,.0f}" for value in values) + f" | {values[1] / messages:,.0f} |")
        lines += [""] + [f"{named(mpi)} did not run under valgrind: {' '.join(why.split())[:160]}" for mpi, why in result.rest["failed"].items()]
    return lines


def shares(results, item):
    """Mercier 2009 table 3: how much stays on a node under each policy, of what nearmpi-place printed."""
    policies = ("rr", "regroup", "placed", "placed-reverse")
    lines = ["| program | the paper: round robin | placed | here: " + " | ".join(policies) + " |", "|---|" + "--:|" * 6]
    for name in item["jobs"]:
        if name in results:
            rows = {words[0]: words for line in results[name].rest["text"].splitlines() if (words := line.split())}
            left = [f"{100 - float(rows[policy][-1].rstrip('%')):.0f}%" if policy in rows else "-" for policy in policies]
            lines.append(f"| {results[name].job['text'].split()[2]} | " + " | ".join([f"{part}%" for part in item["paper"][name]] + left) + " |")
    return lines


SPECIAL = {"memory": memory, "deviation": deviation, "single": single, "counts": counts, "shares": shares}


def entry(results, item):
    """One figure or table."""
    lines = [f"### {item['figure']}: {item['what']}", "", f"The paper: {item['claim']}", ""]
    if "cannot" in item:
        lines += [f"Not on this machine: {item['cannot']}", ""]
    missing = [name for name in item.get("jobs", []) if name not in results]
    if missing:
        lines += [f"Not measured yet: `osu-bench/compare --only '^({'|'.join(missing)})$'`.", ""]
    there = [name for name in item.get("jobs", []) if name in results]
    if there and "kind" in item:
        lines += SPECIAL[item["kind"]](results, item) + [""]
    for name in there:
        result = results[name]
        commands = next(iter(result.rest["commands"].values()), "")
        if "text" in result.job and "kind" in item:
            continue
        if "text" in result.job:
            lines += [f"`{result.job['text']}`", "", "```", result.rest["text"].rstrip(), "```", ""]
            continue
        if "kind" not in item:
            lines += [f"`{commands}`", ""]
            one = len([mpi for mpi in result.names() if any(mpi in rows for rows in result.rounds)]) == 1
            for column in [0] if one else item.get("columns", [0]):
                lines += [f"{result.job['values'][column]}, median of {len(result.rounds)} rounds:", "", table(result, column, item.get("keys")), ""]
        found = switched(result, item) + against_peers(result, item) if item.get("kind") != "counts" else []
        lines += [f"{name}:", ""] * bool(found and len(there) > 1) + found + [""] * bool(found)
    if "remark" in item:
        lines += [item["remark"], ""]
    return lines


def page(results):
    """The whole page."""
    papers = tomllib.loads((HERE / "papers.toml").read_text())
    used = {name: results[name] for paper in papers["paper"] for item in paper["item"] for name in item.get("jobs", []) if name in results}
    lines = ["# The five papers, measured here", "",
             "Made by `scripts/bench report` from results/data; do not edit. nearmpi implements what five papers propose. For each of their figures",
             "and tables that this kind of machine can repeat, here is the paper's claim, our number with the mechanism and without it, and the other",
             "MPIs. What switches a mechanism stands beside the name: `nearmpi WAY=1` ran with NEARMPI_WAY=1 (`nearmpi-info --cvars` lists all",
             "settings). A cost ratio below 1 is better for the one named first, for bandwidths too.", ""]
    if used:
        lines += [f"Machine: {'; '.join(sorted({hardware(result) for result in used.values()}))}.", ""]
    lines += [papers["limits"].strip(), ""]
    for paper in papers["paper"]:
        lines += [f"## {paper['title']}", ""]
        for item in paper["item"]:
            lines += entry(results, item)
    return "\n".join(lines).rstrip() + "\n"
