"""find_package(sluicegate), from a project outside the repository and from where the library was moved to."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import artefacts

VERSION = next(
    line.split('"')[1]
    for line in (artefacts.ROOT / "Cargo.toml").read_text().splitlines()
    if line.startswith("version = ")
)
PROJECT = """
cmake_minimum_required(VERSION 3.16)
project(outside C CXX)
find_package(sluicegate @version@ REQUIRED)
find_package(sluicegate REQUIRED)
foreach(kind sluicegate sluicegate_static)
  add_executable(${kind} main.c)
  target_link_libraries(${kind} PRIVATE sluicegate::${kind})
endforeach()
add_executable(wrapper main.cpp)
target_compile_features(wrapper PRIVATE cxx_std_17)
target_link_libraries(wrapper PRIVATE sluicegate::sluicegate)
message(STATUS "found ${sluicegate_VERSION}")
"""
C = """
#include <sluicegate.h>
#include <stdio.h>
int main(void) { return puts(sg_version()) < 0; }
"""
CPP = """
#include <iostream>
#include <sluicegate.hpp>
int main() {
    sluicegate::Limiter limiter("memory://");
    std::cout << limiter.limit("n", "2/s").try_acquire("k").remaining << '\\n';
}
"""


def test_shared_and_static(c_prefix: Path, tmp_path: Path) -> None:
    moved = tmp_path / "moved here"
    shutil.copytree(c_prefix, moved, symlinks=True)
    (tmp_path / "CMakeLists.txt").write_text(PROJECT.replace("@version@", VERSION))
    (tmp_path / "main.c").write_text(C)
    (tmp_path / "main.cpp").write_text(CPP)
    configured = artefacts.run(["cmake", "-B", "build", f"-DCMAKE_PREFIX_PATH={moved}"], cwd=tmp_path)
    assert f"found {VERSION}" in configured
    artefacts.run(["cmake", "--build", "build", "-j2"], cwd=tmp_path)
    build = tmp_path / "build"
    assert artefacts.run([build / "wrapper"], cwd=tmp_path).strip() == "1"
    for kind in ("sluicegate", "sluicegate_static"):
        assert artefacts.run([build / kind], cwd=tmp_path).strip() == VERSION
        needed = artefacts.run(["ldd", build / kind], cwd=tmp_path)
        assert (str(moved) in needed) == ("libsluicegate" in needed) == (kind == "sluicegate")


MAJOR, MINOR, PATCH = map(int, VERSION.split("."))
ASKED = {
    "": True,
    f"{MAJOR}.{MINOR}": True,
    f"{VERSION};EXACT": True,
    f"{MAJOR}...{MAJOR + 1}": True,
    "0.0.1...0.0.9": False,
    f"{MAJOR}.0...<{VERSION}": False,
    f"{MAJOR}.{MINOR + 1}": False,
    f"{MAJOR + 1}": False,
    f"{MAJOR}.{MINOR}.{PATCH + 1};EXACT": False,
}


def test_versions(c_prefix: Path, tmp_path: Path) -> None:
    project = ["cmake_minimum_required(VERSION 3.19)", "project(outside C)"]
    for asked in ASKED:
        project += [
            "unset(sluicegate_DIR CACHE)",
            f"find_package(sluicegate {asked.replace(';', ' ')} QUIET)",
            f'message(STATUS "asked [{asked}] ${{sluicegate_FOUND}}")',
        ]
    (tmp_path / "CMakeLists.txt").write_text("\n".join(project))
    said = artefacts.run(["cmake", "-B", "build", f"-DCMAKE_PREFIX_PATH={c_prefix}"], cwd=tmp_path)
    found = {asked: f"asked [{asked}] 1" in said for asked in ASKED}
    assert said.count("asked [") == len(ASKED)
    assert found == ASKED


def test_a_library_that_is_missing(c_prefix: Path, tmp_path: Path) -> None:
    shutil.copytree(c_prefix, tmp_path / "prefix", symlinks=True)
    (tmp_path / "prefix" / "lib" / "libsluicegate.a").unlink()
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.16)\nproject(outside C)\nfind_package(sluicegate REQUIRED)\n"
    )
    line = ["cmake", "-B", "build", f"-DCMAKE_PREFIX_PATH={tmp_path / 'prefix'}"]
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode != 0
    assert "libsluicegate.a is missing" in " ".join(done.stderr.split())
