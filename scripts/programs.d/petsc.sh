# PETSc, compiled from its sources on PyPI, and its own tests of vectors, index sets, star forests, meshes, matrices and
# solvers, those for more than one rank; read by scripts/programs.

PETSC_URL=https://files.pythonhosted.org/packages/df/0f/0a3ae83f60fba9357e8de2acef74fc0871078c9991ae8aac4d04df118030/petsc-3.26.1.tar.gz
PETSC=$CACHE/sources/petsc-3.26.1
PETSC_FOLDERS="vec/is/sf/tests vec/is/sf/tutorials vec/is/tests vec/is/is/tests vec/is/ao/tests vec/vec/tests sys/tests sys/classes/viewer/tests
    dm/tests dm/partitioner/tests dm/impls/swarm/tests dm/impls/plex/tests ksp/ksp/tests snes/tests mat/tests"

petsc_fetch() {
    debian_fetch # for LAPACK
    source_package petsc "$PETSC_URL"
    [ -e "$PETSC/$WITH/lib/libpetsc.so" ] || petsc_build >"$LOGS/petsc-build.log" 2>&1 ||
        die "PETSc could not be built (see $LOGS/petsc-build.log)"
}
petsc_build() {
    # LAPACK lies in the cache, unless the system has it.
    local lapack="-L$DEBIAN/lib/lapack -L$DEBIAN/lib/blas -l:liblapack.so.3 -l:libblas.so.3"
    export LD_LIBRARY_PATH=$RUNPATHS
    cd "$PETSC" && rm -rf "$WITH" &&
        ./configure "PETSC_ARCH=$WITH" "--with-mpi-dir=$PREFIX" --with-cxx=0 --with-fc=0 --with-x=0 --with-debugging=0 COPTFLAGS=-O1 \
            "--with-blaslapack-lib=$lapack" &&
        make -j2 "PETSC_DIR=$PETSC" "PETSC_ARCH=$WITH" all
}

# petsc_test SCRIPT: one of PETSc's generated scripts, which compares what the program writes with what its authors keep.
petsc_test() {
    cd "$(dirname "$1")" && PETSCMPIEXEC=$MPIRUN timeout -k 5 120 bash "./${1##*/}" || echo "not ok ${1##*/} # code $?"
}

petsc() { # LEAST
    petsc_fetch
    cd "$PETSC" || die "the sources of PETSc are gone"
    export PETSC_DIR=$PETSC PETSC_ARCH=$WITH LD_LIBRARY_PATH=$RUNPATHS "$MARK" MPIRUN
    export -f petsc_test
    local folder script scripts=() programs=()
    make -f gmakefile.test "$WITH/tests/testfiles"
    for folder in $PETSC_FOLDERS; do
        # Programs in C that are for two ranks and more, or for one and for more.
        for script in $(grep -LE "^nsize_in=.*-1}|^executable='.*f(90)?'" "$WITH/tests/$folder"/run*.sh); do
            scripts+=("$PETSC/$script")
            programs+=("$WITH/tests/$folder/$(sed -n "s|^executable='../\(.*\)'|\1|p" "$script")")
        done
    done
    make -j2 -k -f gmakefile.test $(printf '%s\n' "${programs[@]}" | sort -u)
    printf '%s\n' "${scripts[@]}" | xargs -P 2 -I{} bash -c 'petsc_test {}' >"$WORK/tap"
    ! grep '^ *not ok' "$WORK/tap" || die "$(grep -c '^ *not ok' "$WORK/tap") fail: $(grep -m 1 '^ *not ok' "$WORK/tap")"
    [ "$(grep -c '^ *ok' "$WORK/tap")" -ge "$1" ] || die "only $(grep -c '^ *ok' "$WORK/tap") of $1 passed"
    say "${#scripts[@]} tests"
}

petsc_programs() { prog petsc slow petsc 2500; }
