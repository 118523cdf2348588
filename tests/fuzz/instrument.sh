#!/bin/sh
# A RUSTC_WRAPPER that adds a fuzzer's instrumentation, as cargo-fuzz has it, to what is fuzzed alone:
# our crates, and the one that reads URLs.
rustc=$1
shift
name=
for word; do
  [ "$before" = --crate-name ] && name=$word
  before=$word
done
case $name in
  sluicegate | sluicegate_c | spec | url | reply | memory | bounds | http | c_api)
    coverage=-Cllvm-args=-sanitizer-coverage
    # Our own sanitizer flag is one that stable compilers keep to themselves.
    RUSTC_BOOTSTRAP=1 exec "$rustc" "$@" --cfg fuzzing -Zsanitizer=address -Cpasses=sancov-module \
      $coverage-level=4 $coverage-inline-8bit-counters $coverage-pc-table $coverage-trace-compares \
      $coverage-stack-depth -Cllvm-args=-simplifycfg-branch-fold-threshold=0 ;;
esac
exec "$rustc" "$@"
