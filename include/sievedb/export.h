#ifndef SIEVEDB_EXPORT_H_
#define SIEVEDB_EXPORT_H_

// SIEVEDB_EXPORT marks the public API. The shared library is built with hidden
// visibility, so that what is not marked is not part of its ABI.
#define SIEVEDB_EXPORT __attribute__((visibility("default")))

#endif  // SIEVEDB_EXPORT_H_
