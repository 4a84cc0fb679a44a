"""Tests of the parser, the statistics, the runner and the pages: python3 -m unittest discover -s osu-bench -t osu-bench"""
import argparse
import json
import pathlib
import stat
import tempfile
import tomllib
import unittest

import compare
import outcome
import papers
import report
import tables
from outcome import Result, cachegrind, failed_validation, parse, states, steady, verdict

HERE = pathlib.Path(__file__).resolve().parent

OSU = """
# OSU MPI Latency Test v7.0
# Size       Avg Latency(us)        Validation
1                       0.07              Pass
1024                    1.50              Pass
"""
IMB = """
#-----------------
# Benchmarking Alltoall
# #processes = 2
#-----------------
       #bytes #repetitions  t_min[usec]  t_max[usec]  t_avg[usec]
            0         1000         0.03         0.05         0.04
         1024         1000         1.00         3.00         2.00

# All processes entering MPI_Finalize
"""


def result(rounds, **job):
    base = {"name": "latency", "about": "Ping-pong.", "np": 2, "x": "bytes", "values": ["us"], "mpis": ["nearmpi", "mpich5", "ompi5"]}
    rest = {"machine": {"cpu": "CPU", "cpus": 2, "caches": {"L2": "1024K for CPUs 0"}, "nodes": 1, "memory": "8 GiB", "kernel": "6", "virtual": True},
            "date": "2026-01-01 00:00 UTC", "commit": "abc", "versions": {"nearmpi": "nearmpi 1", "mpich5": "MPICH 5.0.2"},
            "commands": {"nearmpi": "PREFIX/bin/mpirun -n 2 latency"}, "failed": {}}
    return Result(dict(base, **job), rounds, **rest)


TWO = [{"nearmpi": {"8": [1.0], "64": [4.0]}, "mpich5": {"8": [2.0], "64": [2.0]}, "ompi5": {"8": [4.0], "64": [8.0]}},
       {"nearmpi": {"8": [3.0], "64": [4.0]}, "mpich5": {"8": [4.0], "64": [2.0]}, "ompi5": {"8": [2.0], "64": [8.0]}}]


class Parsing(unittest.TestCase):
    def test_tables(self):
        self.assertEqual(parse(OSU), {"1": [0.07], "1024": [1.5]})
        self.assertEqual(parse("# [ pairs: 1 ]\n8    10.5   1312500.00\n"), {"8": [10.5, 1312500.0]})
        self.assertEqual(parse("# Avg Latency(us)\n             0.31\n"), {"all": [0.31]})
        self.assertEqual(parse("8 1.5e-1\nb_eff   123.45\n"), {"8": [0.15], "b_eff": [123.45]})

    def test_init(self):
        text = "nprocs: 2, min: 13.04 ms, max: 18.89 ms, avg: 15.97 ms"
        self.assertEqual(parse(text), {"all": [15.97, 13.04, 18.89]})

    def test_imb(self):
        self.assertEqual(parse(IMB), {"0": [0.04], "1024": [2.0]})
        barrier = "# Benchmarking Barrier\n #repetitions  t_min[usec]  t_max[usec]  t_avg[usec]\n  1000  0.30  0.32  0.31\n"
        self.assertEqual(parse(barrier), {"all": [0.31]})
        pingpong = " #bytes #repetitions t[usec] Mbytes/sec\n 8 1000 0.25 32.00\n"
        self.assertEqual(parse(pingpong), {"8": [0.25]})

    def test_other_text_is_no_row(self):
        self.assertEqual(parse("mpirun: rank 0 exited with code 1\nWarning 3 of 4\n1.2.3 4\n"), {})

    def test_validation(self):
        self.assertFalse(failed_validation(OSU))
        self.assertTrue(failed_validation(OSU.replace("1.50              Pass", "1.50              Fail")))

    def test_cachegrind_sums_over_ranks(self):
        text = "==7== D refs:      1,000  (600 rd + 400 wr)\n==7== D1  misses:      10  (1 rd)\n==8== D1  misses:  1,005 (..)\n==8== LLd misses: 3 (..)\n"
        self.assertEqual(cachegrind(text), {"D refs": 1000, "D1 misses": 1015, "LLd misses": 3})


class Statistics(unittest.TestCase):
    def test_the_ratio_is_to_the_best_of_the_same_round(self):
        r = result(TWO)
        self.assertEqual(r.costs("8"), [0.5, 1.5])
        self.assertEqual(r.costs("8", against="mpich5"), [0.5, 0.75])
        self.assertEqual(r.costs("64"), [2.0, 2.0])

    def test_rates_are_turned_round(self):
        r = result(TWO, values=["MB/s"])
        self.assertEqual(r.costs("8"), [4.0, 4 / 3])
        self.assertTrue(outcome.higher_is_better("messages/s"))
        self.assertTrue(outcome.higher_is_better("MB/s, random rings"))
        self.assertTrue(outcome.higher_is_better("% hidden"))
        self.assertFalse(outcome.higher_is_better("KiB of it shared"))

    def test_settings_and_hardware_are_no_peers(self):
        r = result([{"nearmpi": {"8": [2.0]}, "nearmpi+X=0": {"8": [1.0]}, "hardware": {"8": [0.1]}, "mpich5": {"8": [4.0]}}],
                   mpis=["nearmpi", "nearmpi+X=0", "mpich5", "hardware"])
        self.assertEqual(r.peers(), ["mpich5"])
        self.assertEqual(r.costs("8"), [0.5])

    def test_a_round_without_one_of_them_is_left_out(self):
        self.assertEqual(result(TWO + [{"mpich5": {"8": [1.0]}}, {"nearmpi": {"8": [1.0]}}]).costs("8"), [0.5, 1.5])

    def test_rounds_are_sorted_by_how_near_the_cpus_were(self):
        bounces = [0.2, 0.04, None, 0.05, 0.19, 0.055]
        every = states(bounces)
        self.assertEqual(every, [(0.04, 0.055), (0.19, 0.2), None])
        mixed = Result(result(TWO).job, [{"nearmpi": {"8": [bounce or 9.0]}} for bounce in bounces], bounces)
        self.assertEqual([part.values("nearmpi", "8") for _, part in mixed.split(every)], [[0.04, 0.05, 0.055], [0.2, 0.19], [9.0]])
        self.assertEqual(states([]), [])
        self.assertEqual([state for state, _ in result(TWO).split(every)], [None])
        self.assertTrue(steady([0.05, None, 0.09]) and steady([None]) and not steady([0.05, 0.09, 0.2]))

    def test_verdicts(self):
        self.assertEqual([verdict(costs) for costs in ([0.5, 0.9], [0.5, 1.5], [1.1, 2.0], [])], ["better", "level", "worse", ""])

    def test_deviation(self):
        self.assertAlmostEqual(result(TWO).deviation("nearmpi", "8"), 2 ** 0.5 / 2)
        self.assertEqual(result(TWO).deviation("nearmpi", "64"), 0)


class Pages(unittest.TestCase):
    def test_a_loss_is_shown(self):
        text = tables.table(result(TWO))
        self.assertIn("| 64 | 4.00 | *2.00* | 8.00 | 2.00 | 2.00 to 2.00 | **worse** |", text)
        self.assertIn("| 8 | 2.00 | *3.00* | 3.00 |", text)
        self.assertIn("0.50 to 1.50 | level |", text)

    def test_headline(self):
        line = report.headline({"latency": result(TWO)}, {"what": "x", "job": "latency", "from": 8, "to": 64})
        self.assertEqual([round(ratio, 3) for ratio in line["rounds"]], [1.0, 1.732])
        self.assertEqual(line["worst"], "2.00 at 64")
        one = report.headline({"latency": result(TWO)}, {"what": "x", "job": "latency", "from": 64, "to": 64})
        self.assertEqual((one["ours"], one["theirs"], one["ratio"]), ("4.00 us", "2.00 us (MPICH 5)", 2.0))
        self.assertIsNone(report.headline({}, {"what": "x", "job": "latency"}))
        self.assertIsNone(report.headline({"latency": result(TWO)}, {"what": "x", "job": "latency", "from": 1000}))

    def test_the_page_names_machine_versions_and_command(self):
        suite = {"headline": [{"what": "small", "job": "latency", "from": 8, "to": 8}]}
        text = report.page({"latency": result(TWO)}, suite, [])
        for what in ("CPU", "2 CPUs", "MPICH 5.0.2", "PREFIX/bin/mpirun -n 2 latency", "2 rounds", "abc", "| small |"):
            self.assertIn(what, text)
        failed = result(TWO)
        failed.rest["failed"] = {"impi": "no end\nwithin 5 s"}
        self.assertIn("Intel MPI has no numbers from some round on: no end within 5 s", report.page({"latency": failed}, suite, []))

    def test_figures(self):
        rounds = [{"nearmpi": {str(1 << i): [1.0 + i] for i in range(5)}, "mpich5": {str(1 << i): [2.0] for i in range(5)}}]
        values, ratio = report.figures_of("latency", result(rounds))
        self.assertEqual([series["name"] for series in values["series"]], ["nearmpi", "MPICH 5"])
        self.assertEqual(ratio["series"][0]["points"][4], {"x": 16.0, "y": 2.5, "least": 2.5, "most": 2.5})
        self.assertEqual(ratio["y"]["mark"], 1.0)
        self.assertTrue(any("MPICH 5.0.2" in note for note in values["notes"]))
        self.assertEqual(report.figures_of("latency", result(TWO)), [])

    def test_zero_is_not_drawn_on_a_logarithm(self):
        self.assertEqual(report.points([("0", 1, 1, 1), ("2", 0.0, 0.0, 1), ("4", 1, 1, 1)], True), [{"x": 4.0, "y": 1, "least": 1, "most": 1}])

    def test_sheet(self):
        lines = report.sheet({"latency": result(TWO)}).splitlines()
        self.assertIn("latency,2,,8,us,nearmpi,2,1,3,2,1.000,0.500,1.500", lines)
        self.assertEqual(len(lines), 1 + 6)

    def test_replace_wants_one_pair_of_marks(self):
        text = "a\n<!-- results -->\nold\n<!-- /results -->\nb\n"
        self.assertEqual(report.replace(text, "results", ["new"]), "a\n<!-- results -->\nnew\n<!-- /results -->\nb\n")
        for bad in ("no marks", text + text):
            with self.assertRaises(ValueError):
                report.replace(bad, "results", [])

    def test_papers(self):
        rounds = [dict(one, **{"nearmpi+NEARMPI_ONE_COPY=0": {"8": [4.0], "64": [4.0]}}) for one in TWO]
        on_and_off = result(rounds, mpis=["nearmpi", "nearmpi+NEARMPI_ONE_COPY=0", "mpich5", "ompi5"])
        item = {"figure": "Figure 7", "what": "latency", "claim": "15% less.", "jobs": ["latency", "other"], "cannot": "sockets."}
        text = "\n".join(papers.entry({"latency": on_and_off}, item))
        for what in ("### Figure 7: latency", "The paper: 15% less.", "Not on this machine: sockets.", "--only '^(other)$'",
                     "nearmpi against nearmpi ONE_COPY=0, us: cost ratio 0.71 on the mean, from 0.50 at 8 to 1.00 at 64",
                     "of 2 sizes 0 better, 1 level, 1 worse"):
            self.assertIn(what, text)

    def test_special_tables(self):
        memory = result([{"nearmpi": {"16": [1, 2, 64.0]}, "mpich5": {"16": [1, 2, 128.0]}}], values=["a", "b", "KiB"], x="ranks")
        line = papers.memory({"memory-16": memory}, {"jobs": ["memory-16"]})[-1]
        self.assertEqual(line, "| 16 | 240 MiB | 23.5 MiB | 1.0 MiB | 2.0 MiB | - | - | - |")
        lines = papers.deviation({"bidir": result(TWO)}, {"jobs": ["bidir"]})
        self.assertIn("| 8 | 2.00 ± 70.7% | 3.00 ± 47.1% | 3.00 ± 47.1% |", lines)
        lines = papers.single({"latency": result(TWO)}, {"jobs": ["latency"]})
        self.assertEqual(lines[-1], "| 2 | 4.00 | 2.00 | 8.00 | 2.00 | 2.00 to 2.00 |")
        placed = result([], text="nearmpi-place --pattern bt.C.64", mpis=[])
        placed.rest["text"] = "policy  cost  near  far\nrr  1e3  10.0%  66.7%\nplaced  9e2  50.0%  43.8%\n"
        lines = papers.shares({"bt": placed}, {"jobs": ["bt"], "paper": {"bt": [56, 69]}})
        self.assertEqual(lines[-1], "| bt.C.64 | 56% | 69% | 33% | - | 56% | - |")
        cache = result([{"nearmpi": {"all": [100.0, 20.0]}}], values=["D refs", "D1 misses"])
        self.assertIn("| nearmpi | 100 | 20 | 2 |", papers.counts({"cache": cache}, {"jobs": ["cache"], "messages": {"cache": 10}}))


class Tables(unittest.TestCase):
    """What suite.toml and papers.toml name must exist."""

    def setUp(self):
        self.suite = tomllib.loads((HERE / "suite.toml").read_text())
        self.jobs = list(compare.jobs(HERE / "suite.toml", False))

    def test_jobs(self):
        names = [job["name"] for job in self.jobs]
        self.assertEqual(len(names), len(set(names)))
        for job in self.jobs:
            if "text" in job:
                continue
            source = HERE / f"{job['program']}.c"
            self.assertTrue(source.exists() or job["program"].startswith("IMB"), job["name"])
            self.assertEqual(len(job["mpis"]), len(set(job["mpis"])), job["name"])

    def test_settings_exist(self):
        table = (HERE.parent / "src/sys/cvar.rs").read_text()
        launcher = (HERE.parent / "src/bin/mpirun/options.rs").read_text()
        for job in self.jobs:
            for name in job["mpis"]:
                for setting in name.split("+")[1:]:
                    if setting.startswith("-"):
                        continue
                    if f"(also: {setting};" in launcher:
                        continue
                    self.assertIn(f'"{setting.split("=")[0].removeprefix("NEARMPI_")}"', table, job["name"])

    def test_quick_has_every_headline(self):
        quick = {job["name"]: job for job in compare.jobs(HERE / "suite.toml", True)}
        for headline in self.suite["headline"]:
            self.assertIn(headline["job"], quick)

    def test_papers_name_jobs(self):
        names = {job["name"] for job in self.jobs}
        for paper in tomllib.loads((HERE / "papers.toml").read_text())["paper"]:
            for item in paper["item"]:
                self.assertTrue(item.get("jobs") or item.get("cannot"), item["figure"])
                self.assertLessEqual(set(item.get("jobs", [])), names, item["figure"])
        self.assertIn("Not measured yet", papers.page({}))


class Running(unittest.TestCase):
    """The runner, with scripts in place of MPIs."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.root = pathlib.Path(self.folder.name)
        for path, text in (("near/bin/mpirun", 'echo "# Size  Latency(us)"; echo "8 1.0"; echo "16 ${NEARMPI_X:-2.0}"'),
                           ("peers/mpich5/bin/mpiexec", 'echo "# Size"; echo "8 4.0"; echo "16 4.0"'),
                           ("peers/impi/bin/mpiexec", "echo broken >&2; exit 3"),
                           ("peers/ompi5/bin/mpiexec", "exec sleep 60")):
            file = self.root / path
            file.parent.mkdir(parents=True)
            file.write_text(f"#!/bin/sh\n{text}\n")
            file.chmod(file.stat().st_mode | stat.S_IXUSR)
        self.mpis = compare.Mpis(argparse.Namespace(binaries=self.root, prefix=self.root / "near", peer_dir=self.root / "peers", set=[]))
        self.said = []

    def measure(self, names, **job):
        job = dict({"program": "latency", "np": 2, "mpis": names}, **job)
        return compare.measure(self.mpis, job, 2, lambda text, keep=False: self.said.append((text, keep)))

    def test_rounds_and_settings(self):
        rounds, bounces, failed = self.measure(["nearmpi", "nearmpi+NEARMPI_X=9.0", "mpich5"])
        self.assertEqual(failed, {})
        self.assertEqual(len(rounds), 2)
        self.assertEqual(rounds[1]["nearmpi"], {"8": [1.0], "16": [2.0]})
        self.assertEqual(rounds[0]["nearmpi+NEARMPI_X=9.0"]["16"], [9.0])

    def test_a_run_during_which_the_cpus_moved_is_done_again(self):
        near, far = [0.05], [0.2]
        times = iter(near * 2 + far * 2 + near * 20)  # the second run ends otherwise than it began; so does its second try's begin
        self.mpis.bounce = lambda: next(times)
        rounds, bounces, _ = self.measure(["nearmpi", "mpich5"])
        self.assertEqual([list(one) for one in rounds], [["nearmpi", "mpich5"], ["mpich5", "nearmpi"]])
        self.assertEqual(bounces, [0.05, 0.05])
        self.assertEqual([text.split(": ")[1] for text, _ in self.said], ["nearmpi", *["mpich5"] * 4, "mpich5", "nearmpi"])

    def test_rounds_in_which_the_cpus_moved_count_only_alone(self):
        times = iter([0.05, 0.2] * 100)
        self.mpis.bounce = lambda: next(times)
        rounds, bounces, _ = self.measure(["nearmpi", "mpich5"])
        self.assertEqual((len(rounds), set(bounces)), (4, {None}))
        times = iter([0.05, 0.2] * compare.TRIES + [0.2] * 100)
        rounds, bounces, _ = self.measure(["nearmpi", "mpich5"])
        self.assertEqual(bounces, [0.2, 0.2])

    def test_everyone_is_first_in_turn(self):
        self.measure(["nearmpi", "mpich5"])
        self.assertEqual([text.split(": ")[1] for text, _ in self.said], ["nearmpi", "mpich5", "mpich5", "nearmpi"])

    def test_failures_are_kept_and_not_tried_again(self):
        rounds, bounces, failed = self.measure(["nearmpi", "impi", "ompi5", "mpich4"], timeout=0.3)
        self.assertEqual(set(failed), {"impi", "ompi5", "mpich4"})
        self.assertIn("exit status 3: broken", failed["impi"])
        self.assertIn("no end within 0.3 s", failed["ompi5"])
        self.assertEqual([list(one) for one in rounds], [["nearmpi"], ["nearmpi"]])
        self.assertEqual(sum(text.endswith(": impi") for text, _ in self.said), 1)

    def test_what_intels_programs_need(self):
        job = {"program": "IMB-MPI1", "options": "Alltoall", "np": 2}
        self.assertIsNone(self.mpis.command("ompi5", job))
        self.assertEqual(self.mpis.command("nearmpi", job)[0][3:], [str(self.root / "peers/impi/bin/IMB-MPI1"), "Alltoall"])

    def test_only_what_has_numbers_counts_as_measured(self):
        path = self.root / "x.json"
        self.assertFalse(compare.measured(path))
        for rounds, text, expected in (([{}, {}], "", False), ([{"nearmpi": {"8": [1.0]}}], "", True), ([], "0 10", True)):
            path.write_text(compare.compact({"job": {}, "text": text, "rounds": rounds}))
            self.assertEqual(compare.measured(path), expected)

    def test_settling(self):
        job = {"program": "latency", "options": "-m 8:8", "np": 2, "settle": 300}
        self.assertEqual(self.mpis.command("mpich5", job)[0][-2:], ["--settle", "300"])
        self.assertNotIn("--settle", self.mpis.command("mpich5", dict(job, program="IMB-MPI1"))[0])
        self.assertNotIn("--settle", self.mpis.command("mpich5", dict(job, program="init"))[0])

    def test_commands_whose_words_are_the_result(self):
        self.assertEqual(compare.words(self.root / "near", "mpirun").splitlines()[1], "8 1.0")
        self.assertIn("exit status 3: broken", compare.words(self.root / "peers" / "impi", "mpiexec"))
        self.assertIn("exit status 3: broken", compare.words(self.root / "peers" / "impi", "mpiexec && mpirun"))
        said = result([], text="nearmpi-topo --weights", mpis=[])
        said.rest["text"] = "0 10\n10 0\n"
        self.assertIn("`nearmpi-topo --weights`\n\n```\n0 10\n10 0\n```", report.page({"topo": said}, {"headline": []}, []))
        lines = papers.entry({"topo": said}, {"figure": "F", "what": "w", "claim": "c", "jobs": ["topo"]})
        self.assertIn("10 0", "\n".join(lines))

    def test_paths_of_this_machine_stay_here(self):
        places = {"": "PEERS", "/x/near": "PREFIX", "/x/near/bins": "BINARIES", "-": "NONE"}
        self.assertEqual(compare.neutral("/x/near/bin/mpirun /x/near/bins/latency -n 2", places), "PREFIX/bin/mpirun BINARIES/latency -n 2")

    def test_a_name_may_carry_options(self):
        job = {"program": "latency", "options": "-m 8:8", "np": 2}
        words, environment = self.mpis.command("nearmpi+NEARMPI_X=3+--thread-multiple", job)
        self.assertEqual(words[-3:], ["-m", "8:8", "--thread-multiple"])
        self.assertEqual(environment["NEARMPI_X"], "3")

    def test_records_survive(self):
        record = {"job": {"name": "x"}, "rounds": TWO, "failed": {}}
        self.assertEqual(json.loads(compare.compact(dict(record))), record)


if __name__ == "__main__":
    unittest.main()
