#include "table/table_properties.h"

#include <algorithm>
#include <bit>
#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "table/format.h"
#include "table/internal_key.h"
#include "util/coding.h"

namespace sievedb {
namespace {

// Numbers are varints, except the double and the hash seed, which are their 8 bytes.
enum PropertyId : uint32_t {
  kEntries = 1,
  kTombstones = 2,
  kDistinctUserKeys = 3,
  kDataBlocks = 4,
  kRawKeyBytes = 5,
  kRawValueBytes = 6,
  kRawDataBytes = 7,
  kDataBytes = 8,
  kIndexBytes = 9,
  kFilterBytes = 10,
  kSmallestSequence = 11,
  kLargestSequence = 12,
  kSmallestKey = 13,
  kLargestKey = 14,
  kCompression = 15,
  kComparatorName = 16,
  kFilterName = 17,
  kFilterBitsPerKey = 18,
  kFilterProbes = 19,
  kCreationSeconds = 20,
  kFileNumber = 21,
  kDbId = 22,
  kCreatedBy = 23,
  kHashSeed = 24,
  kPrefixExtractorName = 25,
  kPrefixes = 26,
  kRangeTombstones = 27,
};

void AppendBytes(std::string* to, PropertyId id, std::string_view bytes) {
  AppendVarint32(to, id);
  AppendLengthPrefixed(to, bytes);
}

void AppendNumber(std::string* to, PropertyId id, uint64_t value) {
  char bytes[kMaxVarint64Bytes];
  char* const end = EncodeVarint64(bytes, value);
  AppendBytes(to, id, {bytes, static_cast<size_t>(end - bytes)});
}

struct NumberField {
  PropertyId id;
  uint64_t TableProperties::*field;
};
constexpr NumberField kNumbersBeforeKeys[] = {
    {kEntries, &TableProperties::entries},
    {kTombstones, &TableProperties::tombstones},
    {kDistinctUserKeys, &TableProperties::distinct_user_keys},
    {kDataBlocks, &TableProperties::data_blocks},
    {kRawKeyBytes, &TableProperties::raw_key_bytes},
    {kRawValueBytes, &TableProperties::raw_value_bytes},
    {kRawDataBytes, &TableProperties::raw_data_bytes},
    {kDataBytes, &TableProperties::data_bytes},
    {kIndexBytes, &TableProperties::index_bytes},
    {kFilterBytes, &TableProperties::filter_bytes},
    {kSmallestSequence, &TableProperties::smallest_sequence},
    {kLargestSequence, &TableProperties::largest_sequence},
};
constexpr NumberField kNumbersAfterKeys[] = {
    {kCreationSeconds, &TableProperties::creation_seconds},
    {kFileNumber, &TableProperties::file_number},
    {kDbId, &TableProperties::db_id},
};

bool DecodeNumber(std::string_view bytes, uint64_t* value) {
  const char* const end = bytes.data() + bytes.size();
  return DecodeVarint64(bytes.data(), end, value) == end && !bytes.empty();
}

// False where bytes are not a value of the property. One that is not known is well.
bool DecodeProperty(uint32_t id, std::string_view bytes, TableProperties* properties) {
  for (const NumberField& number : kNumbersBeforeKeys) {
    if (number.id == id) return DecodeNumber(bytes, &(properties->*number.field));
  }
  for (const NumberField& number : kNumbersAfterKeys) {
    if (number.id == id) return DecodeNumber(bytes, &(properties->*number.field));
  }
  uint64_t number = 0;
  switch (id) {
    case kSmallestKey:
      properties->smallest_key = bytes;
      return bytes.size() >= kTagBytes;
    case kLargestKey:
      properties->largest_key = bytes;
      return bytes.size() >= kTagBytes;
    case kCompression:
      if (!DecodeNumber(bytes, &number) || number > 255) return false;
      properties->compression = static_cast<Compression>(number);
      return true;
    case kComparatorName:
      properties->comparator_name = bytes;
      return true;
    case kFilterName:
      properties->filter_name = bytes;
      return true;
    case kFilterBitsPerKey:
      if (bytes.size() != sizeof(uint64_t)) return false;
      properties->filter_bits_per_key = std::bit_cast<double>(DecodeFixed64(bytes.data()));
      return true;
    case kFilterProbes:
      if (!DecodeNumber(bytes, &number) || number > 255) return false;
      properties->filter_probes = static_cast<int>(number);
      return true;
    case kCreatedBy:
      properties->created_by = bytes;
      return true;
    case kHashSeed:
      if (bytes.size() != sizeof(uint64_t)) return false;
      properties->hash_seed = DecodeFixed64(bytes.data());
      return true;
    case kPrefixExtractorName:
      properties->prefix_extractor_name = bytes;
      return !bytes.empty();
    case kPrefixes:
      return DecodeNumber(bytes, &properties->prefixes);
    case kRangeTombstones:
      return DecodeNumber(bytes, &properties->range_tombstones);
    default:
      return true;
  }
}

}  // namespace

void AddRangeTombstones(const RangeTombstones& tombstones, const KeyOrder& order,
                        TableProperties* properties) {
  TableProperties& to = *properties;
  const std::string_view begin = tombstones.fragments().front().begin;
  const std::string_view end = tombstones.fragments().back().end;
  const uint64_t smallest = tombstones.smallest_sequence();
  const uint64_t largest = tombstones.largest_sequence();
  const bool only = to.entries == 0;
  if (only || order.Compare(begin, UserKey(to.smallest_key)) <= 0) {
    to.smallest_key.clear();
    AppendInternalKey(&to.smallest_key, begin, kMaxTag);
  }
  if (only || order.Compare(end, UserKey(to.largest_key)) > 0) {
    to.largest_key.clear();
    AppendInternalKey(&to.largest_key, end, kMaxTag);
  }
  to.smallest_sequence = only ? smallest : std::min(to.smallest_sequence, smallest);
  to.largest_sequence = only ? largest : std::max(to.largest_sequence, largest);
  to.range_tombstones = tombstones.count();
}

std::string EncodeTableProperties(const TableProperties& properties) {
  std::string block;
  for (const NumberField& number : kNumbersBeforeKeys) {
    AppendNumber(&block, number.id, properties.*number.field);
  }
  AppendBytes(&block, kSmallestKey, properties.smallest_key);
  AppendBytes(&block, kLargestKey, properties.largest_key);
  AppendNumber(&block, kCompression, static_cast<uint64_t>(properties.compression));
  AppendBytes(&block, kComparatorName, properties.comparator_name);
  AppendBytes(&block, kFilterName, properties.filter_name);
  char bits[sizeof(uint64_t)];
  EncodeFixed64(bits, std::bit_cast<uint64_t>(properties.filter_bits_per_key));
  AppendBytes(&block, kFilterBitsPerKey, {bits, sizeof(bits)});
  AppendNumber(&block, kFilterProbes, static_cast<uint64_t>(properties.filter_probes));
  for (const NumberField& number : kNumbersAfterKeys) {
    AppendNumber(&block, number.id, properties.*number.field);
  }
  AppendBytes(&block, kCreatedBy, properties.created_by);
  if (properties.hash_seed != 0) {
    char seed[sizeof(uint64_t)];
    EncodeFixed64(seed, properties.hash_seed);
    AppendBytes(&block, kHashSeed, {seed, sizeof(seed)});
  }
  if (!properties.prefix_extractor_name.empty()) {
    AppendBytes(&block, kPrefixExtractorName, properties.prefix_extractor_name);
    AppendNumber(&block, kPrefixes, properties.prefixes);
  }
  if (properties.range_tombstones != 0) {
    AppendNumber(&block, kRangeTombstones, properties.range_tombstones);
  }
  return block;
}

absl::StatusOr<TableProperties> DecodeTableProperties(std::string_view bytes) {
  TableProperties properties;
  ByteReader in(bytes);
  uint32_t last_id = 0;
  while (!in.done()) {
    const size_t at = bytes.size() - in.rest().size();
    const uint32_t id = in.Varint32();
    const std::string_view value = in.LengthPrefixed();
    if (!in.ok()) {
      return absl::DataLossError(absl::StrFormat("properties: cut short at byte %d", at));
    }
    if (id <= last_id) {
      return absl::DataLossError(absl::StrFormat(
          "properties: byte %d: expected a property above %d, found %d", at, last_id, id));
    }
    last_id = id;
    if (!DecodeProperty(id, value, &properties)) {
      return absl::DataLossError(
          absl::StrFormat("properties: byte %d: property %d has a malformed value of %d bytes", at,
                          id, value.size()));
    }
  }
  if (properties.smallest_key.empty() || properties.largest_key.empty() ||
      (properties.entries == 0 && properties.range_tombstones == 0)) {
    return absl::DataLossError("properties: the entries or the key range are missing");
  }
  return properties;
}

}  // namespace sievedb
