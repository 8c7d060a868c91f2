#ifndef SIEVEDB_FILTER_C_H_
#define SIEVEDB_FILTER_C_H_

// The filters of sievedb/filter.h for C, and for what calls C.
//
//   char* error = NULL;
//   sievedb_filter* f =
//       sievedb_filter_create(SIEVEDB_FILTER_BLOCKED_BLOOM, 1000000, 10, 0, &error);
//   if (f == NULL) { fprintf(stderr, "%s\n", error); sievedb_free(error); … }
//   sievedb_filter_add(f, "key", 3);
//   if (!sievedb_filter_contains(f, "other", 5)) …  // certainly not added
//   sievedb_filter_destroy(f);
//
// Where a function has an error argument and fails, it returns NULL and sets *error to
// a message that sievedb_free takes; the argument may be NULL. Keys are any bytes.
//
// Threads: functions that take a const filter are safe beside each other, not beside
// those that change it.

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sievedb/export.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sievedb_filter sievedb_filter;

// Never renumbered: serialized filters have them.
typedef enum sievedb_filter_kind {
  SIEVEDB_FILTER_BLOCKED_BLOOM = 1,
  SIEVEDB_FILTER_DENSE_BLOCKED_BLOOM = 2,
  SIEVEDB_FILTER_BLOOM = 3,
  SIEVEDB_FILTER_RIBBON = 4,
  SIEVEDB_FILTER_BINARY_FUSE = 5,
  SIEVEDB_FILTER_COUNTING_BLOOM = 6,
  SIEVEDB_FILTER_CUCKOO = 7,
  SIEVEDB_FILTER_SCALABLE_BLOOM = 8
} sievedb_filter_kind;

// The hash that all functions below with a key apply to it: XXH3-64 with seed 0.
SIEVEDB_EXPORT uint64_t sievedb_filter_hash(const char* key, size_t key_bytes);

// An empty filter for that many keys, with either bits per key or a false-positive
// rate; the other one is 0.
//
// Errors: the ranges are those of the kind's class; a kind that is built once from all
// keys (2, 4, 5) is refused; no memory.
SIEVEDB_EXPORT sievedb_filter* sievedb_filter_create(sievedb_filter_kind kind, uint64_t keys,
                                                     double bits_per_key, double fpr, char** error);

// A filter of any kind with the keys of these hashes. A binary fuse filter needs
// neither bits per key nor rate.
SIEVEDB_EXPORT sievedb_filter* sievedb_filter_build(sievedb_filter_kind kind, double bits_per_key,
                                                    double fpr, const uint64_t* hashes,
                                                    size_t count, char** error);

// A filter with a copy of what sievedb_filter_serialize wrote.
//
// Errors: damaged bytes; no memory.
SIEVEDB_EXPORT sievedb_filter* sievedb_filter_deserialize(const char* bytes, size_t size,
                                                          char** error);

// A filter over the bytes themselves, which outlive it; for filters that are shared by
// mmap. It can be asked and nothing else: adding, removing and serializing fail.
//
// Errors: damaged bytes. Cost: reads all of them once.
SIEVEDB_EXPORT sievedb_filter* sievedb_filter_open(const char* bytes, size_t size, char** error);

// NULL is fine.
SIEVEDB_EXPORT void sievedb_filter_destroy(sievedb_filter* filter);

// False where the filter cannot take the key, and is unchanged: it is full, of a kind
// that is built once from all keys (4, 5), or only opened.
SIEVEDB_EXPORT bool sievedb_filter_add(sievedb_filter* filter, const char* key, size_t key_bytes);
SIEVEDB_EXPORT bool sievedb_filter_add_hash(sievedb_filter* filter, uint64_t hash);

// Requires: the key was added, and not removed since. False where nothing was removed:
// the filter can tell that the key is not there, or the kind (all but 6, 7) cannot.
SIEVEDB_EXPORT bool sievedb_filter_remove(sievedb_filter* filter, const char* key,
                                          size_t key_bytes);
SIEVEDB_EXPORT bool sievedb_filter_remove_hash(sievedb_filter* filter, uint64_t hash);

// False is certain: the key was not added.
SIEVEDB_EXPORT bool sievedb_filter_contains(const sievedb_filter* filter, const char* key,
                                            size_t key_bytes);
SIEVEDB_EXPORT bool sievedb_filter_contains_hash(const sievedb_filter* filter, uint64_t hash);

// results[i] says whether keys[i], of key_bytes[i] bytes, may be there; several times
// faster than one by one where the filter is larger than the CPU's cache.
SIEVEDB_EXPORT void sievedb_filter_contains_many(const sievedb_filter* filter,
                                                 const char* const* keys, const size_t* key_bytes,
                                                 size_t count, bool* results);
SIEVEDB_EXPORT void sievedb_filter_contains_many_hashes(const sievedb_filter* filter,
                                                        const uint64_t* hashes, size_t count,
                                                        bool* results);

// Bytes for any later version, on any CPU; *size is their number, and sievedb_free takes
// them. NULL where the filter is only opened, or there is no memory.
SIEVEDB_EXPORT char* sievedb_filter_serialize(const sievedb_filter* filter, size_t* size);

SIEVEDB_EXPORT sievedb_filter_kind sievedb_filter_get_kind(const sievedb_filter* filter);
// Keys that were added.
SIEVEDB_EXPORT uint64_t sievedb_filter_keys(const sievedb_filter* filter);
// From the bits really set. Cost: reads every bit.
SIEVEDB_EXPORT double sievedb_filter_estimated_fpr(const sievedb_filter* filter);
SIEVEDB_EXPORT size_t sievedb_filter_memory_bytes(const sievedb_filter* filter);

// Frees a message or serialized bytes. NULL is fine.
SIEVEDB_EXPORT void sievedb_free(void* memory);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // SIEVEDB_FILTER_C_H_
