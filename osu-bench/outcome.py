"""What a benchmark printed, and what several rounds of it say: parsing and statistics, no input or output."""
import re
import statistics

NUMBER = re.compile(r"[-+]?[0-9]+(\.[0-9]+)?(e[-+]?[0-9]+)?$", re.I)
HIGHER = re.compile(r"/s\b|hidden")


def parse(text):
    """Rows of output as {key: [values]}. Keys are sizes; "all" where a benchmark prints one value without a size.

    Understood are OSU's tables, also with a last column of verdicts, the line of osu_init, Intel's IMB tables, and rows
    that begin with a name, as b_eff's total does.
    """
    found = re.search(r"nprocs:.*min: ([0-9.]+) ms, max: ([0-9.]+) ms, avg: ([0-9.]+) ms", text)
    if found:
        return {"all": [float(found.group(i)) for i in (3, 1, 2)]}
    column, rows = None, {}
    for line in text.splitlines():
        words = [word for word in line.split() if word not in ("Pass", "Fail")]
        if words and words[0] in ("#bytes", "#repetitions"):  # IMB: t_avg, or the only time
            column = words.index("t_avg[usec]" if "t_avg[usec]" in words else "t[usec]")
            sized = words[0] == "#bytes"
            continue
        if not words or line.lstrip().startswith("#"):
            continue
        named = re.fullmatch(r"[a-z]\w*", words[0]) and len(words) > 1
        if not all(NUMBER.match(word) for word in words[bool(named):]):
            continue
        if column is not None:
            if len(words) > column and not named:
                rows.setdefault(words[0] if sized else "all", [float(words[column])])
        elif len(words) == 1:
            rows["all"] = [float(words[0])]
        else:
            rows[words[0]] = [float(word) for word in words[1:]]
    return rows


def failed_validation(text):
    """Whether a benchmark that checks its data found some wrong."""
    return any(line.split()[-1:] == ["Fail"] for line in text.splitlines())


def cachegrind(text):
    """Sums over the ranks of what valgrind's cachegrind says at their ends: {"D1 misses": n, ...}."""
    sums = {}
    for name, value in re.findall(r"==\d+== (I +refs|D +refs|D1 +misses|LLd misses):\s+([\d,]+)", text):
        key = " ".join(name.split())
        sums[key] = sums.get(key, 0) + int(value.replace(",", ""))
    return sums


def higher_is_better(unit):
    return bool(HIGHER.search(unit))


def order(key):
    """Sizes by value, then names."""
    return (0, float(key), "") if NUMBER.match(key) else (1, 0.0, key)


def steady(bounces):
    """Whether the CPUs stayed where they were: no two of these times of a cache line are a factor of two apart."""
    known = list(filter(None, bounces))
    return not known or max(known) < 2 * min(known)


def states(bounces):
    """How near the CPUs were to each other: [(least, most)] of the times of a cache line, cut where one is 1.5 times the one before.

    None is a state too: rounds of which no such time is known.
    """
    bounces, cut = list(bounces), []
    for bounce in sorted(filter(None, bounces)):
        if cut and bounce < 1.5 * cut[-1][1]:
            cut[-1] = (cut[-1][0], bounce)
        else:
            cut.append((bounce, bounce))
    return cut + [None] * any(not bounce for bounce in bounces)


class Result:
    """One job's rounds, read or measured: {mpi: {key: [values]}} a round. `bounces`: us that a cache line took in each."""

    def __init__(self, job, rounds, bounces=(), **rest):
        self.job, self.rounds, self.rest = job, rounds, rest
        self.bounces = list(bounces) or [None] * len(rounds)

    def within(self, state):
        """The rounds of one of the `states` alone."""
        kept = [at for at, bounce in enumerate(self.bounces) if (state[0] <= bounce <= state[1] if state and bounce else state == bounce)]
        return Result(self.job, [self.rounds[at] for at in kept], [self.bounces[at] for at in kept], **self.rest)

    def split(self, every):
        """[(state, its rounds)] of those of the states that have any."""
        return [(state, part) for state in every if (part := self.within(state)).rounds]

    def names(self):
        return self.job["mpis"]

    def ours(self):
        return self.names()[0]

    def peers(self):
        """Those that the ratio is taken to: no settings of ours, not the bare hardware."""
        return [name for name in self.names()[1:] if "+" not in name and name != "hardware" and not name.startswith("nearmpi")]

    def keys(self):
        """Every size in the rounds; of the hardware's only those that an MPI has too."""
        seen = {key for one in self.rounds for name, rows in one.items() for key in rows if name != "hardware"}
        return sorted(seen or {key for one in self.rounds for rows in one.values() for key in rows}, key=order)

    def values(self, name, key, column=0):
        """One value a round."""
        every = [one.get(name, {}).get(key, []) for one in self.rounds]
        return [values[column] for values in every if len(values) > column]

    def median(self, name, key, column=0):
        values = self.values(name, key, column)
        return statistics.median(values) if values else None

    def spread(self, name, key, column=0):
        values = self.values(name, key, column)
        return (min(values), max(values)) if values else None

    def deviation(self, name, key, column=0):
        """Standard deviation over the rounds, in parts of the mean."""
        values = self.values(name, key, column)
        mean = statistics.fmean(values) if values else 0
        return statistics.stdev(values) / mean if len(values) > 1 and mean else None

    def costs(self, key, column=0, against=None):
        """Our cost in parts of the other's, one a round that has both; `against` None: the best peer of the round.

        Ours / theirs for times and sizes, theirs / ours for rates: below 1 is better for us.
        """
        higher = higher_is_better(self.job["values"][column])
        ratios = []
        for one in self.rounds:
            at = {name: rows[key][column] for name, rows in one.items() if len(rows.get(key, [])) > column}
            mine = at.get(self.ours())
            theirs = [at[name] for name in ([against] if against else self.peers()) if at.get(name)]
            if mine and theirs:
                ratios.append(max(theirs) / mine if higher else mine / min(theirs))
        return ratios

    def best(self, key, column=0):
        """The peer with the best median."""
        at = {name: self.median(name, key, column) for name in self.peers()}
        at = {name: value for name, value in at.items() if value is not None}
        pick = max if higher_is_better(self.job["values"][column]) else min
        return pick(at, key=at.get) if at else None


def verdict(costs):
    """better, worse: every round says so; level: they differ; "" without any."""
    if not costs:
        return ""
    return "better" if max(costs) < 1 else "worse" if min(costs) > 1 else "level"


def geometric_mean(values):
    return statistics.geometric_mean(values) if values else None


def shown(value):
    """A number with three digits that count."""
    if value is None:
        return "-"
    size = abs(value)
    if size >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if size >= 10 else f"{value:.2f}" if size >= 0.1 else f"{value:.3g}"
