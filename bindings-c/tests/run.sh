#!/usr/bin/env bash
# Installs the library below a directory of its own, builds the test programs against it as a user
# would, and runs them: on memory://, and on the Redis at SLUICEGATE_TEST_REDIS where that is set.
#
#     tests/run.sh [plain|valgrind|asan] [release|debug]
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
mode=${1:-plain} profile=${2:-release}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
make --no-print-directory -s -C "$here" install PREFIX="$work/prefix" DESTDIR= PROFILE="$profile"
export PKG_CONFIG_PATH="$work/prefix/lib/pkgconfig${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}"

failed=0
warnings=(-Wall -Wextra -Wpedantic -Werror -g)
run=()
case $mode in
  plain) ;;
  valgrind)
    run=(valgrind --quiet --error-exitcode=99 --leak-check=full --errors-for-leak-kinds=definite
      --show-leak-kinds=definite --fair-sched=yes --child-silent-after-fork=no) ;;
  asan) warnings+=(-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer) ;;
  *) echo "$0: unknown mode $mode" >&2; exit 2 ;;
esac

read -ra flags <<< "$(pkg-config --cflags --libs sluicegate)"
read -ra json <<< "$(pkg-config --cflags --libs jansson)"

build() { # language, source, program, further flags
  local compiler=(gcc -std="$1") define=()
  [[ $1 == c++* ]] && compiler=("${cxx:-g++}" -std="$1" -x c++)
  # Strict C hides what POSIX adds: alarm, fork, getpid.
  [[ $1 == c9* || $1 == c1* ]] && define=(-D_POSIX_C_SOURCE=200809L)
  "${compiler[@]}" "${warnings[@]}" "${define[@]}" "$2" -o "$3" "${flags[@]}" "${@:4}"
}

run_program() { # program, arguments
  local code=0 checked=("${run[@]}")
  # What a child inherits from before a fork must be neither used nor freed there: no leak of ours.
  [[ $mode == valgrind && $1 == ./fork ]] && checked+=(--leak-check=no)
  [[ $1 == ./fork ]] && local -x ASAN_OPTIONS=detect_leaks=0
  timeout 900 "${checked[@]}" "$@" || code=$?
  [[ $code == 0 ]] || { echo "FAILED: $1 ($language, $mode), exit code $code"; failed=1; }
}

# The same sources are C99, C11 and C++17. One language is enough where a run takes long.
languages=(c99 c11 c++17)
[[ $mode == plain ]] || languages=(c11)
shopt -s extglob nullglob
scenarios=("$here"/../tests/scenarios/!(schema).json)
cd "$work"
for language in "${languages[@]}"; do
  echo "-- $language, $mode"
  for name in bad_input threads waiting outage queue events fork; do
    build "$language" "$here/tests/c/$name.c" "$name" -pthread
    run_program "./$name"
  done
  build "$language" "$here/tests/c/scenarios.c" scenarios "${json[@]}" -lm
  run_program ./scenarios "${scenarios[@]}"
  build "$language" "$here/tests/c/http.c" http "${json[@]}"
  run_program ./http "$here/../tests/addresses.json"
  [[ $language/$mode != c11/plain ]] || run_program ./scenarios --queue "${scenarios[@]}"
  if [[ $language/$mode == c11/plain ]]; then
    build "$language" "$here/tests/c/huge_key.c" huge_key
    run_program ./huge_key
  fi
  build "$language" "$here/tests/c/secrets.c" secrets "${json[@]}" -pthread
  run_program ./secrets "$here/../tests/secrets.json"
  build "$language" "$here/examples/quickstart.c" quickstart
  run_program ./quickstart memory://
done

# The C++ wrapper, with each compiler and standard.
wrappers=(g++/c++17 g++/c++20 clang++/c++17 clang++/c++20)
[[ $mode == plain ]] || wrappers=(g++/c++17)
for wrapper in "${wrappers[@]}"; do
  language=${wrapper#*/} cxx=${wrapper%/*}
  echo "-- $cxx $language, $mode"
  build "$language" "$here/tests/cpp/wrapper.cpp" wrapper -pthread
  run_program ./wrapper
done

# The headers alone, included twice, with more warnings than most programs have.
if [[ $mode == plain ]]; then
  strict=(-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wundef -Werror -fsyntax-only)
  printf '#include <sluicegate.h>\n#include <sluicegate.h>\n' > header.c
  printf '#include <sluicegate.hpp>\n#include <sluicegate.hpp>\n' > header.cpp
  compiled=0
  for standard in c99 c11 c17 c++17 c++20; do
    for compiler in gcc clang; do
      if [[ $standard == c++* ]]; then
        more=(-x c++ header.c header.cpp -Wold-style-cast -Wnon-virtual-dtor)
      else
        more=(header.c -Wstrict-prototypes -Wmissing-prototypes)
      fi
      if "$compiler" -std="$standard" "${strict[@]}" -I"$work/prefix/include" "${more[@]}"; then
        compiled=$((compiled + 1))
      else
        echo "FAILED: the headers as $standard with $compiler"
        failed=1
      fi
    done
  done
  echo "headers: $compiled passed"
fi

# The static library, with what pkg-config says it needs.
if [[ $mode == plain ]]; then
  prefix="$work/prefix"
  private=$(sed -n 's/^Libs.private: //p' "$prefix/lib/pkgconfig/sluicegate.pc")
  # shellcheck disable=SC2086  # a list of flags
  gcc "${warnings[@]}" -I"$prefix/include" "$here/examples/quickstart.c" -o static "$prefix/lib/libsluicegate.a" $private
  language=static run_program ./static memory://
fi
exit "$failed"
