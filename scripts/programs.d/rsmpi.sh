# The crate `mpi` (rsmpi) built with our mpicc, and its examples; read by scripts/programs.

RSMPI_VERSION=0.8.2

rsmpi_source() {
    local scratch=$CACHE/rsmpi-fetch manifest
    rm -rf "$scratch" "$CACHE/rsmpi-source"
    mkdir -p "$scratch/src" && : >"$scratch/src/lib.rs"
    printf '[package]\nname = "fetch"\nversion = "0.0.0"\nedition = "2021"\n[dependencies]\nmpi = "=%s"\n[workspace]\n' $RSMPI_VERSION >"$scratch/Cargo.toml"
    manifest=$(cd "$scratch" && cargo metadata --format-version 1 |
        "$PYTHON" -c 'import json, sys; print(next(p["manifest_path"] for p in json.load(sys.stdin)["packages"] if p["name"] == "mpi"))') &&
        cp -r "$(dirname "$manifest")" "$CACHE/rsmpi-source" && chmod -R u+w "$CACHE/rsmpi-source" &&
        printf '\n[workspace]\n' >>"$CACHE/rsmpi-source/Cargo.toml"
}
# Its bindings are made by bindgen, which needs libclang with clang's own headers.
rsmpi_fetch() {
    local clang
    need cargo cargo && once venv make_venv && once rsmpi-$RSMPI_VERSION rsmpi_source || die "the crate could not be fetched (see $CACHE/logs/fetch.log)"
    clang=$(apt_lists && apt-cache depends libclang-dev | grep -oE 'libclang-[0-9]+-dev' | grep -oE '[0-9]+' | head -n 1)
    packages clang "libclang1-$clang libclang-common-$clang-dev" "" || die "libclang could not be fetched"
    LIBCLANG_PATH=$(ls -d "$DEBIAN"/lib/llvm-*/lib | tail -n 1)
    export LIBCLANG_PATH
}
rsmpi_build() {
    rsmpi_fetch
    cd "$CACHE/rsmpi-source" || die "no source"
    export CARGO_TARGET_DIR=$CACHE/rsmpi-$WITH CARGO_PROFILE_DEV_DEBUG=0 MPICC=$PREFIX/bin/mpicc
    # The bindings are made anew when the header or the wrapper is another one.
    local key
    key=$(cat "$PREFIX/include/mpi.h" "$PREFIX/bin/mpicc" | sha256sum)
    if [ "$(cat "$CARGO_TARGET_DIR/key" 2>/dev/null)" != "$key" ]; then
        [ -d "$CARGO_TARGET_DIR" ] && cargo clean -q -p mpi-sys
    fi
    LD_LIBRARY_PATH=$LIBCLANG_PATH:$DEBIAN/lib limited 900 cargo build --locked --examples --features complex,derive
    echo "$key" >"$CARGO_TARGET_DIR/key"
    ours "$CARGO_TARGET_DIR/debug/examples/simple"
    say "$(ls examples | wc -l) examples with the features complex, derive, user-operations"
}
rsmpi_run() { # RANKS
    local source example name count=0 failed=()
    for source in "$CACHE"/rsmpi-source/examples/*.rs; do
        name=$(basename "$source" .rs) example=$CACHE/rsmpi-$WITH/debug/examples/$name
        [ -x "$example" ] || die "$name was not built"
        count=$((count + 1))
        echo "== $name"
        env "$MARK" LD_LIBRARY_PATH="$RUNPATHS" timeout -k 5 30 "$MPIRUN" -n "$1" "$example" || { echo "== code $?"; failed+=("$name"); }
    done
    [ $count -gt 0 ] || die "no examples"
    [ ${#failed[@]} = 0 ] || die "${#failed[@]} of $count examples fail: ${failed[*]}"
    say "$count examples"
}

rsmpi_programs() {
    prog rsmpi-build default rsmpi_build
    prog rsmpi-examples-2 default rsmpi_run 2
    prog rsmpi-examples-4 default rsmpi_run 4
}
