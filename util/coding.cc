#include "util/coding.h"

namespace sievedb {

void AppendFixed32(std::string* to, uint32_t v) {
  char bytes[sizeof(v)];
  EncodeFixed32(bytes, v);
  to->append(bytes, sizeof(bytes));
}

void AppendFixed64(std::string* to, uint64_t v) {
  char bytes[sizeof(v)];
  EncodeFixed64(bytes, v);
  to->append(bytes, sizeof(bytes));
}

void AppendVarint32(std::string* to, uint32_t v) {
  char bytes[kMaxVarint32Bytes];
  const char* const end = EncodeVarint32(bytes, v);
  to->append(bytes, static_cast<size_t>(end - bytes));
}

void AppendVarint64(std::string* to, uint64_t v) {
  char bytes[kMaxVarint64Bytes];
  const char* const end = EncodeVarint64(bytes, v);
  to->append(bytes, static_cast<size_t>(end - bytes));
}

void AppendLengthPrefixed(std::string* to, std::string_view bytes) {
  AppendVarint64(to, bytes.size());
  to->append(bytes);
}

char* EncodeVarint32(char* to, uint32_t v) { return EncodeVarint64(to, v); }

char* EncodeVarint64(char* to, uint64_t v) {
  while (v >= 0x80) {
    *to++ = static_cast<char>(v | 0x80);
    v >>= 7;
  }
  *to++ = static_cast<char>(v);
  return to;
}

int VarintLength(uint64_t v) {
  // One byte for every 7 significant bits; zero has one too.
  return (std::bit_width(v | 1) + 6) / 7;
}

const char* DecodeVarint64(const char* from, const char* limit, uint64_t* v) {
  uint64_t result = 0;
  for (int shift = 0; shift < 64 && from < limit; shift += 7) {
    const uint64_t byte = static_cast<unsigned char>(*from++);
    // The tenth byte has room for the topmost bit alone.
    if (shift == 63 && byte > 1) return nullptr;
    result |= (byte & 0x7f) << shift;
    if ((byte & 0x80) == 0) {
      *v = result;
      return from;
    }
  }
  return nullptr;
}

const char* DecodeVarint32Slow(const char* from, const char* limit, uint32_t* v) {
  uint32_t result = 0;
  for (int shift = 0; shift < 32 && from < limit; shift += 7) {
    const uint32_t byte = static_cast<unsigned char>(*from++);
    // The fifth byte has room for four bits.
    if (shift == 28 && byte > 0x0f) return nullptr;
    result |= (byte & 0x7f) << shift;
    if ((byte & 0x80) == 0) {
      *v = result;
      return from;
    }
  }
  return nullptr;
}

std::string_view ByteReader::Fail() {
  ok_ = false;
  rest_ = {};
  return {};
}

uint8_t ByteReader::Byte() {
  const std::string_view bytes = Bytes(1);
  return bytes.empty() ? 0 : static_cast<uint8_t>(bytes[0]);
}

uint32_t ByteReader::Fixed32() {
  const std::string_view bytes = Bytes(sizeof(uint32_t));
  return bytes.empty() ? 0 : DecodeFixed32(bytes.data());
}

uint64_t ByteReader::Fixed64() {
  const std::string_view bytes = Bytes(sizeof(uint64_t));
  return bytes.empty() ? 0 : DecodeFixed64(bytes.data());
}

uint32_t ByteReader::Varint32() {
  uint32_t v = 0;
  const char* const end = DecodeVarint32(rest_.data(), rest_.data() + rest_.size(), &v);
  if (end == nullptr) {
    Fail();
    return 0;
  }
  rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
  return v;
}

uint64_t ByteReader::Varint64() {
  uint64_t v = 0;
  const char* const end = DecodeVarint64(rest_.data(), rest_.data() + rest_.size(), &v);
  if (end == nullptr) {
    Fail();
    return 0;
  }
  rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
  return v;
}

std::string_view ByteReader::Bytes(uint64_t n) {
  // Once failed, nothing is left, but reading zero bytes must not look like success.
  if (n > rest_.size() || !ok_) return Fail();
  const std::string_view bytes = rest_.substr(0, static_cast<size_t>(n));
  rest_.remove_prefix(static_cast<size_t>(n));
  return bytes;
}

std::string_view ByteReader::LengthPrefixed() {
  const uint64_t n = Varint64();
  return ok_ ? Bytes(n) : std::string_view();
}

}  // namespace sievedb
