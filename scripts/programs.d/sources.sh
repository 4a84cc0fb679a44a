# Test suites of others, compiled from Debian's source packages: HDF5's parallel tests, which live on files, and MPICH's own; read by
# scripts/programs.

# source_package NAME URL: unpacks a package of sources; its files lie in $CACHE/sources/NAME-*.
source_package() {
    once "source-$1" fetch_source "$1" "$2" || die "the sources of $1 could not be fetched (see $CACHE/logs/fetch.log)"
}
fetch_source() {
    mkdir -p "$CACHE/sources" &&
        "$PYTHON" -c 'import sys, urllib.request; urllib.request.urlretrieve(*sys.argv[1:])' "$2" "$CACHE/sources/$1.tar" &&
        tar -C "$CACHE/sources" -xf "$CACHE/sources/$1.tar"
}
# debian_source NAME VERSION.SUFFIX: the same of Debian's.
debian_source() { source_package "$1" "http://deb.debian.org/debian/pool/main/${1:0:1}/$1/$1_$2"; }

hdf5_fetch() {
    debian_source hdf5 1.10.8+repack1.orig.tar.gz
    HDF5=$CACHE/scratch/hdf5-$WITH
    [ -x "$HDF5/testpar/t_filters_parallel" ] || hdf5_build >"$LOGS/hdf5-build.log" 2>&1 ||
        die "HDF5 could not be built (see $LOGS/hdf5-build.log)"
}
hdf5_build() {
    rm -rf "$HDF5" && mkdir -p "$HDF5" && cd "$HDF5" &&
        CC=$PREFIX/bin/mpicc "$CACHE"/sources/hdf5-*/configure --enable-parallel --disable-fortran --disable-hl --disable-shared &&
        make -j2 -C src && make -j2 -C test libh5test.la && make -j2 -C testpar $HDF5_TESTS
}
HDF5_TESTS="t_mpi testphdf5 t_pread t_shapesame t_filters_parallel t_cache"
# The tests of metadata caches want more than two ranks.
hdf5() { # RANKS
    hdf5_fetch
    local name tests=$HDF5_TESTS
    [ "$1" -gt 2 ] || tests=${tests% t_cache}
    ours "$HDF5/testpar/testphdf5"
    for name in $tests; do
        ranks "$1" 120 "$HDF5/testpar/$name"
    done
    grep -qE '\*FAILED\*|failures? found' "$LOG" && die "$(grep -m 1 -E '\*FAILED\*|failures? found' "$LOG")"
    say "$(wc -w <<<"$tests") programs"
}

# What MPICH's suite asks of MPICH 4.0 alone: logical XOR of floating-point numbers (oplxor), MPI_COMM_NULL for a grid without
# dimensions (cartsuball), which MPICH 5.0.2 fails too, and the version of the library (baseenv*); a datatype that was freed
# (indexed_misc*), more ranks than -maxnp (ic2), a tool library (qmpi_test), a result in place that MPICH leaves in a second place, too
# (redscatblk of C++), and what does not compile (c2f2ciof90, uerrhandf08).
SUITE_EXCEPT='/(oplxor|indexed_misc|indexed_misc_oldapi|ic2|qmpi_test|cartsuball|baseenv|baseenvf|baseenvf90|redscatblk|c2f2ciof90|uerrhandf08) '
mpich_suite() { # FOLDER LEAST
    debian_source mpich 4.0.2.orig.tar.xz
    local suite=$CACHE/scratch/mpich-suite-$WITH failed
    [ -e "$suite/util/libmtest.la" ] || suite_build "$suite" >"$LOGS/mpich-suite-build.log" 2>&1 ||
        die "MPICH's suite could not be built (see $LOGS/mpich-suite-build.log)"
    cd "$suite/$1" || die "the suite has no $1"
    export MPITEST_TIMEOUT=120
    LD_LIBRARY_PATH=$RUNPATHS limited 1200 "$suite/runtests" -srcdir=. -tests=testlist "-mpiexec=$MPIRUN" -maxnp=10 -tapfile="$WORK/tap"
    failed=$(grep '^not ok' "$WORK/tap" | grep -vE "$SUITE_EXCEPT" | awk '{ print $4 }' | tr '\n' ' ')
    [ -z "$failed" ] || die "these fail: $failed"
    [ "$(grep -c '^ok' "$WORK/tap")" -ge "$2" ] || die "only $(grep -c '^ok' "$WORK/tap") of $2 tests passed"
    say "$(grep -c '^ok' "$WORK/tap") tests"
}
# The tests of mpi_f08 wait for a build inside of MPICH's tree; those of C++ need the bindings that Debian's MPICH still has.
suite_build() { # FOLDER
    need gfortran gfortran && need mpicxx.mpich libmpich-dev &&
        rm -rf "$1" && cp -a "$CACHE"/sources/mpich-*/test/mpi "$1" && cd "$1" && sed -i 's/ -a "$FROM_MPICH" = "yes"//' configure &&
        ./configure "--with-mpi=$PREFIX" "MPICC=$PREFIX/bin/mpicc" "MPIF77=$PREFIX/bin/mpif77" "MPIFC=$PREFIX/bin/mpifort" \
            MPICXX=mpicxx.mpich --enable-fortran=all --enable-threads=multiple &&
        make -j2 -C dtpools && make -C util
}

sources_programs() {
    local n
    for n in 2 4; do
        prog hdf5-$n slow hdf5 $n
    done
    # Folders of the suite, and how many of their tests passed when this was written.
    local folder least
    while read -r folder least; do
        prog "mpich-suite-$folder" slow mpich_suite "$folder" "$least"
    done <<<"attr 22
        coll 186
        comm 44
        cxx 79
        datatype 65
        errhan 8
        errors 88
        f08 133
        f77 103
        f90 119
        group 5
        info 12
        init 13
        io 29
        mpi_t 8
        part 35
        pt2pt 71
        rma 195
        spawn 30
        threads 80
        topo 17"
}
