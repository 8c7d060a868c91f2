// The C header from C: compiled as C99, linked to the library as a C program would be.

#include "sievedb/filter_c.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                             \
  do {                                                                               \
    if (!(condition)) {                                                              \
      fprintf(stderr, "%s:%d: kind %d: %s\n", __FILE__, __LINE__, kind, #condition); \
      exit(1);                                                                       \
    }                                                                                \
  } while (0)

enum { kKeys = 2000, kAsked = 3000 };

static int is_static(int kind) {
  return kind == SIEVEDB_FILTER_RIBBON || kind == SIEVEDB_FILTER_BINARY_FUSE;
}

static double bits_per_key(int kind) {
  return kind == SIEVEDB_FILTER_COUNTING_BLOOM ? 40 : kind == SIEVEDB_FILTER_BINARY_FUSE ? 0 : 13;
}

// Every way of asking gives the same answers, and no key is denied.
static void check_answers(const sievedb_filter* f, int kind) {
  static char texts[kAsked][16];
  static const char* keys[kAsked];
  static size_t sizes[kAsked];
  static uint64_t hashes[kAsked];
  static bool many[kAsked];
  static bool many_hashes[kAsked];
  int maybe = 0;
  for (int i = 0; i < kAsked; ++i) {
    sizes[i] = (size_t)snprintf(texts[i], sizeof(texts[i]), "key%d", i);
    keys[i] = texts[i];
    hashes[i] = sievedb_filter_hash(keys[i], sizes[i]);
  }
  sievedb_filter_contains_many(f, keys, sizes, kAsked, many);
  sievedb_filter_contains_many_hashes(f, hashes, kAsked, many_hashes);
  for (int i = 0; i < kAsked; ++i) {
    const bool one = sievedb_filter_contains(f, keys[i], sizes[i]);
    CHECK(one == sievedb_filter_contains_hash(f, hashes[i]));
    CHECK(one == many[i] && one == many_hashes[i]);
    CHECK(one || i >= kKeys);
    if (i >= kKeys && one) ++maybe;
  }
  CHECK(maybe < (kAsked - kKeys) / 20);
}

static void check_serialized(const sievedb_filter* f, int kind) {
  char* error = NULL;
  size_t size = 0;
  char* const bytes = sievedb_filter_serialize(f, &size);
  CHECK(bytes != NULL && size > 40);
  sievedb_filter* const copy = sievedb_filter_deserialize(bytes, size, &error);
  CHECK(copy != NULL && error == NULL);
  sievedb_filter* const opened = sievedb_filter_open(bytes, size, &error);
  CHECK(opened != NULL && error == NULL);
  CHECK((int)sievedb_filter_get_kind(copy) == kind);
  CHECK((int)sievedb_filter_get_kind(opened) == kind);
  CHECK(sievedb_filter_keys(copy) == sievedb_filter_keys(f));
  CHECK(sievedb_filter_keys(opened) == sievedb_filter_keys(f));
  CHECK(sievedb_filter_estimated_fpr(opened) == sievedb_filter_estimated_fpr(f));
  check_answers(copy, kind);
  check_answers(opened, kind);
  CHECK(!sievedb_filter_add(opened, "new", 3));
  CHECK(!sievedb_filter_remove(opened, "key1", 4));
  CHECK(sievedb_filter_serialize(opened, &size) == NULL && size == 0);
  CHECK(sievedb_filter_add(copy, "new", 3) == !is_static(kind));
  CHECK(is_static(kind) || sievedb_filter_contains(copy, "new", 3));
  sievedb_filter_destroy(opened);
  sievedb_filter_destroy(copy);

  bytes[0] ^= 1;
  size = 48;
  CHECK(sievedb_filter_deserialize(bytes, size, &error) == NULL && strlen(error) > 0);
  sievedb_free(error);
  error = NULL;
  CHECK(sievedb_filter_open(bytes, size, &error) == NULL && strlen(error) > 0);
  sievedb_free(error);
  CHECK(sievedb_filter_open(bytes, 0, NULL) == NULL);
  sievedb_free(bytes);
}

int main(void) {
  static uint64_t hashes[kKeys];
  char key[16];
  for (int i = 0; i < kKeys; ++i) {
    hashes[i] = sievedb_filter_hash(key, (size_t)snprintf(key, sizeof(key), "key%d", i));
  }
  for (int kind = SIEVEDB_FILTER_BLOCKED_BLOOM; kind <= SIEVEDB_FILTER_SCALABLE_BLOOM; ++kind) {
    char* error = NULL;
    sievedb_filter* f = sievedb_filter_build((sievedb_filter_kind)kind, bits_per_key(kind), 0,
                                             hashes, kKeys, &error);
    CHECK(f != NULL && error == NULL);
    CHECK(sievedb_filter_memory_bytes(f) > kKeys);
    CHECK(sievedb_filter_keys(f) > kKeys - kKeys / 50 && sievedb_filter_keys(f) <= kKeys);
    check_answers(f, kind);
    check_serialized(f, kind);
    const bool removes = kind == SIEVEDB_FILTER_COUNTING_BLOOM || kind == SIEVEDB_FILTER_CUCKOO;
    CHECK(sievedb_filter_remove(f, "key1", 4) == removes);
    CHECK(sievedb_filter_keys(f) <= kKeys - (removes ? 1U : 0U));
    sievedb_filter_destroy(f);

    // One key after the other, where the kind can.
    f = sievedb_filter_create((sievedb_filter_kind)kind, kKeys, bits_per_key(kind), 0, &error);
    CHECK((f == NULL) == (is_static(kind) || kind == SIEVEDB_FILTER_DENSE_BLOCKED_BLOOM));
    if (f == NULL) {
      CHECK(strlen(error) > 0);
      sievedb_free(error);
      continue;
    }
    for (int i = 0; i < kKeys; ++i) {
      CHECK(sievedb_filter_add(f, key, (size_t)snprintf(key, sizeof(key), "key%d", i)));
    }
    check_answers(f, kind);
    sievedb_filter_destroy(f);
    CHECK(sievedb_filter_create((sievedb_filter_kind)kind, kKeys, 0, 0, NULL) == NULL);
  }
  const int kind = 99;
  CHECK(sievedb_filter_create((sievedb_filter_kind)kind, 1, 10, 0, NULL) == NULL);
  CHECK(sievedb_filter_build((sievedb_filter_kind)kind, 10, 0, hashes, 1, NULL) == NULL);
  sievedb_filter_destroy(NULL);
  sievedb_free(NULL);
  puts("filter_c_test: ok");
  return 0;
}
