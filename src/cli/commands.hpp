#pragma once

/// @file
/// One function per subcommand; main dispatches. Each returns the process' exit code or throws
/// apo::Error, which main prints and maps to an exit code.

#include <string>
#include <vector>

namespace apo::comm {
class World;
}

namespace apo::cli {

/// Arguments after the subcommand's name.
using Arguments = std::vector<std::string>;

int run(const Arguments& arguments, comm::World& world);       // src/cli/run.cpp
int cluster(const Arguments& arguments, comm::World& world);   // src/cli/run.cpp, as the next four
int train(const Arguments& arguments, comm::World& world);
int meta(const Arguments& arguments, comm::World& world);
int adapt(const Arguments& arguments, comm::World& world);
int evaluate(const Arguments& arguments, comm::World& world);
int sweep(const Arguments& arguments, comm::World& world);     // src/cli/sweep.cpp
int plan(const Arguments& arguments, comm::World& world);      // src/cli/plan.cpp
int report(const Arguments& arguments, comm::World& world);    // src/cli/report.cpp
int verify(const Arguments& arguments, comm::World& world);    // src/cli/verify.cpp
int tokenize(const Arguments& arguments, comm::World& world);  // src/cli/tokenize.cpp
int generate(const Arguments& arguments, comm::World& world);  // src/cli/generate.cpp
int inspect(const Arguments& arguments, comm::World& world);   // src/cli/inspect.cpp
int probe(const Arguments& arguments, comm::World& world);     // src/cli/probe.cpp
int demo(const Arguments& arguments, comm::World& world);      // src/cli/demo.cpp

}  // namespace apo::cli
