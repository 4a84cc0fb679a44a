"""Pieces of the pages: names, machine, tables. No input or output."""
import statistics

from outcome import geometric_mean, shown, verdict

NAMES = {"nearmpi": "nearmpi", "mpich5": "MPICH 5", "mpich4": "MPICH 4", "impi": "Intel MPI", "ompi5": "Open MPI 5", "hardware": "hardware"}


def named(name):
    """MPI's name for people; WAY=1 stands for the setting NEARMPI_WAY=1."""
    mpi, *settings = name.split("+")
    return " ".join([NAMES.get(mpi, mpi)] + [setting.removeprefix("NEARMPI_") for setting in settings])


def size(key, unit="bytes"):
    if not key.isdigit() or unit != "bytes":
        return key
    for bytes_, letter in ((1 << 20, "M"), (1 << 10, "K")):
        if int(key) >= bytes_ and int(key) % bytes_ == 0:
            return f"{int(key) // bytes_}{letter}"
    return key


def spread(values):
    return f"{shown(min(values))} to {shown(max(values))}" if values else "-"


def line(state):
    """What a cache line took from one CPU to the other."""
    return f"{state[0]:.2g} to {state[1]:.2g} us" if state else "not known"


def hardware(result):
    """The machine in a sentence."""
    m = result.rest["machine"]
    caches = ", ".join(f"{name} {text.split(' for ')[0]}" for name, text in m["caches"].items())
    kind = "virtual machine" if m["virtual"] else "machine"
    return f"{kind}, {m['cpu']}, {m['cpus']} CPUs, {caches}, {m['nodes']} NUMA node{'s' * (m['nodes'] > 1)}, {m['memory']}, Linux {m['kernel']}"


def versions(result):
    return {name: text.split(", package")[0].split(": MPI for")[0] for name, text in result.rest["versions"].items() if text}


def summary(result, column=0):
    """How many sizes are better, level, worse; the mean ratio; the worst size."""
    keys = [key for key in result.keys() if result.costs(key, column)]
    ratios = {key: statistics.median(result.costs(key, column)) for key in keys}
    words = [verdict(result.costs(key, column)) for key in keys]
    worst = max(ratios, key=ratios.get) if ratios else None
    return {word: words.count(word) for word in ("better", "level", "worse")} | {
        "mean": geometric_mean(list(ratios.values())), "worst": worst, "most": ratios.get(worst)}


def table(result, column=0, keys=None):
    """Markdown: medians of all, the ratio to the best peer with its spread, a verdict. `keys`: these sizes alone."""
    columns = [name for name in result.names() if any(name in one for one in result.rounds)]
    peers = bool(result.peers())
    if len(columns) == 1 and len(result.job["values"]) > 1:
        return alone(result, columns[0], keys)
    x = "" if result.keys() == ["all"] else result.job["x"]
    head = [x, *map(named, columns)] + (["ratio to the best", "of the rounds", ""] if peers else [])
    lines = ["| " + " | ".join(head) + " |", "|" + "--:|" * len(head)]
    for key in result.keys():
        if keys and key not in keys:
            continue
        best = result.best(key, column)
        cells = [size(key, x) if x else ""]
        for name in columns:
            text = shown(result.median(name, key, column))
            cells.append(f"*{text}*" if name == best else text)
        if peers:
            costs = result.costs(key, column)
            word = verdict(costs)
            cells += [shown(statistics.median(costs)) if costs else "-", spread(costs), "**worse**" if word == "worse" else word]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def alone(result, name, keys=None):
    """Markdown: every value of the only one that was run."""
    head = [result.job["x"], *result.job["values"]]
    lines = ["| " + " | ".join(head) + " |", "|" + "--:|" * len(head)]
    for key in result.keys():
        if not keys or key in keys:
            cells = [shown(result.median(name, key, column)) for column in range(len(result.job["values"]))]
            lines.append("| " + " | ".join([size(key, result.job["x"])] + cells) + " |")
    return "\n".join(lines)


def at(key, unit):
    """" at 64K", or nothing where there is one value only."""
    return "" if key in (None, "all") else f" at {size(key, unit)}"
