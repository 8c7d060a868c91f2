#ifndef SIEVEDB_VERSION_H_
#define SIEVEDB_VERSION_H_

// The one place that knows SieveDB's version: CMake, pkg-config and the tools
// read it from here.
#define SIEVEDB_VERSION_MAJOR 0
#define SIEVEDB_VERSION_MINOR 1
#define SIEVEDB_VERSION_PATCH 0

#endif  // SIEVEDB_VERSION_H_
