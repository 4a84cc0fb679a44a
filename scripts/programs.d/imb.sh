# Intel MPI Benchmarks, as binaries from Intel's wheels (linked to libmpi.so.12); read by scripts/programs.

# imb_fetch: the binaries were moved between Intel's wheels from one version to the next, so both are searched.
imb_fetch() {
    wheel impi-devel 2021.19.0 && wheel impi-rt 2021.19.0 || die "the wheels with IMB could not be fetched"
    IMB=$(dirname "$(find "$CACHE/pypi/impi-devel" "$CACHE/pypi/impi-rt" -name IMB-MPI1 -type f | head -n 1)")
    [ -x "$IMB/IMB-MPI1" ] || die "no IMB-MPI1 in impi-devel and impi-rt"
}
# imb_verdict COUNT: the log must show the end of the run, COUNT benchmarks and no wrong data.
imb_verdict() {
    local seen
    seen=$(grep -a '^# Benchmarking' "$LOG" | awk '{ print $3 }' | sort -u | wc -l)
    grep -aqiE 'defect|incorrect|check failed|wrong (data|result)' "$LOG" && die "$(grep -aiE -m 1 'defect|incorrect|check failed|wrong' "$LOG")"
    [ "$seen" -ge "$1" ] || die "only $seen of $1 benchmarks ran"
    say "$seen benchmarks"
}
# The benchmarks that IMB-MPI1 leaves out of its default list.
IMB_MORE=PingPongSpecificSource,PingPongAnySource,PingPingSpecificSource,PingPingAnySource,Uniband,Biband

imb_mpi1() { # RANKS LIMIT OPTION...
    local n=$1 limit=$2
    shift 2
    imb_fetch
    ours "$IMB/IMB-MPI1"
    ranks "$n" "$limit" "$IMB/IMB-MPI1" "$@" -include $IMB_MORE
    grep -aq 'All processes entering MPI_Finalize' "$LOG" || die "the suite did not reach its end"
    imb_verdict 25
}
imb_p2p() { # RANKS BENCHMARKS
    imb_fetch
    ours "$IMB/IMB-P2P"
    ranks "$1" 300 "$IMB/IMB-P2P" -iter 50,20 -msglog 0:18
    grep -aq 'All processes entering MPI_Finalize' "$LOG" || die "the suite did not reach its end"
    imb_verdict "$2"
}
imb_mt() { # RANKS
    imb_fetch
    wheel intel-openmp 2026.2.0 || die "the wheel with libiomp5.so could not be fetched"
    ours "$IMB/IMB-MT"
    RUNPATHS+=:$CACHE/pypi/intel-openmp/lib OMP_NUM_THREADS=2 \
        ranks "$1" 300 "$IMB/IMB-MT" -thread_level multiple -check true -count 1,512,16384,262144 -repeat 50 -datatype int
    imb_verdict 10
}
imb_nbc() { # RANKS
    imb_fetch
    ranks "$1" 300 "$IMB/IMB-NBC" -iter 10 -time 0.02 -msglog 0:16
    imb_verdict 13
}

imb_rma() { # RANKS
    imb_fetch
    ours "$IMB/IMB-RMA"
    ranks "$1" 120 "$IMB/IMB-RMA" -iter 20 -time 0.05 -msglog 0:16
    grep -aq 'All processes entering MPI_Finalize' "$LOG" || die "the suite did not reach its end"
    imb_verdict 17
}

imb_programs() {
    prog imb-mpi1-2 default imb_mpi1 2 120 -iter 20 -time 0.05 -msglog 0:20 -mem 2
    prog imb-mpi1-4 default imb_mpi1 4 120 -iter 10 -time 0.02 -msglog 0:17 -mem 2
    prog imb-mpi1-long-2 slow imb_mpi1 2 1200 -time 0.5 -msglog 0:22
    prog imb-mpi1-long-4 slow imb_mpi1 4 1200 -time 0.5 -msglog 0:22
    prog imb-p2p-2 slow imb_p2p 2 6
    prog imb-p2p-4 slow imb_p2p 4 7
    prog imb-mt-2 slow imb_mt 2
    prog imb-mt-4 slow imb_mt 4
    prog imb-rma-2 default imb_rma 2
    prog imb-rma-4 slow imb_rma 4
    prog imb-nbc-2 default imb_nbc 2
    prog imb-nbc-4 default imb_nbc 4
}
