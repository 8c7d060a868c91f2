#ifndef SIEVEDB_UTIL_CODING_H_
#define SIEVEDB_UTIL_CODING_H_

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace sievedb {

static_assert(std::endian::native == std::endian::little,
              "fixed-width fields are stored as they lie in memory");

// Little-endian fixed width, and LEB128 varints.

inline void EncodeFixed32(char* to, uint32_t v) { std::memcpy(to, &v, sizeof(v)); }
inline void EncodeFixed64(char* to, uint64_t v) { std::memcpy(to, &v, sizeof(v)); }
inline uint32_t DecodeFixed32(const char* from) {
  uint32_t v;
  std::memcpy(&v, from, sizeof(v));
  return v;
}
inline uint64_t DecodeFixed64(const char* from) {
  uint64_t v;
  std::memcpy(&v, from, sizeof(v));
  return v;
}

void AppendFixed32(std::string* to, uint32_t v);
void AppendFixed64(std::string* to, uint64_t v);
void AppendVarint32(std::string* to, uint32_t v);
void AppendVarint64(std::string* to, uint64_t v);
void AppendLengthPrefixed(std::string* to, std::string_view bytes);  // varint64 length, bytes

inline constexpr int kMaxVarint32Bytes = 5;
inline constexpr int kMaxVarint64Bytes = 10;
// Writes v at to and returns the end; needs kMaxVarint…Bytes of room.
char* EncodeVarint32(char* to, uint32_t v);
char* EncodeVarint64(char* to, uint64_t v);
int VarintLength(uint64_t v);

// Reads a varint from [from, limit) and returns its end, or nullptr where it is
// cut short or does not fit the type.
const char* DecodeVarint64(const char* from, const char* limit, uint64_t* v);
const char* DecodeVarint32Slow(const char* from, const char* limit, uint32_t* v);
inline const char* DecodeVarint32(const char* from, const char* limit, uint32_t* v) {
  if (from < limit) [[likely]] {
    const uint32_t byte = static_cast<unsigned char>(*from);
    if ((byte & 0x80) == 0) [[likely]] {
      *v = byte;
      return from + 1;
    }
  }
  return DecodeVarint32Slow(from, limit, v);
}

// Reads fields off the front of bytes that are not trusted. Once a read fails,
// ok() is false and every later read returns zero or nothing.
class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : rest_(bytes) {}
  uint8_t Byte();
  uint32_t Fixed32();
  uint64_t Fixed64();
  uint32_t Varint32();
  uint64_t Varint64();
  std::string_view Bytes(uint64_t n);
  std::string_view LengthPrefixed();
  bool ok() const { return ok_; }
  bool done() const { return rest_.empty(); }
  std::string_view rest() const { return rest_; }

 private:
  std::string_view Fail();
  std::string_view rest_;
  bool ok_ = true;
};

}  // namespace sievedb

#endif  // SIEVEDB_UTIL_CODING_H_
